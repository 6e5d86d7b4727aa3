"""Measure lengths and inner products of vectors given as one tensor per parameter.

All numbers of one evaluation are copied from the device to the host in one transfer.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from gradline.torch.private import foreach_norm

HALF = (torch.bfloat16, torch.float16)
_NOTHING = nullcontext()


class LocalReduce:
    """Reduction of measurements in a single process; `DistributedReduce` reduces over several."""

    size = 1
    gathered: Sequence[weakref.ref[Any]] = ()  # modules that may hold unsharded copies of parameters

    def begin(self, settings: Callable[[], Mapping[str, str]]) -> None:
        """Begin a step with these settings."""

    def at(self, search: int, probe: int, step: float) -> None:
        """Set the index of search and probe (0: the origin) and the step of the next evaluation."""

    def measure(
        self, parameters: Sequence[Tensor], vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor
    ) -> tuple[float, float, list[float]]:
        """Return the result of `measure` for vectors over these parameters."""
        return measure(vectors, others, *more)

    def gram(
        self, parameters: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor]
    ) -> tuple[float, float, float]:
        """Return the result of `gram` for vectors over these parameters."""
        return gram(first, second)

    def pooled(self, count: int, mean: float, variance: float) -> tuple[float, float]:
        """Return mean and variance of the mean, pooled over the samples of all processes."""
        return mean, variance

    def any(self, here: bool) -> bool:
        """Return whether `here` is true in any process; all processes must call it."""
        return here

    def moved(self) -> None:
        """Discard unsharded copies of parameters, which `fully_shard` keeps after evaluation without backward."""
        for reference in self.gathered:
            module = reference()
            if module is not None:
                module.reshard()

    def telling(self) -> AbstractContextManager[None]:
        """Context manager before an exchange of numbers: an exception in one process is raised in all."""
        return _NOTHING

    def failing_together(self, *, in_forward: bool = False) -> AbstractContextManager[None]:
        """Context manager of an evaluation: a failure in one process fails in all. `in_forward`: forward has begun."""
        return _NOTHING


def is_small(tensors: Sequence[Tensor]) -> bool:
    """Return whether calls take more time than arithmetic, so that it pays to copy the tensors into one.

    They are on a CPU, of one dtype that is not half precision, and have few elements (a mean of 4096 at most, and less
    than a megabyte in float32).
    """
    first, size = tensors[0], sum(tensor.numel() for tensor in tensors)
    return (
        size <= min(2**12 * len(tensors), 2**18)
        and first.dtype in (torch.float32, torch.float64)
        and all(tensor.is_cpu and tensor.dtype == first.dtype for tensor in tensors)
    )


def views_of(flat: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return consecutive parts of a flat tensor in the shapes of parameters."""
    parts = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [part.view(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)]


def single_pass(tensors: Sequence[Tensor]) -> bool:
    """Return whether to process tensors one by one in a single pass instead of by foreach kernels."""
    return tensors[0].is_cpu


def measure(vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor) -> tuple[float, float, list[float]]:
    """Return the length of a vector, its inner product with another, and `more` scalars, in one transfer.

    Both vectors are sequences of tensors, one for each parameter; without `others` the product is 0.
    """
    norm, product, values = _measure(vectors, others, more)
    in_range = 0.0 < norm < math.inf and math.isfinite(product)
    if not in_range and any(v.dtype != torch.float64 for v in vectors) and vectors[0].device.type != "mps":
        # Squares and products overflow and underflow long before lengths do: repeat in float64.
        return _measure([part.double() for part in vectors], [other.double() for other in others], more)
    return norm, product, values


def _measure(
    vectors: Sequence[Tensor], others: Sequence[Tensor], more: Sequence[Tensor]
) -> tuple[float, float, list[float]]:
    count = len(vectors)
    products = [torch.dot(*_flat(part, other)) for part, other in zip(vectors, others, strict=False)]
    if single_pass(vectors):
        numbers = _to_host([*(torch.dot(*_flat(part, part)) for part in vectors), *products, *more])
        norm = math.sqrt(sum(numbers[:count]))
    else:
        precise = torch.float32 if any(part.dtype in HALF for part in vectors) else None
        numbers = _to_host([*foreach_norm(vectors, precise), *products, *more])
        norm = math.hypot(*numbers[:count])
    end = count + len(products)
    return norm, sum(numbers[count:end]), numbers[end:]


def gram(first: Sequence[Tensor], second: Sequence[Tensor]) -> tuple[float, float, float]:
    """Return a·a, a·b and b·b of two vectors, in one transfer.

    Products that overflow, or a length of 0, are computed again in float64.
    """
    numbers = _gram(first, second)
    if not all(map(math.isfinite, numbers)) or numbers[0] == 0.0:
        wide = any(part.dtype != torch.float64 for part in first) and first[0].device.type != "mps"
        return _gram([part.double() for part in first], [part.double() for part in second]) if wide else numbers
    return numbers


def _gram(first: Sequence[Tensor], second: Sequence[Tensor]) -> tuple[float, float, float]:
    count = len(first)
    pairs = [*zip(first, first, strict=True), *zip(first, second, strict=True), *zip(second, second, strict=True)]
    numbers = _to_host([torch.dot(*_flat(left, right)) for left, right in pairs])
    return sum(numbers[:count]), sum(numbers[count : 2 * count]), sum(numbers[2 * count :])


def _flat(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tensors of one shape as vectors, in float32 or better: half precision loses the digits of a sum."""
    if left.dtype in HALF:
        left, right = left.float(), right.float()
    if left.is_contiguous() and right.is_contiguous():
        flat = left.view(-1)
        return flat, flat if right is left else right.view(-1)
    if not left.is_contiguous() and left.stride() == right.stride():
        # Permuted to memory order (channels_last), both can be flattened without a copy.
        order = sorted(range(left.ndim), key=left.stride, reverse=True)
        left, right = left.permute(order), right.permute(order)
    return left.reshape(-1), right.reshape(-1)


def _to_host(scalars: Sequence[Tensor]) -> list[float]:
    """Copy all scalars to the host in one transfer."""
    device = scalars[0].device
    here = [scalar if scalar.device == device else scalar.to(device) for scalar in scalars]
    numbers: list[float] = torch.stack(here).tolist()
    return numbers
