"""Methods that are searches, of gradline or your own: with any direction, and with an average of the weights."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import gradline
from gradline import searches
from gradline.lab.methods.method import Absent, Method
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.stepper import AngleSteps, Searching, Stepper
from gradline.lab.tools.arguments import require_name
from gradline.lab.tools.imports import import_named
from gradline.protocol import Search
from gradline.searches import search_classes
from gradline.searches.arguments import require

DECAY = {"adam": 0.0, "adamw": 0.01}
"""Weight decay of the directions that `gradline.Angle` has built in, where it is not given."""


@dataclass(frozen=True)
class Direction:
    """The torch optimizer whose update gives the direction, by name, with options.

    Args:
        name: of a class of `torch.optim` in lower case ("adam", "rmsprop"), or "package.module:Class".
        options: other than its learning rate, which is the step of the search.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any] | None = None) -> Direction:
        """Return a direction with its options as a mapping."""
        plain = {key: tuple(value) if isinstance(value, list) else value for key, value in (options or {}).items()}
        return cls(name, tuple(sorted(plain.items())))

    def factory(self) -> Any:
        """Return the class with its options, as `LineSearchOptimizer` takes it."""
        return partial(find_direction(self.name), **dict(self.options))

    def to_dict(self) -> dict[str, Any]:
        """Return the direction as plain values."""
        options = {key: list(value) if isinstance(value, tuple) else value for key, value in self.options}
        return {"name": self.name, "options": options}

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.options)})"


