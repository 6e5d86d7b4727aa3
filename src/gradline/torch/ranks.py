"""Training in several processes: every rank takes the same decisions, by construction.

A decision follows from a few numbers: the gradient's length, its slope along the line, the loss. Each rank measures its
part of them; all parts go to all ranks, bit for bit (`all_gather`), and every rank adds them up in the same order. So
no rank ever decides on a number of its own, and none makes an evaluation more than another and waits for it forever.

* Parameters that are whole on every rank (`DistributedDataParallel`): numbers are averaged, as the gradients were.
* Sharded ones (`fully_shard`): each rank has the products of its shards, and these are summed.

A rank that fails in an evaluation takes part in what the others are waiting for, tells them, and all raise.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn

from gradline.torch.measuring import Alone, measure
from gradline.torch.sharded import is_sharded, shards
from gradline.torch.substitute import Substitute

__all__ = ["Ranks", "find"]

_NUMBERS = 3  # travel at a time
_REASON = 300  # bytes of a failure's message travel too


class Ranks(Alone):
    """A process group whose members train one model, wrapped for that or not."""

    def __init__(self, group: Any, wrapper: nn.Module | None = None) -> None:
        self.size = distributed.get_world_size(group)
        self._rank = distributed.get_rank(group)
        self._group = _for_the_host(group)
        self._substitute = Substitute(wrapper)

    def measure(
        self, parameters: Sequence[Tensor], vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor
    ) -> tuple[float, float, list[float]]:
        """The same of whole vectors, of which each rank has its parts; `more` scalars are averaged."""
        alike: dict[int, list[int]] = {}
        for place, parameter in enumerate(parameters):
            alike.setdefault(shards(parameter), []).append(place)
        lengths: list[float] = []
        slopes: list[float] = []
        values: list[float] = []
        for parts, places in alike.items():
            share = parts / self.size  # each part is on as many ranks as any other
            along = [others[place] for place in places] if others else []
            length, slope, found = measure([vectors[place] for place in places], along, *(() if lengths else more))
            lengths.append(math.sqrt(share) * length)
            slopes.append(share * slope)
            values.extend(found)
        everywhere = self._gather([math.hypot(*lengths), sum(slopes), *values])
        all_lengths, all_slopes, *columns = zip(*everywhere, strict=True)
        return math.hypot(*all_lengths), _sum(all_slopes), [_sum(column) / self.size for column in columns]

    def any(self, here: bool) -> bool:
        """Whether something is so on any rank."""
        return any(said for (said,) in self._gather([float(here)]))

    def pooled(self, count: int, mean: float, variance: float) -> tuple[float, float]:
        """Mean of the ranks' means, as gradients are averaged; and its variance, from the samples of all ranks."""
        counts, means, variances = zip(*self._gather([float(count), mean, variance]), strict=True)
        total = sum(counts)
        centre = sum(n * m for n, m in zip(counts, means, strict=True)) / total
        squares = sum(
            v * n * (n - 1.0) + n * (m - centre) ** 2 for n, m, v in zip(counts, means, variances, strict=True)
        )
        return _sum(means) / self.size, squares / (total * (total - 1.0))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """For what comes just before an exchange: what fails on one rank fails on all."""
        try:
            yield
        except Exception as error:
            self._exchange([0.0] * _NUMBERS, failure=error)
            raise

    @contextmanager
    def failing_together(self, *, in_forward: bool = False) -> Iterator[None]:
        """For one evaluation: what fails on one rank fails on all, at the latest where they measure it."""
        try:
            with self._substitute.watching(in_forward):
                yield
        except Exception as error:
            if self._substitute.stand_in():
                self._exchange([0.0] * _NUMBERS, failure=error)
            raise  # without standing in: the others learn of it when this process ends

    def _gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """The numbers of all ranks, as many from each."""
        rows = self._exchange([*numbers, *[0.0] * (_NUMBERS - len(numbers))])
        return [row[: len(numbers)] for row in rows]

    def _exchange(self, numbers: list[float], failure: Exception | None = None) -> list[list[float]]:
        failed = 0.0 if failure is None else 1.0
        heard = self._all(torch.tensor([failed, *numbers], dtype=torch.float64)).tolist()
        if any(flag for flag, *_ in heard):
            reasons = self._reasons(failure)
            if failure is None:
                raise RuntimeError(f"gradline: the step was not taken, because it failed elsewhere: {reasons}")
        return [row for _, *row in heard]

    def _reasons(self, failure: Exception | None) -> str:
        """Which ranks failed, and why."""
        said = b"" if failure is None else f"{type(failure).__name__}: {failure}".encode()[:_REASON]
        heard = self._all(torch.tensor(list(said.ljust(_REASON, b"\0")), dtype=torch.uint8)).tolist()
        texts = [bytes(text).rstrip(b"\0").decode(errors="replace") for text in heard]
        return "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts) if text)

    def _all(self, mine: Tensor) -> Tensor:
        heard = [torch.empty_like(mine) for _ in range(self.size)]
        distributed.all_gather(heard, mine, group=self._group)
        return torch.stack(heard)


def find(parameters: Sequence[Tensor], around: Sequence[nn.Module], group: Any = None) -> Alone:
    """The processes that train these parameters together: a given group, or what the parameters tell."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Alone()
    meshes = {cast(Any, parameter).device_mesh for parameter in parameters if is_sharded(parameter)}
    _check(around, meshes)
    wrappers = [module for module in around if isinstance(module, nn.parallel.DistributedDataParallel)]
    wrapper = wrappers[0] if wrappers else None
    gathered = _gathered(around) if meshes else []
    if group is None and meshes:
        group = _of_mesh(meshes.pop())
    elif group is None and wrapper is not None:
        group = wrapper.process_group
    if group is None or distributed.get_world_size(group) == 1:
        ranks = Alone()
    else:  # of several wrappers it is unknown which the others wait for
        ranks = Ranks(group, wrapper if len(wrappers) == 1 else None)
    ranks.gathered = gathered
    return ranks


def _gathered(around: Sequence[nn.Module]) -> list[weakref.ref[Any]]:
    from torch.distributed.fsdp import FSDPModule

    return [weakref.ref(module) for module in around if isinstance(module, FSDPModule)]


def _check(around: Sequence[nn.Module], meshes: set[Any]) -> None:
    for module in around:
        if type(module).__name__ == "FullyShardedDataParallel":
            raise TypeError(
                "params must not be those of FullyShardedDataParallel (it hides which part of a parameter a process "
                "has): use torch.distributed.fsdp.fully_shard"
            )
    if len(meshes) > 1:
        raise ValueError(
            f"params must all live on one device mesh (a slope is a sum over all of them), got {len(meshes)} meshes"
        )


def _of_mesh(mesh: Any) -> Any:
    """One group of all the ranks in a mesh."""
    if mesh.ndim == 1:
        return mesh.get_group()
    ranks = sorted(mesh.mesh.flatten().tolist())
    if len(ranks) == distributed.get_world_size():
        return distributed.group.WORLD
    return distributed.new_group(ranks, use_local_synchronization=True)


def _for_the_host(group: Any) -> Any:
    """A group of the same ranks that carries the host's numbers: gradients may travel between devices only."""
    if "cpu:" in distributed.get_backend_config(group):
        return group
    ranks = distributed.get_process_group_ranks(group)
    return distributed.new_group(ranks, backend="gloo", use_local_synchronization=True)


def _sum(numbers: Sequence[float]) -> float:
    """A sum in which all digits count, also where some are not finite (`fsum` refuses these)."""
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)
