"""A method trains a task: it has a name and a revision, and builds a stepper."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from typing import Any

from gradline.installing import how_to_install
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.stepper import Stepper
from gradline.lab.tools.arguments import require_name
from gradline.lab.tools.imports import version


class Method(ABC):
    """An optimizer with its settings."""

    name: str
    """What it is called in studies, files and figures."""
    package: str
    """The distribution it comes from."""
    search: Any
    """The search, of methods that are one."""

    @property
    @abstractmethod
    def described(self) -> str:
        """Name and settings, in a line."""

    @abstractmethod
    def build(self, objective: Objective) -> Stepper:
        """Build the stepper that trains an objective."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all that decides what it computes as plain values, for JSON."""

    def unavailable(self) -> str | None:
        """Return why it cannot be run here; `None` if it can."""
        return None

    def version(self) -> str:
        """Return the version of its package."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "unknown"


@dataclass(frozen=True)
class Peer(Method):
    """An optimizer of torch or of another package, with fixed settings.

    Args:
        name: what it is called in studies, files and figures.
        about: what it is, with the settings it has here. It is part of what its results are called.
        make: builds the stepper.
        package: the distribution it comes from.
        module: what is imported of it.
        family: of a method on a grid of learning rates, what the grid is called; best and median of it are shown.
        rate: its learning rate on the grid.
        revision: raised when it computes other steps with the same settings.
    """

    name: str
    about: str
    make: Callable[[Objective], Stepper]
    package: str
    module: str
    family: str | None = None
    rate: float | None = None
    revision: int = 1

    def __post_init__(self) -> None:
        require_name("name", self.name)

    @property
    def described(self) -> str:
        return self.about

    def __reduce__(self) -> Any:
        """Be sent to worker processes by name, where it is one of `METHODS`: what builds it need not be a function."""
        return (_by_name, (self.name,)) if _by_name(self.name) is self else super().__reduce__()

    def build(self, objective: Objective) -> Stepper:
        return self.make(objective)

    def to_dict(self) -> dict[str, Any]:
        """Return its name, settings and revision; the package's version is stored with each result."""
        return {"kind": "peer", "name": self.name, "settings": self.about, "revision": self.revision}

    def unavailable(self) -> str | None:
        if find_spec(self.module) is None:
            return f"{self.package} is not installed: {how_to_install('bench')}"
        return None


def _by_name(name: str) -> Method | None:
    from gradline.lab.methods import METHODS

    return METHODS.get(name)


@dataclass(frozen=True)
class Absent(Method):
    """Stands for a method that this program does not have, in results that are only read.

    It is one of another package that was not imported, or one of another revision. Nothing is imported for it.
    `values` is its description as JSON.
    """

    values: str
    package = "gradline"

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(json.loads(self.values)["name"])

    @property
    def described(self) -> str:
        return self.values

    def build(self, objective: Objective) -> Stepper:
        raise RuntimeError(f"this method was not imported, so that its results can be read but not made: {self.values}")

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.values)
        return found