@dataclass(frozen=True)
class SearchMethod(Method):
    """A search with a name. The search must be a dataclass, so that it can be written down and made again.

    ```python
    from gradline.lab.methods import Direction, SearchMethod
    from gradline.searches import GolsI

    eager = SearchMethod("gols-i-eager", GolsI(growth=4.0), Direction.of("adam"))
    assert SearchMethod.from_dict(eager.to_dict()) == eager
    ```

    Args:
        name: what it is called in studies, files and figures.
        search: finds the steps.
        direction: what is searched along; `None`: steepest descent.
        average: measure an average of the points (`gradline.LateAverage`).
    """

    name: str
    search: Search[Any, Any]
    direction: Direction | None = None
    average: bool = False
    package = "gradline"

    def __post_init__(self) -> None:
        require_name("name", self.name)
        good = dataclasses.is_dataclass(type(self.search))
        require(good, "search", "a dataclass, made", "its settings are stored with each result", self.search)

    @property
    def described(self) -> str:
        """What it is, with the settings that are not the usual ones, in a line."""
        values = [(field, getattr(self.search, field.name)) for field in dataclasses.fields(cast(Any, self.search))]
        text = ", ".join(f"{field.name}={value}" for field, value in values if value != field.default)
        direction = f" along {self.direction}" if self.direction else ""
        return f"{type(self.search).__name__}({text}){direction}{', averaged' if self.average else ''}"

    def build(self, objective: Objective) -> Stepper:
        """Build the stepper that trains an objective; Angle along Adam is `gradline.Angle`, as its users have it."""
        if (options := self._angle_options()) is not None and objective.reuse_gradient is not False:
            optimizer = gradline.Angle(objective.parameters, average=self.average, model=objective.model, **options)
            return AngleSteps(objective, optimizer)
        direction = None if self.direction is None else self.direction.factory()
        return Searching(objective, self.search, direction, average=self.average)

    def _angle_options(self) -> dict[str, Any] | None:
        """Return the options of `gradline.Angle` for this method; `None`: it is not Angle along Adam."""
        if type(self.search) is not searches.Angle or self.direction is None:
            return None
        options = {"weight_decay": DECAY.get(self.direction.name), **dict(self.direction.options)}
        if options["weight_decay"] is None or not options.keys() <= {"betas", "eps", "weight_decay"}:
            return None
        return dataclasses.asdict(self.search) | options

    def to_dict(self) -> dict[str, Any]:
        """Return the method as plain values: every field of its search, and the revision of its class."""
        kind = type(self.search)
        ours = search_classes().get(kind.__name__) is kind
        module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # as workers know a script
        return {
            "kind": "search",
            "name": self.name,
            "search": kind.__name__ if ours else f"{module}:{kind.__qualname__}",
            "options": dataclasses.asdict(cast(Any, self.search)),
            "direction": None if self.direction is None else self.direction.to_dict(),
            "average": self.average,
            "revision": revision_of(kind),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Method:
        """Return the method that `to_dict` described. Nothing is imported for it: reading runs no code of others.

        A search of another package that this program has not imported itself, or of another revision, is `Absent`.
        """
        module, _, attribute = values["search"].partition(":")
        imported = vars(sys.modules[module]) if module in sys.modules else {}
        kind: Any = imported.get(attribute) if attribute else search_classes().get(values["search"])
        if kind is None or values["revision"] != revision_of(kind):
            return Absent(json.dumps(values))
        kind = find_search(values["search"])
        direction = values["direction"] and Direction.of(**values["direction"])
        return cls(values["name"], kind(**values["options"]), direction, values["average"])


def revision_of(kind: Any) -> int:
    """Return the revision of a search's class: raised when it computes other steps with the same settings."""
    return int(getattr(kind, "revision", 1))


def find_search(name: str) -> Any:
    """Return the class of a search: one of `gradline.searches`, or "package.module:Class"."""
    if isinstance(name, str) and ":" in name:
        kind = import_named("search", name, "Class", "it finds the steps")
        is_search = isinstance(kind, type) and dataclasses.is_dataclass(kind) and hasattr(kind, "search")
        # Before it is called: a description must not be able to call whatever it likes.
        require(is_search, "search", "a dataclass with a method `search`", "its settings are stored", name)
        return kind
    known = search_classes()
    require(name in known, "search", "one of gradline.searches or 'package.module:Class'", "it is looked up", name)
    return known[name]


def directions() -> dict[str, Any]:
    """Return the optimizers of torch by their names in lower case."""
    import torch

    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    base = torch.optim.Optimizer
    return {kind.__name__.lower(): kind for kind in kinds if issubclass(kind, base) and kind is not base}


def find_direction(name: str) -> Any:
    """Return the class of a direction: one of `torch.optim` in lower case, or "package.module:Class"."""
    import torch

    if isinstance(name, str) and ":" in name:
        kind = import_named("direction", name, "Class", "its update is the direction")
        is_optimizer = isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
        require(is_optimizer, "direction", "a torch optimizer", "its update is the direction", name)
        return kind
    known = directions()
    require(name in known, "direction", "one of torch.optim or 'package.module:Class'", "it is looked up", name)
    return known[name]


def _with_defaults() -> Iterator[SearchMethod]:
    """Yield a method for each search class whose settings all have defaults: "golden-section" is `GoldenSection()`."""
    for name, kind in search_classes().items():
        called = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
        required = [field for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]
        if not required and called not in {method.name for method in OWN}:
            yield SearchMethod(called, kind())


OWN = (
    SearchMethod("angle", searches.Angle(), Direction("adamw"), average=True),
    SearchMethod("angle-adam", searches.Angle(), Direction("adam"), average=True),
    SearchMethod("gols-i", searches.GolsI()),
    SearchMethod("gols-i-adam", searches.GolsI(), Direction("adam")),
    SearchMethod("gols-i-adam-0", searches.GolsI(), Direction.of("adam", {"betas": (0.0, 0.999)})),
    SearchMethod("prls", searches.Prls()),
)
"""Methods of gradline in comparisons."""
OTHERS = (*_with_defaults(), *(SearchMethod(f"fixed-{step}", searches.Fixed(float(step))) for step in (1, 10, 100)))
"""Every other search, with its default settings."""
