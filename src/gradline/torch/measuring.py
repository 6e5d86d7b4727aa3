"""Lengths and inner products of vectors that come in parts, one for each parameter.

All numbers that a decision needs cross from the device to the host in one transfer.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gradline.torch.private import foreach_norm

_HALF = (torch.bfloat16, torch.float16)


class LocalReduce:
    """Reduces measurements in one process, where they are what they are. In several, `DistributedReduce` does it."""

    size = 1
    gathered: Sequence[weakref.ref[Any]] = ()  # modules that may hold whole copies of sharded parameters

    def begin(self, settings: Callable[[], Mapping[str, str]]) -> None:
        """A step begins, with these settings."""

    def at(self, search: int, probe: int, step: float) -> None:
        """The next evaluation is this probe of this search; probe 0 is the search's origin."""

    def measure(
        self, parameters: Sequence[Tensor], vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor
    ) -> tuple[float, float, list[float]]:
        """What `measure` says of vectors whose parts belong to these parameters."""
        return measure(vectors, others, *more)

    def pooled(self, count: int, mean: float, variance: float) -> tuple[float, float]:
        """The mean of a number over `count` samples, and the variance of that mean."""
        return mean, variance

    def any(self, here: bool) -> bool:
        """Whether something is so in any of the processes; all of them ask."""
        return here

    def moved(self) -> None:
        """Sharded parameters were moved: `fully_shard` must not go on with whole copies of them (as evaluation without
        a backward pass leaves them).
        """
        for reference in self.gathered:
            module = reference()
            if module is not None:
                module.reshard()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """For what comes just before the numbers of all ranks are exchanged: what fails here fails in all."""
        yield

    @contextmanager
    def failing_together(self, *, in_forward: bool = False) -> Iterator[None]:
        """For one evaluation: what fails in one process fails in all. `in_forward`: its forward pass has just begun."""
        yield


def single_pass(tensors: Sequence[Tensor]) -> bool:
    """Whether to go through tensors one by one, each once, rather than through all of them with each foreach kernel."""
    return tensors[0].is_cpu


def measure(vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor) -> tuple[float, float, list[float]]:
    """The length of a vector, its inner product with another, and `more` scalars, in one transfer.

    Both vectors come as their parts, one for each parameter; without `others` the product is 0.
    """
    norm, product, values = _measure(vectors, others, more)
    in_range = 0.0 < norm < math.inf and math.isfinite(product)
    if not in_range and any(v.dtype != torch.float64 for v in vectors) and vectors[0].device.type != "mps":
        # Squares and products overflow and underflow long before lengths do; only then is it worth to look closer.
        return _measure([part.double() for part in vectors], [other.double() for other in others], more)
    return norm, product, values


def _measure(
    vectors: Sequence[Tensor], others: Sequence[Tensor], more: Sequence[Tensor]
) -> tuple[float, float, list[float]]:
    count = len(vectors)
    products = [_dot(part, other) for part, other in zip(vectors, others, strict=False)]
    if single_pass(vectors):
        numbers = _to_host([*(_dot(part, part) for part in vectors), *products, *more])
        norm = math.sqrt(sum(numbers[:count]))
    else:
        precise = torch.float32 if any(part.dtype in _HALF for part in vectors) else None
        numbers = _to_host([*foreach_norm(vectors, precise), *products, *more])
        norm = math.hypot(*numbers[:count])
    end = count + len(products)
    return norm, sum(numbers[count:end]), numbers[end:]


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """An inner product, in float32 at least: half precision would lose the digits of the sum."""
    if left.dtype in _HALF:
        left, right = left.float(), right.float()
    if not left.is_contiguous() and left.stride() == right.stride():
        # In the order in which both lie in memory, as channels_last does, flattening them needs no copy.
        order = sorted(range(left.ndim), key=left.stride, reverse=True)
        left, right = left.permute(order), right.permute(order)
    return torch.dot(left.reshape(-1), right.reshape(-1))


def _to_host(scalars: Sequence[Tensor]) -> list[float]:
    """All scalars in one transfer."""
    device = scalars[0].device
    numbers: list[float] = torch.stack([scalar.to(device) for scalar in scalars]).tolist()
    return numbers
