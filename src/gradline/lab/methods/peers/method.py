"""A method: a name, what it is, and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from gradline.lab.bench.objective import Objective
from gradline.lab.methods.peers.stepping import Stepper
from gradline.lab.tools.names import require_name


@dataclass(frozen=True, eq=False)
class Method:
    """One way to train.

    Args:
        name: what it is called on the command line, in files and figures.
        about: what it is, with the settings it has here.
        build: puts it to work on an objective.
        group: "gradline", "tuned", "searches" or "learning-rate-free".
        package: the distribution it comes from.
        module: what is imported of it.
        family: of a method on a grid of learning rates, what the grid is called; best and median of it are shown.
        rate: its learning rate on the grid.
    """

    name: str
    about: str
    build: Callable[[Objective], Stepper]
    group: str
    package: str
    module: str
    family: str | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        require_name("name", self.name)

    def unavailable(self) -> str | None:
        """Why it cannot be run here; `None` if it can."""
        if find_spec(self.module) is None:
            return f"{self.package} is not installed: pip install 'gradline[bench]'"
        return None

    def version(self) -> str:
        """Of its package."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "unknown"
