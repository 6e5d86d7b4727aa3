"""Parameters of which each process has a part: `DTensor`, as `torch.distributed.fsdp.fully_shard` makes them.

The line works on the parts that are here. What is shown to others (checkpoints, which may be read by another number of
processes) is whole again.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is spread over a mesh of processes."""
    return hasattr(tensor, "device_mesh") and hasattr(tensor, "to_local")


def shards(parameter: Tensor) -> int:
    """Into how many different parts a parameter is split."""
    if not is_sharded(parameter):
        return 1
    spread = cast(Any, parameter)
    sizes = zip(spread.device_mesh.shape, spread.placements, strict=True)
    return math.prod(size for size, placement in sizes if not placement.is_replicate())  # strided shards are others


@torch.no_grad()
def local(tensor: Tensor) -> Tensor:
    """The part that is here; it shares memory with the whole."""
    return cast(Any, tensor).to_local() if is_sharded(tensor) else tensor


def local_gradient(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of the part of a parameter that is here."""
    if not is_sharded(parameter):
        return gradient
    placements = cast(Any, parameter).placements
    if cast(Any, gradient).placements != placements:
        gradient = cast(Any, gradient).redistribute(placements=placements)
    return local(gradient)


def whole(part: Tensor, parameter: Tensor) -> Tensor:
    """A tensor spread as a parameter is, of which this is the part that is here; it shares memory with the part."""
    if not is_sharded(parameter):
        return part
    from torch.distributed.tensor import DTensor

    spread = cast(DTensor, parameter)
    return DTensor.from_local(
        part, spread.device_mesh, spread.placements, run_check=False, shape=spread.shape, stride=spread.stride()
    )
