"""Measure lengths and inner products of vectors given as one tensor per parameter.

All numbers of one evaluation are copied from the device to the host in one transfer. Temporary tensors are bounded in
size, whatever the size of a parameter: what has to be converted or copied is processed in pieces.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from gradline.torch.private import foreach_norm

HALF = (torch.bfloat16, torch.float16)
_NOTHING = nullcontext()
_PIECE, _PIECE_ELSEWHERE = 2**16, 2**22
"""Elements of a piece of a tensor: on a CPU they fit into the cache; elsewhere a launch takes less time than they."""


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
        self, parameters: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor], *more: Tensor
    ) -> tuple[float, float, float, list[float]]:
        """Return the result of `gram` for vectors over these parameters; `more` are this process's own."""
        return gram(first, second, *more)

    def total(self, parameters: Sequence[Tensor], products: Sequence[Tensor]) -> float:
        """Return the sum of inner products, each of (pieces of) vectors over one of these parameters."""
        return sum(to_host(products))

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


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield views of corresponding parts of tensors of one shape, of a bounded number of elements each."""
    first = tensors[0]
    limit = _PIECE if first.is_cpu else _PIECE_ELSEWHERE
    if first.numel() <= limit:
        yield tensors
        return
    flat = in_memory_order(*tensors)
    if flat is not None:
        yield from zip(*(torch.split(tensor, limit) for tensor in flat), strict=True)
        return
    longest = max(range(first.dim()), key=first.shape.__getitem__)
    size = max(1, limit * first.shape[longest] // first.numel())
    for parts in zip(*(torch.split(tensor, size, longest) for tensor in tensors), strict=True):
        yield from pieces(*parts)


def extremes(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return scalars, among them the largest and the smallest element or the largest absolute value; NaN if any is."""
    filled = [tensor for tensor in tensors if tensor.numel()]
    if filled and single_pass(filled):
        return [extreme for tensor in filled for (piece,) in pieces(tensor) for extreme in torch.aminmax(piece)]
    return foreach_norm(filled, None, math.inf) if filled else []


def measure(vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor) -> tuple[float, float, list[float]]:
    """Return the length of a vector, its inner product with another, and `more` scalars, in one transfer.

    Both vectors are sequences of tensors, one for each parameter; without `others` the product is 0.
    """
    norm, product, values = _measure(vectors, others, more)
    in_range = 0.0 < norm < math.inf and math.isfinite(product)
    if not in_range and any(part.dtype != widest(part) for part in vectors):
        # Squares and products overflow and underflow long before lengths do.
        return _measure(vectors, others, more, widest(vectors[0]))
    return norm, product, values


def _measure(
    vectors: Sequence[Tensor], others: Sequence[Tensor], more: Sequence[Tensor], dtype: torch.dtype | None = None
) -> tuple[float, float, list[float]]:
    count = len(vectors)
    products = [dot(part, other, dtype) for part, other in zip(vectors, others, strict=False)]
    if single_pass(vectors):
        numbers = to_host([*(dot(part, part, dtype) for part in vectors), *products, *more])
        norm = math.sqrt(sum(numbers[:count]))
    else:
        precise = torch.float32 if any(part.dtype in HALF for part in vectors) else None
        numbers = to_host([*foreach_norm(vectors, dtype or precise), *products, *more])
        norm = math.hypot(*numbers[:count])
    end = count + len(products)
    return norm, sum(numbers[count:end]), numbers[end:]


def gram(first: Sequence[Tensor], second: Sequence[Tensor], *more: Tensor) -> tuple[float, float, float, list[float]]:
    """Return a·a, a·b and b·b of two vectors, and `more` scalars, in one transfer.

    Products that overflow, or a length of 0, are computed again in float64.
    """
    aa, ab, bb, values = _gram(first, second, more)
    in_range = aa != 0.0 and all(map(math.isfinite, (aa, ab, bb)))
    if not in_range and any(part.dtype != widest(part) for part in first):
        return _gram(first, second, more, widest(first[0]))
    return aa, ab, bb, values


def _gram(
    first: Sequence[Tensor], second: Sequence[Tensor], more: Sequence[Tensor], dtype: torch.dtype | None = None
) -> tuple[float, float, float, list[float]]:
    products: list[Tensor] = []
    for a, b in zip(first, second, strict=True):  # products of small tensors find them in the cache
        products += (dot(a, a, dtype), dot(a, b, dtype), dot(b, b, dtype))
    numbers, end = to_host([*products, *more]), len(products)
    return sum(numbers[0:end:3]), sum(numbers[1:end:3]), sum(numbers[2:end:3]), numbers[end:]


def dot(left: Tensor, right: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the inner product of two tensors of one shape, computed in a dtype; if none is given, in theirs.

    Half precision loses the digits of a sum: such tensors are converted to float32.
    """
    if dtype is None:
        dtype = torch.float32 if left.dtype in HALF else left.dtype
    if left.dtype == right.dtype == dtype:
        if left.is_contiguous() and right.is_contiguous():
            if left.dim() == 1:
                return torch.dot(left, right)
            flat = left.view(-1)
            return torch.dot(flat, flat if right is left else right.view(-1))
        ordered = in_memory_order(left, right)
        if ordered is not None:
            return torch.dot(*ordered)
    parts = ((part, part) for (part,) in pieces(left)) if right is left else pieces(left, right)
    products = [torch.dot(*_as_vectors(one.to(dtype), other.to(dtype))) for one, other in parts]
    return products[0] if len(products) == 1 else torch.stack(products).sum()


def _as_vectors(left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
    flat = in_memory_order(left, right) if left.dim() > 1 else None
    return flat or (left.reshape(-1), right.reshape(-1))


def widest(tensor: Tensor) -> torch.dtype:
    """Return the dtype with the widest range that the device of a tensor has."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def in_memory_order(*tensors: Tensor) -> tuple[Tensor, ...] | None:
    """Return tensors of one layout without gaps (such as channels_last) as vectors that share their memory."""
    stride = tensors[0].stride()
    order = sorted(range(len(stride)), key=stride.__getitem__, reverse=True)
    if any(tensor.stride() != stride for tensor in tensors) or not tensors[0].permute(order).is_contiguous():
        return None
    return tuple(tensor.permute(order).view(-1) for tensor in tensors)


def to_host(scalars: Sequence[Tensor]) -> list[float]:
    """Copy all scalars to the host in one transfer."""
    if not scalars:
        return []
    device = scalars[0].device
    here = [scalar if scalar.device == device else scalar.to(device) for scalar in scalars]
    numbers: list[float] = torch.stack(here).tolist()
    return numbers
