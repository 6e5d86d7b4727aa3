"""The modules around some parameters: an optimizer is given parameters only, but must know where they live.

Layers with running statistics must forget rejected probes, and under `DistributedDataParallel` all processes must take
the same decisions. Both are found among the living modules, by looking through what Python's garbage collector tracks:
once for each optimizer, when it takes its first step.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress

from torch import Tensor, nn

__all__ = ["Surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """`owned`: modules all of whose trainable parameters are ours. `around`: modules that hold any of ours."""

    owned: list[nn.Module]
    around: list[nn.Module]

    @classmethod
    def of(cls, parameters: Iterable[Tensor]) -> Surroundings:
        """Find the modules around some parameters."""
        ours = set(map(id, parameters))
        around = list(_holders(_modules(), ours)) or list(_holders(_frozen.modules(), ours))
        return cls([module for module in around if _all_in(module, ours)], around)

    def layers(self) -> Iterator[nn.Module]:
        """Every module that is owned or part of one that is, once."""
        seen: set[int] = set()
        for module in self.owned:
            for layer in nn.Module.modules(module):
                if id(layer) not in seen:
                    seen.add(id(layer))
                    yield layer


def _modules() -> Iterator[nn.Module]:
    """All living modules. There may be millions of other things: none of them is touched by Python code.

    (`isinstance` would also ask some of them what they pretend to be, and not every type can be hashed.)
    """
    things = gc.get_objects()
    kinds = list(map(type, things))
    places = list(map(id, kinds))
    wanted = {place for place, kind in dict(zip(places, kinds, strict=True)).items() if issubclass(kind, nn.Module)}
    return compress(things, map(wanted.__contains__, places))


class _Frozen:
    """The modules among what `gc.freeze` has hidden. They are looked for once, until more is frozen."""

    def __init__(self) -> None:
        self._count = 0
        self._found: list[weakref.ref[nn.Module]] = []

    def modules(self) -> list[nn.Module]:
        if gc.get_freeze_count() != self._count:
            gc.unfreeze()
            self._found = [weakref.ref(module) for module in _modules()]
            gc.freeze()
            self._count = gc.get_freeze_count()
        return [module for reference in self._found if (module := reference()) is not None]


_frozen = _Frozen()


def _holders(modules: Iterable[nn.Module], ours: set[int]) -> Iterator[nn.Module]:
    """Modules that have one of our parameters, themselves or in a part of theirs."""
    parents: dict[int, list[nn.Module]] = {}
    found = []
    for module in modules:
        parts = vars(module).get("_modules") or {}  # a module whose own __init__ has not run yet has none
        for part in list(parts.values()):  # another thread may be building it
            parents.setdefault(id(part), []).append(module)
        held = vars(module).get("_parameters") or {}
        if any(id(parameter) in ours for parameter in list(held.values())):
            found.append(module)
    seen = set()
    while found:
        module = found.pop()
        if id(module) not in seen:
            seen.add(id(module))
            found.extend(parents.get(id(module), ()))
            yield module


def _all_in(module: nn.Module, ours: set[int]) -> bool:
    return all(id(parameter) in ours for parameter in nn.Module.parameters(module) if parameter.requires_grad)
