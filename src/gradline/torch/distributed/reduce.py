"""Reduce measurements over several processes, so that all ranks take the same decisions.

Decisions depend on a few numbers: the length of the gradient, the slope, the loss. Each rank measures its part;
`all_gather` sends all parts to all ranks, bit for bit, and every rank adds them in the same order. No rank decides on
local numbers, so none makes more evaluations than the others and waits for them forever.

* Replicated parameters (`DistributedDataParallel`): numbers are averaged, as the gradients are.
* Sharded parameters (`fully_shard`): each rank has the products of its shards, and these are summed.

A rank that fails in an evaluation still takes part in the collectives that the others wait for and reports its failure;
all ranks raise. (A forward pass of sharded parameters cannot be completed so: see `stand_in`.)

With its numbers each rank sends the indices of search and probe, the step, and a checksum of its settings. If these
differ (for example because one rank has called `refresh()`), all ranks raise before they decide.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, cast

import torch
from torch import Tensor, distributed, nn

from gradline.torch.distributed.settings import checksum, differences
from gradline.torch.distributed.sharded import is_sharded, shards
from gradline.torch.distributed.stand_in import StandIn
from gradline.torch.measuring import LocalReduce, gram, measure, to_host

_NUMBERS = 3  # sent per exchange
_REASON = 300  # characters of an error message sent to other ranks
_ROUNDING = 1e-9  # relative: steps may differ by rounding between machines with other math libraries


class Place(NamedTuple):
    """The evaluation of a rank: indices of search and probe (0: the origin), and the step."""

    search: int = 0
    probe: int = 0
    step: float = 0.0

    def __str__(self) -> str:
        probe = f"probe {self.probe:.0f}" if self.probe else "the origin"
        return f"{probe} of search {self.search:.0f}"

    def is_same(self, other: Place) -> bool:
        """Return whether both are the same evaluation."""
        return self[:2] == other[:2] and (
            math.isclose(self.step, other.step, rel_tol=_ROUNDING) or self.step == other.step
        )


class DistributedReduce(LocalReduce):
    """Reduction over a process group that trains one model, with or without a wrapper."""

    def __init__(self, group: Any, wrappers: Sequence[nn.Module] = ()) -> None:
        self.size = distributed.get_world_size(group)
        self._group = _for_the_host(group)
        self._wrappers = [weakref.ref(wrapper) for wrapper in wrappers]
        # With several wrappers it is unknown which one the others wait for.
        self._substitute = StandIn(wrappers[0] if len(wrappers) == 1 else None)
        self._settings: Mapping[str, str] = {}
        self._checksum = 0.0
        self._place = Place()

    def begin(self, settings: Callable[[], Mapping[str, str]]) -> None:
        for reference in self._wrappers:
            _check_join(reference())
        self._settings = settings()
        self._checksum = checksum(self._settings)

    def at(self, search: int, probe: int, step: float) -> None:
        self._place = Place(search, probe, step)

    def measure(
        self, parameters: Sequence[Tensor], vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor
    ) -> tuple[float, float, list[float]]:
        lengths: list[float] = []
        slopes: list[float] = []
        values: list[float] = []
        for share, places in self._shares(parameters):
            along = [others[place] for place in places] if others else []
            length, slope, found = measure([vectors[place] for place in places], along, *(() if lengths else more))
            lengths.append(math.sqrt(share) * length)
            slopes.append(share * slope)
            values.extend(found)
        everywhere = self._gather([math.hypot(*lengths), sum(slopes), *values])
        all_lengths, all_slopes, *columns = zip(*everywhere, strict=True)
        return math.hypot(*all_lengths), _sum(all_slopes), [_sum(column) / self.size for column in columns]

    def gram(
        self, parameters: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor], *more: Tensor
    ) -> tuple[float, float, float, list[float]]:
        products = [0.0, 0.0, 0.0]
        values: list[float] = []
        for share, places in self._shares(parameters):
            asked = () if values else more
            *found, seen = gram([first[place] for place in places], [second[place] for place in places], *asked)
            products = [total + share * product for total, product in zip(products, found, strict=True)]
            values.extend(seen)
        columns = zip(*self._gather(products), strict=True)
        one, both, other = (_sum(column) for column in columns)
        return one, both, other, values

    def total(self, parameters: Sequence[Tensor], products: Sequence[Tensor]) -> float:
        shares = (shards(parameter) / self.size for parameter in parameters)
        mine = sum(share * product for share, product in zip(shares, to_host(products), strict=True))
        return _sum([number for (number,) in self._gather([mine])])

    def _shares(self, parameters: Sequence[Tensor]) -> list[tuple[float, list[int]]]:
        """Return places of parameters with the share of their products that this rank adds to the sum of all ranks."""
        alike: dict[int, list[int]] = {}
        for place, parameter in enumerate(parameters):
            alike.setdefault(shards(parameter), []).append(place)
        return [(parts / self.size, places) for parts, places in alike.items()]  # each shard is on equally many ranks

    def any(self, here: bool) -> bool:
        return any(said for (said,) in self._gather([float(here)]))

    def pooled(self, count: int, mean: float, variance: float) -> tuple[float, float]:
        """Return the mean of the ranks' means, as for gradients, and its variance from the samples of all ranks."""
        counts, means, variances = zip(*self._gather([float(count), mean, variance]), strict=True)
        total = sum(counts)
        centre = sum(n * m for n, m in zip(counts, means, strict=True)) / total
        squares = sum(
            v * n * (n - 1.0) + n * (m - centre) ** 2 for n, m, v in zip(counts, means, variances, strict=True)
        )
        return _sum(means) / self.size, squares / (total * (total - 1.0))

    @contextmanager
    def telling(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._exchange([0.0] * _NUMBERS, failure=error)
            raise

    @contextmanager
    def failing_together(self, *, in_forward: bool = False) -> Iterator[None]:
        """Context manager of an evaluation: a failure on one rank is raised on all, at the latest when measuring."""
        try:
            with self._substitute.watching(in_forward):
                yield
        except Exception as error:
            if self._substitute.stand_in():
                self._exchange([0.0] * _NUMBERS, failure=error)
            raise  # without standing in, the others notice when this process ends

    def _gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of all ranks."""
        rows = self._exchange([*numbers, *[0.0] * (_NUMBERS - len(numbers))])
        return [row[: len(numbers)] for row in rows]

    def _exchange(self, numbers: list[float], failure: Exception | None = None) -> list[list[float]]:
        """Return the numbers of all ranks; raise an error if they evaluate different things or one has failed."""
        failed = 0.0 if failure is None else 1.0
        mine = [failed, self._checksum, *self._place, *numbers]
        sent = torch.tensor(mine, dtype=torch.float64, device="cpu")
        received = [torch.empty_like(sent) for _ in range(self.size)]
        distributed.all_gather(received, sent, group=self._group)
        heard = torch.stack(received).tolist()
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
        heard = self._objects(dict(self._settings))
        other = next(rank for rank, settings in enumerate(heard) if settings != heard[0])
        found = differences(heard[0], heard[other])
        raise RuntimeError(
            f"gradline: the step was not taken, because all ranks must have the same settings (or they take different "
            f"steps), but those of rank {other} are others than those of rank 0: {found}"
        )

    def _reasons(self, failure: Exception | None) -> str:
        """Return which ranks failed, and why."""
        texts = self._objects("" if failure is None else f"{type(failure).__name__}: {failure}"[:_REASON])
        return "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts) if text)

    def _objects(self, mine: Any) -> list[Any]:
        """Return the objects of all ranks."""
        heard: list[Any] = [None] * self.size
        distributed.all_gather_object(heard, mine, group=self._group)
        return heard


def find(parameters: Sequence[Tensor], around: Sequence[nn.Module], group: Any = None) -> LocalReduce:
    """Return the reduction over the processes that train these parameters: of a given group, or inferred."""
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
    ranks = DistributedReduce(group, [*wrappers, *_roots(gathered)]) if together else LocalReduce()
    ranks.gathered = list(map(weakref.ref, gathered))
    return ranks


def _gathered(around: Sequence[nn.Module]) -> list[nn.Module]:
    from torch.distributed.fsdp import FSDPModule

    return [module for module in around if isinstance(module, FSDPModule)]


def _roots(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Return the modules that are in none of the others."""
    inner = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in modules if id(module) not in inner]


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
    """Raise an error if ranks evaluate different points."""
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
    """Raise an error in `model.join()`, unless it ends when the first rank has no more inputs."""
    config = getattr(wrapper, "_join_config", None)
    if config is not None and config.enable and not config.throw_on_early_termination:
        raise RuntimeError(
            "step() must not be called in `with model.join():` (a rank that has run out of data takes no part in "
            "decisions): give all ranks as many batches, or use model.join(throw_on_early_termination=True). After "
            "such a context, `with model.join(enable=False): pass` ends it"
        )


