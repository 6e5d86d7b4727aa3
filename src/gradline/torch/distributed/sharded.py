"""Sharded parameters: `DTensor`, as made by `torch.distributed.fsdp.fully_shard`.

The line works on the local shards. Checkpoints contain `DTensor`, so that another number of processes can read them.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

_PLAIN = (nn.Parameter, Tensor)


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is distributed over a mesh of processes."""
    return type(tensor) not in _PLAIN and hasattr(tensor, "device_mesh") and hasattr(tensor, "to_local")


def shards(parameter: Tensor) -> int:
    """Return the number of different shards of a parameter."""
    if not is_sharded(parameter):
        return 1
    spread = cast(Any, parameter)
    sizes = zip(spread.device_mesh.shape, spread.placements, strict=True)
    return math.prod(size for size, placement in sizes if not placement.is_replicate())  # shards have several classes


def local(tensor: Tensor) -> Tensor:
    """Return the local shard, which shares memory with the tensor."""
    if not is_sharded(tensor):
        return tensor
    with torch.no_grad():
        return cast(Tensor, cast(Any, tensor).to_local())


def local_gradient(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of the local shard of a parameter."""
    if not is_sharded(parameter):
        return gradient
    placements = cast(Any, parameter).placements
    if cast(Any, gradient).placements != placements:
        gradient = cast(Any, gradient).redistribute(placements=placements)
    return local(gradient)


def whole(part: Tensor, parameter: Tensor) -> Tensor:
    """Return a tensor sharded like a parameter, with this local shard; both share memory."""
    if not is_sharded(parameter):
        return part
    from torch.distributed.tensor import DTensor

    spread = cast(DTensor, parameter)
    return DTensor.from_local(
        part, spread.device_mesh, spread.placements, run_check=False, shape=spread.shape, stride=spread.stride()
    )
