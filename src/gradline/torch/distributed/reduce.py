"""Training in several processes: every rank takes the same decisions, by construction.

A decision follows from a few numbers: the gradient's length, its slope along the line, the loss. Each rank measures its
part of them; all parts go to all ranks, bit for bit (`all_gather`), and every rank adds them up in the same order. So
no rank ever decides on a number of its own, and none makes an evaluation more than another and waits for it forever.

* Parameters that are whole on every rank (`DistributedDataParallel`): numbers are averaged, as the gradients were.
* Sharded ones (`fully_shard`): each rank has the products of its shards, and these are summed.

A rank that fails in an evaluation takes part in what the others are waiting for, tells them, and all raise.

With its numbers each rank sends what it is doing: which probe of which search, at which step, and a checksum of its
settings. Ranks that do not do the same (one has called `refresh()`, say, or has other settings) would train different
models from there on: all raise, before anything is decided.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, cast

import torch
from torch import Tensor, distributed, nn

from gradline.torch.distributed.settings import checksum, differences, from_text, to_text
from gradline.torch.distributed.sharded import is_sharded, shards
from gradline.torch.distributed.stand_in import StandIn
from gradline.torch.measuring import LocalReduce, measure

__all__ = ["DistributedReduce", "find"]

_NUMBERS = 3  # travel at a time
_REASON = 300  # bytes of a failure's message travel too
_ROUNDING = 1e-9  # relative: machines with other mathematical libraries may find a step with other last digits


class Place(NamedTuple):
    """What a rank evaluates: a probe of a search, at a step; probe 0 is the search's origin."""

    search: int = 0
    probe: int = 0
    step: float = 0.0

    def __str__(self) -> str:
        probe = f"probe {self.probe:.0f}" if self.probe else "the origin"
        return f"{probe} of search {self.search:.0f}"

    def is_same(self, other: Place) -> bool:
        """Whether both are one evaluation."""
        return self[:2] == other[:2] and (
            math.isclose(self.step, other.step, rel_tol=_ROUNDING) or self.step == other.step
        )


class DistributedReduce(LocalReduce):
    """A process group whose members train one model, wrapped for that or not."""

    def __init__(self, group: Any, wrappers: Sequence[nn.Module] = ()) -> None:
        self.size = distributed.get_world_size(group)
        self._group = _for_the_host(group)
        self._wrappers = [weakref.ref(wrapper) for wrapper in wrappers]
        # Of several wrappers it is unknown which the others wait for.
        self._substitute = StandIn(wrappers[0] if len(wrappers) == 1 else None)
        self._settings: Mapping[str, str] = {}
        self._checksum = 0.0
        self._place = Place()

    def begin(self, settings: Callable[[], Mapping[str, str]]) -> None:
        """A step begins, with these settings."""
        for reference in self._wrappers:
            _check_join(reference())
        self._settings = settings()
        self._checksum = checksum(self._settings)

    def at(self, search: int, probe: int, step: float) -> None:
        """The next evaluation is this probe of this search; probe 0 is the search's origin."""
        self._place = Place(search, probe, step)

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
        """The numbers of all ranks, where all do the same and none has failed."""
        failed = 0.0 if failure is None else 1.0
        mine = [failed, self._checksum, *self._place, *numbers]
        heard = self._all(torch.tensor(mine, dtype=torch.float64)).tolist()
        if any(row[0] for row in heard):
            reasons = self._reasons(failure)
            if failure is None:
                raise RuntimeError(f"gradline: the step was not taken, because it failed elsewhere: {reasons}")
        elif any(row[1] != heard[0][1] for row in heard):
            self._raise_of_settings()
        else:
            _check_places([Place(*row[2:5]) for row in heard])
        return [row[5:] for row in heard]

    def _raise_of_settings(self) -> NoReturn:
        texts = self._texts(to_text(self._settings))
        other = next(rank for rank, text in enumerate(texts) if text != texts[0])
        found = differences(from_text(texts[0]), from_text(texts[other]))
        raise RuntimeError(
            f"gradline: the step was not taken, because all ranks must have the same settings (or they take different "
            f"steps), but those of rank {other} are others than those of rank 0: {found}"
        )

    def _reasons(self, failure: Exception | None) -> str:
        """Which ranks failed, and why."""
        texts = self._texts("" if failure is None else f"{type(failure).__name__}: {failure}", _REASON)
        return "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts) if text)

    def _texts(self, mine: str, most: int | None = None) -> list[str]:
        """A text from each rank, of `most` bytes at most."""
        said = mine.encode()[:most]
        size = int(self._all(torch.tensor([len(said)])).max())
        heard = self._all(torch.tensor(list(said.ljust(size, b"\0")), dtype=torch.uint8)).tolist()
        return [bytes(text).rstrip(b"\0").decode(errors="replace") for text in heard]

    def _all(self, mine: Tensor) -> Tensor:
        heard = [torch.empty_like(mine) for _ in range(self.size)]
        distributed.all_gather(heard, mine, group=self._group)
        return torch.stack(heard)