def _of_mesh(mesh: Any) -> Any:
    """Return a process group of all ranks in a mesh."""
    if mesh.ndim == 1:
        return mesh.get_group()
    ranks = sorted(mesh.mesh.flatten().tolist())
    if len(ranks) == distributed.get_world_size():
        return distributed.group.WORLD
    return _new_group(ranks)


def _for_the_host(group: Any) -> Any:
    """Return a group of the same ranks that can send CPU tensors, which the gradients' backend may not."""
    if "cpu:" in distributed.get_backend_config(group):
        return group
    ranks = distributed.get_process_group_ranks(group)
    return _new_group(ranks, "gloo")


_made: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = weakref.WeakKeyDictionary()
"""Groups made here, by default process group (`destroy_process_group` ends it)."""


def _new_group(ranks: Sequence[int], backend: str | None = None) -> Any:
    """Return a group of some ranks, created once, by all of them together, and then reused."""
    known = _made.setdefault(distributed.group.WORLD, {})
    key = (*ranks, backend)
    if key not in known:
        known[key] = distributed.new_group(list(ranks), backend=backend, use_local_synchronization=True)
    return known[key]


def _sum(numbers: Sequence[float]) -> float:
    """Return an exactly rounded sum; an ordinary one if numbers are non-finite, for which `fsum` may raise."""
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)
