"""`Trace`: one run in little space, with its whole configuration, its summary, and some rows of its table.

The rule it obeys: nothing is interpolated. A trace has only rows at which something was measured, and its value at a
number of evaluations is the last one measured by then. All runs of one budget share a grid of numbers of evaluations.
Of a run with many rows these are kept: the last row at or before each point of the grid, and the rows that comparisons
are computed from, which are the first one, the last within the budget, the last of all, and the first whose training
loss is at or below its target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from gradline.lab.findings.query import configuration, summary_row
from gradline.lab.jobs.result import Array, Header, Result, Status, held
from gradline.lab.problems.task import Measured

POINTS = 300
"""Intervals of a curve's grid."""
PACKED_POINTS = 120
"""Intervals of a curve's grid in a packed file: as many as a panel of a printed figure can show."""
_MEASURED = ("seconds", "cpu_seconds", *Measured._fields, "angle")
COLUMNS = ("evaluations", "iterations", *_MEASURED, "step")
"""Columns of a trace."""
LOGARITHMS = frozenset({"train_loss", "test_loss", "step"})
"""Columns of a wide range, which are packed as logarithms: of zero, minus infinity."""


@dataclass(frozen=True, eq=False)
class Trace(Header):
    """One run, thinned.

    Args:
        summary: see `gradline.lab.summary`.
        points: intervals of the grid of evaluations.
        columns: those of `COLUMNS`, of the rows that are kept. What was not measured is NaN.
    """

    summary: dict[str, Any] = field(kw_only=True)
    points: int = field(kw_only=True)
    columns: Mapping[str, Array] = field(kw_only=True)

    # ---- what was run

    problem = property(attrgetter("run.problem.name"))
    method = property(attrgetter("run.method.name"))
    batch_size = property(attrgetter("run.batch_size"))
    seed = property(attrgetter("run.seed"))
    budget = property(attrgetter("run.budget"))
    sampling = property(attrgetter("run.sampling.value"))
    direction_batch_size = property(attrgetter("run.direction_batch_size"))
    key = property(attrgetter("run.key"))
    setting = property(attrgetter("run.setting"))

    @property
    def variant(self) -> tuple[Any, ...]:
        """Other settings in which runs differ: whether samples repeat, which variances, which loss."""
        return self.run.repetition, self.run.diagonal, configuration(self.run)["loss"]

    @property
    def place(self) -> tuple[Any, ...]:
        """All names and settings but those of the method; a run takes the place of an earlier one. The seed is last."""
        run = self.run
        about = (run.problem.name, run.problem.revision, run.batch_size, run.budget, run.sampling.value)
        return *about, run.direction_batch_size, *self.variant, run.angle, run.benchmark, run.method.name, run.seed

    @cached_property
    def revision(self) -> int:
        """Revision of the method."""
        return int(self.run.method.to_dict()["revision"])

    @property
    def row(self) -> dict[str, Any]:
        """The columns of `gradline.lab.summary`."""
        return configuration(self.run) | self.summary

    # ---- what was measured

    @property
    def rows(self) -> int:
        return len(self.evaluations)

    @property
    def evaluations(self) -> Array:
        return self.columns["evaluations"]

    @property
    def counted(self) -> int:
        """Number of rows within the budget."""
        return int(np.searchsorted(self.evaluations, self.budget, side="right"))

    @property
    def angled(self) -> bool:
        return bool(np.isfinite(self.columns["angle"]).any())

    def column(self, name: str) -> Array:
        """Return a column; as test errors the test losses, where a problem has no error."""
        values = self.columns[name]
        return np.where(np.isnan(values), self.columns["test_loss"], values) if name == "test_error" else values

    def at_budget(self, name: str) -> float:
        """Return a measure at the last row within the budget; infinite if the run failed, or if it is NaN."""
        return self._measure(name, self.counted)

    def final(self, name: str) -> float:
        """Return a measure at the last row, also beyond the budget; infinite if the run failed, or if it is NaN."""
        return self._measure(name, self.rows)

    def _measure(self, name: str, rows: int) -> float:
        value = float(self.column(name)[rows - 1]) if self.status is Status.DONE and rows else math.inf
        return math.inf if math.isnan(value) else value

    def last(self, name: str) -> float:
        """Return a column at the last row, however the run ended; 0 without rows."""
        return float(self.columns[name][-1]) if self.rows else 0.0

    def first(self, name: str, target: float, unit: str, *, counted: bool = False) -> float:
        """Return when a measure is first at or below a target; infinite if it never is.

        The unit is "evaluations", "seconds" or "cpu_seconds". `counted` leaves out rows beyond the budget.
        """
        reached = np.flatnonzero(self.column(name)[: self.counted if counted else self.rows] <= target)
        return float(self.columns[unit][reached[0]]) if len(reached) else math.inf

    def read_rows(self, target: float | None) -> set[int]:
        """Return the rows that measures are read from: the last within the budget, the last, the first at a target."""
        reached = [] if target is None else np.flatnonzero(self.columns["train_loss"] <= target)[:1].tolist()
        return {row for row in (self.counted - 1, self.rows - 1, *reached) if row >= 0}

    # ---- curves

    @cached_property
    def grid(self) -> Array:
        """Evaluations from 0 to the budget."""
        return grid_of(self.budget, self.points)

    def on_grid(self, name: str) -> Array:
        """Return the last values of a column that are known at each point of the grid."""
        values = self.columns[name]
        known = ~np.isnan(values)
        return held(self.evaluations[known], values[known], self.grid)


def thin(result: Result, *, points: int = POINTS, target: float | None = None) -> Trace:
    """Thin a run; `points`: as in `Trace`. The row at which a training loss is first at the target is kept."""
    columns = {name: np.asarray(result.columns[name], np.float64) for name in (*_MEASURED, "evaluations", "step")}
    columns["iterations"] = np.asarray(result.columns["iteration"], np.float64)
    columns["step"] = np.where(columns["iterations"] > 0, columns["step"], np.nan)
    measured = ~np.isnan(np.stack([columns[name] for name in _MEASURED])).all(axis=0)
    whole = Trace(
        **vars(result.header),
        summary=summary_row(result),
        points=points,
        columns={name: columns[name][measured] for name in COLUMNS},
    )
    if whole.rows <= points + 1:
        return whole
    last = np.searchsorted(whole.evaluations, whole.grid, side="right") - 1
    kept = sorted({0, *last[last >= 0].tolist(), *whole.read_rows(target)})
    return replace(whole, columns={name: values[kept] for name, values in whole.columns.items()})


def latest(traces: Iterable[Trace]) -> list[Trace]:
    """Return the runs of the last revision of each method in each setting: those of earlier ones have other steps."""
    runs = list(traces)
    last: dict[tuple[Any, ...], int] = {}
    for run in runs:
        last[run.place[:-1]] = max(run.revision, last.get(run.place[:-1], 0))
    return [run for run in runs if run.revision == last[run.place[:-1]]]


def grid_of(budget: int, points: int = POINTS) -> Array:
    """Return the evaluations at which runs of a budget are read."""
    return np.unique(np.linspace(0.0, budget, min(budget, points) + 1).round())
