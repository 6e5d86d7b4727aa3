"""`Trajectory`: the part of a run that comparisons need, its measured points and how it ended."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradline.lab.jobs.result import Result, Status
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.methods import Absent
from gradline.lab.tools.files import Report


class Point(NamedTuple):
    """What was measured at the end of a step."""

    evaluations: float
    steps: int
    seconds: float
    """Seconds of training so far, without measuring."""
    cpu_seconds: float
    """Seconds that the processor worked for it: what other programs take is not in them."""
    train_loss: float
    test_error: float
    """Test error; the test loss if a problem has no error."""
    test_loss: float = math.nan
    validation_loss: float = math.nan
    validation_error: float = math.nan


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """A run of a comparison."""

    problem: str
    revision: int
    """Revision of the problem."""
    batch_size: int
    method: str
    seed: int
    budget: int
    status: Status
    reason: str
    """Why it failed, else empty."""
    versions: dict[str, str]
    points: tuple[Point, ...]
    key: str = ""
    """Key of the run, a hash of all its settings; empty in packed files of earlier versions."""

    @property
    def setting(self) -> str:
        """What methods are compared on: the problem and the batch size."""
        return f"{self.problem}/{self.batch_size}"

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.setting}, {self.method}, seed {self.seed}, {self.budget} evaluations, revision {self.revision}"

    @property
    def counted(self) -> tuple[Point, ...]:
        """The points within the budget."""
        return tuple(point for point in self.points if point.evaluations <= self.budget)

    @property
    def last(self) -> Point | None:
        """The last point within the budget, if the run reached its end."""
        return self.counted[-1] if self.status is Status.DONE and self.counted else None

    @property
    def train_loss(self) -> float:
        """Training loss at the end of the budget; infinite if the run did not reach its end, or if it is NaN."""
        return _known(self.last, "train_loss")

    @property
    def test_error(self) -> float:
        """Test error at the end of the budget; infinite if the run did not reach its end, or if it is NaN."""
        return _known(self.last, "test_error")

    def final(self, name: str) -> float:
        """Return a measure at the last point, also beyond the budget; infinite if the run failed, or if it is NaN."""
        return _known(self.points[-1] if self.status is Status.DONE and self.points else None, name)

    def first(self, name: str, target: float, unit: str, *, counted: bool = False) -> float:
        """Return when a measure is first at or below a target; infinite if it never is.

        The unit is "evaluations", "seconds" or "cpu_seconds". `counted` leaves out points beyond the budget.
        """
        points = self.counted if counted else self.points
        return next((getattr(point, unit) for point in points if getattr(point, name) <= target), math.inf)


def _known(point: Point | None, name: str) -> float:
    value = math.inf if point is None else float(getattr(point, name))
    return math.inf if math.isnan(value) else value


def trajectory(result: Result) -> Trajectory:
    """Return the trajectory of a result: its measured points."""
    run, columns = result.run, result.columns
    measured = ~np.isnan(columns["seconds"]) | ~np.isnan(columns["train_loss"])
    errors = np.where(np.isnan(columns["test_error"]), columns["test_loss"], columns["test_error"])
    columns = columns | {"steps": columns["iteration"], "test_error": errors}
    rows = zip(*(columns[name][measured].tolist() for name in Point._fields), strict=True)
    return Trajectory(
        problem=run.problem.name,
        revision=run.problem.revision,
        batch_size=run.batch_size,
        method=run.method.name,
        seed=run.seed,
        budget=run.budget,
        status=result.status,
        reason=result.reason,
        versions=result.versions,
        points=tuple(Point(*row) for row in rows),
        key=run.key,
    )


def trajectories(directory: str | os.PathLike[str], *, report: Report | None = None) -> Iterator[Trajectory]:
    """Yield the runs of comparisons in a directory, without those of methods that this program does not have."""

    def compared(run: Run) -> bool:
        return run.benchmark and not isinstance(run.method, Absent)

    return map(trajectory, Store(directory, report=report).results(compared))
