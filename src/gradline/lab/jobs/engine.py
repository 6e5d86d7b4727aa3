"""The interface of engines, which turn runs into results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from gradline.lab.jobs.result import Measurements, Result
from gradline.lab.jobs.runs import Run


class Engine(Protocol):
    """Runs in progress."""

    @property
    def active(self) -> int:
        """Number of unfinished runs."""

    @property
    def evaluations(self) -> float:
        """Evaluations so far, as they count for budgets."""

    def advance(self) -> None:
        """Make one evaluation of each run (lock-step), or one iteration of one run (ordinary)."""

    def finished(self) -> list[Result]:
        """Return the results of runs that finished since the last call."""

    def partial_results(self) -> dict[str, Measurements]:
        """Return what has been measured of the unfinished runs, by their keys."""

    def state_dict(self) -> dict[str, Any]:
        """Return the exact state as tensors, numbers, strings, lists and dicts."""


MakeEngine: TypeAlias = Callable[[Sequence[Run], dict[str, Any] | None], Engine]
"""Creates the engine of some runs, from a state or from the beginning."""
