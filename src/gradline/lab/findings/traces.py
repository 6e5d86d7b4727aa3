"""Runs in little space: a run's header, its summary, and its curves on a grid that all runs of one budget share.

The rule it obeys: nothing is interpolated. A value at so many evaluations is the last one measured by then, and stays
what it was when a run has ended (its weights do). Steps are those of the iterations on the grid.

As plain values, for a packed file, problems, methods and versions that runs share are written once, and the numbers of
all curves together, field by field (see `gradline.lab.tools.packing`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradline.lab.findings.query import configuration, summary_row
from gradline.lab.jobs.result import Array, Header, Result, Status, held
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.packing import pack_numbers, plain_number, unpack_numbers

POINTS = 300
"""Intervals of a curve's grid."""
MEASURED = ("train_error", "train_loss", "test_error", "test_loss", "angle")
"""Columns of a result that are thinned to the grid."""
LOGARITHMS = frozenset({"train_loss", "test_loss", "step"})
"""Packed as logarithms: of zero, minus infinity."""
DIGITS = 9
"""Significant digits of the numbers of a summary."""
_VALUES = (*MEASURED, "step")
_WORDS = ("nan", "inf", "-inf")


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """One run, thinned. The first fields are the columns of every table, see `gradline.lab.findings.query`."""

    problem: str
    method: str
    batch_size: int
    seed: int
    sampling: str
    direction_batch_size: int | None
    budget: int
    repetition: bool
    diagonal: bool
    loss: str
    key: str
    header: Header
    summary: dict[str, Any]
    """See `gradline.lab.summary`."""
    points: int
    """Intervals of the grid of evaluations; of steps there are up to twice as many."""
    iterations: Array
    """Made by each point of the grid."""
    values: Mapping[str, Array]
    """Losses, errors, the angle and the step, the last ones known by then."""
    steps: Array
    """Accepted in the iterations `step_iterations`."""

    @cached_property
    def evaluations(self) -> Array:
        """The grid: from 0 to the budget."""
        return grid_of(self.budget, self.points)

    @cached_property
    def step_iterations(self) -> Array:
        """Another grid: of iterations, from 1."""
        return 1.0 + stride(self.budget, self.points) * np.arange(len(self.steps), dtype=np.float64)

    @property
    def variant(self) -> tuple[Any, ...]:
        """Other settings in which runs differ: whether samples repeat, which variances, which loss."""
        return self.repetition, self.diagonal, self.loss

    @property
    def angled(self) -> bool:
        return bool(np.isfinite(self.values["angle"]).any())


def thin(result: Result, *, points: int = POINTS) -> Trace:
    """Thin a run; `points`: as in `Trace`."""
    columns, budget = result.columns, result.run.budget
    evaluations, grid = columns["evaluations"].astype(np.float64), grid_of(budget, points)
    values = {}
    for name in MEASURED:
        measured = ~np.isnan(columns[name])
        values[name] = held(evaluations[measured], columns[name][measured], grid)
    moved = columns["iteration"] > 0
    steps = np.asarray(columns["step"][moved], dtype=np.float64)
    values["step"] = held(evaluations[moved], steps, grid)
    return Trace(
        **configuration(result.run),
        header=result.header,
        summary=summary_row(result),
        points=points,
        iterations=held(evaluations, columns["iteration"].astype(np.float64), grid),
        values=values,
        steps=steps[:: stride(budget, points)],
    )


def grid_of(budget: int, points: int = POINTS) -> Array:
    """Return the evaluations at which runs of a budget are read."""
    return np.unique(np.linspace(0.0, budget, min(budget, points) + 1).round())


def stride(budget: int, points: int = POINTS) -> int:
    """Return the number of iterations from one step that is kept to the next."""
    return max(1, budget // (2 * points))


def to_values(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return traces as plain values, for JSON. They must have one number of points."""
    traces = sorted(traces, key=lambda trace: trace.key)
    shared: dict[str, list[str]] = {"problems": [], "methods": [], "versions": []}

    def place(kind: str, value: Any) -> int:
        text = json.dumps(value, sort_keys=True)
        if text not in shared[kind]:
            shared[kind].append(text)
        return shared[kind].index(text)

    runs = []
    for trace in traces:
        header, run = trace.header, trace.header.run.to_dict()
        run |= {"problem": place("problems", run["problem"]), "method": place("methods", run["method"])}
        about = {"seconds": plain_number(header.seconds, DIGITS), "engine": header.engine}
        about |= {"status": header.status.value, "reason": header.reason}
        about |= {"versions": place("versions", header.versions)}
        row = {name: plain_number(value, DIGITS) for name, value in trace.summary.items()}
        runs.append({"run": run, "about": about, "summary": row, "steps": len(trace.steps)})
    points = max(len(trace.evaluations) - 1 for trace in traces)
    numbers = {name: pack_numbers(column(traces, name)) for name in ("iterations", "steps", *_VALUES)}
    return {**{kind: [json.loads(text) for text in texts] for kind, texts in shared.items()},
            "points": points, "runs": runs, "numbers": numbers}  # fmt: skip


def column(traces: Sequence[Trace], name: str) -> Array:
    """Return the numbers of a field of all traces, one after another; logarithms of those of a wide range."""
    values: Array = np.concatenate(
        [trace.values[name] if name in _VALUES else getattr(trace, name) for trace in traces]
    )
    if name not in LOGARITHMS | {"steps"}:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(values)


def from_values(values: dict[str, Any]) -> tuple[Trace, ...]:
    """Return the traces that `to_values` wrote."""
    points, numbers = values["points"], {}
    for name, text in values["numbers"].items():
        column = unpack_numbers(text)
        numbers[name] = iter(10.0**column if name in LOGARITHMS | {"steps"} else column)
    found = []
    for line in values["runs"]:
        run, about = line["run"], line["about"]
        run |= {"problem": values["problems"][run["problem"]], "method": values["methods"][run["method"]]}
        about |= {"status": Status(about["status"]), "versions": values["versions"][about["versions"]]}
        header = Header(run=Run.from_dict(run), **about)
        count = len(grid_of(header.run.budget, points))
        trace = Trace(
            **configuration(header.run),
            header=header,
            summary={name: float(value) if value in _WORDS else value for name, value in line["summary"].items()},
            points=points,
            iterations=_take(numbers["iterations"], count).round(),
            values={name: _take(numbers[name], count) for name in _VALUES},
            steps=_take(numbers["steps"], line["steps"]),
        )
        found.append(trace)
    return tuple(found)


def _take(numbers: Iterator[float], count: int) -> Array:
    return np.fromiter(numbers, np.float64, count)