def find(parameters: Sequence[Tensor], around: Sequence[nn.Module], group: Any = None) -> LocalReduce:
    """The processes that train these parameters together: a given group, or what the parameters tell."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return LocalReduce()
    meshes = {cast(Any, parameter).device_mesh for parameter in parameters if is_sharded(parameter)}
    _check(around, meshes)
    wrappers = [module for module in around if isinstance(module, nn.parallel.DistributedDataParallel)]
    gathered = _gathered(around) if meshes else []
    if group is None and meshes:
        group = _of_mesh(meshes.pop())
    elif group is None and wrappers:
        group = wrappers[0].process_group
    together = group is not None and distributed.get_world_size(group) > 1
    ranks = DistributedReduce(group, wrappers) if together else LocalReduce()
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


def _check_places(places: Sequence[Place]) -> None:
    """Refuse to go on where ranks evaluate different things."""
    first = places[0]
    for rank, place in enumerate(places):
        if not place.is_same(first):
            here, there = f"{first}", f"{place}"
            if here == there:
                here, there = f"{here} at step {first.step:g}", f"{there} at step {place.step:g}"
            raise RuntimeError(
                f"gradline: the step was not taken, because all ranks must evaluate the same point, but rank 0 "
                f"evaluates {here}, rank {rank} {there}: call step(), refresh() and load_state_dict() on all ranks "
                f"alike. refresh() on all of them begins a new search"
            )


def _check_join(wrapper: Any) -> None:
    """Refuse torch's context for uneven inputs, unless it ends where the first rank has no more."""
    config = getattr(wrapper, "_join_config", None)
    if config is not None and config.enable and not config.throw_on_early_termination:
        raise RuntimeError(
            "step() must not be called in `with model.join():` (a rank that has run out of data takes no part in "
            "decisions): give all ranks as many batches, or use model.join(throw_on_early_termination=True). After "
            "such a context, `with model.join(enable=False): pass` ends it"
        )


def _of_mesh(mesh: Any) -> Any:
    """One group of all the ranks in a mesh."""
    if mesh.ndim == 1:
        return mesh.get_group()
    ranks = sorted(mesh.mesh.flatten().tolist())
    if len(ranks) == distributed.get_world_size():
        return distributed.group.WORLD
    return _new_group(ranks)


def _for_the_host(group: Any) -> Any:
    """A group of the same ranks that carries the host's numbers: gradients may travel between devices only."""
    if "cpu:" in distributed.get_backend_config(group):
        return group
    ranks = distributed.get_process_group_ranks(group)
    return _new_group(ranks, "gloo")


_made: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = weakref.WeakKeyDictionary()
"""The groups made here, for each world of processes (there is another one after `destroy_process_group`)."""


def _new_group(ranks: Sequence[int], backend: str | None = None) -> Any:
    """One group of some ranks, made once: all ranks must take part in that, but one alone may look for it again."""
    known = _made.setdefault(distributed.group.WORLD, {})
    key = (*ranks, backend)
    if key not in known:
        known[key] = distributed.new_group(list(ranks), backend=backend, use_local_synchronization=True)
    return known[key]


def _sum(numbers: Sequence[float]) -> float:
    """A sum in which all digits count, also where some are not finite (`fsum` refuses these)."""
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)
