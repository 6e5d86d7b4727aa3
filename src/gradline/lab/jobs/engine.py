"""What a worker needs of an engine: it turns runs into results, and can be stopped and taken up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from gradline.lab.jobs.partial import Growth
from gradline.lab.jobs.result import Result
from gradline.lab.jobs.runs import Run


class Engine(Protocol):
    """Some runs under way."""

    @property
    def active(self) -> int:
        """Runs not finished."""

    @property
    def evaluations(self) -> float:
        """Evaluations made so far, as they count for budgets."""

    def advance(self) -> None:
        """Go on a little: one evaluation of each run in lock-step, or one iteration of one run."""

    def finished(self) -> list[Result]:
        """The results of runs that have finished since the last call."""

    def growing(self) -> dict[str, Growth]:
        """What has been measured of the runs under way, by their keys. Asked only where somebody follows a study."""

    def state_dict(self) -> dict[str, Any]:
        """All there is to go on from, exactly: tensors, numbers, strings, lists and dicts."""


MakeEngine: TypeAlias = Callable[[Sequence[Run], dict[str, Any] | None], Engine]
"""Makes the engine of some runs, from a state or anew."""
