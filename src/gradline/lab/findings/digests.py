"""What is kept of a run that is not of a comparison: what its file says of itself, its summary, and thinned curves.

As plain values, for a packed file, problems, methods and versions that runs share are written once, and the numbers of
all curves together, field by field (see `gradline.lab.tools.packing`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings.query import configuration, summary_row
from gradline.lab.findings.traces import MEASURED, POINTS, Probes, Trace, grid_of, thin, trace_of
from gradline.lab.jobs.result import Header, Result, Status
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.packing import pack_numbers, unpack_numbers

LOGARITHMS = frozenset({"train_loss", "test_loss", "step"})
"""Packed as logarithms: of zero, minus infinity."""
DIGITS = 9
"""Significant digits of the numbers of a summary."""


class Digest(NamedTuple):
    """A run in little space."""

    header: Header
    summary: dict[str, Any]
    """See `gradline.lab.summary`."""
    trace: Trace


def digest(result: Result, *, points: int = POINTS) -> Digest:
    """Return what is kept of a result.

    Args:
        result: the run and its table.
        points: see `gradline.lab.findings.traces.thin`.
    """
    return Digest(result.header, summary_row(result), thin(configuration(result.run), result.columns, points=points))


def digests_to_values(digests: Sequence[Digest]) -> dict[str, Any]:
    """Return digests as plain values, for JSON. Their traces must have one number of points."""
    digests = sorted(digests, key=lambda one: one.header.run.key)
    shared: dict[str, list[str]] = {"problems": [], "methods": [], "versions": []}

    def place(kind: str, value: Any) -> int:
        text = json.dumps(value, sort_keys=True)
        if text not in shared[kind]:
            shared[kind].append(text)
        return shared[kind].index(text)

    runs = []
    for header, summary, trace in digests:
        run = header.run.to_dict()
        run |= {"problem": place("problems", run["problem"]), "method": place("methods", run["method"])}
        about = {"seconds": _shorter(header.seconds), "engine": header.engine, "status": header.status.value}
        about |= {"reason": header.reason, "versions": place("versions", header.versions)}
        row = {name: _shorter(value) for name, value in summary.items()}
        runs.append({"run": run, "about": about, "summary": row, "steps": len(trace.steps)})
    traces = [one.trace for one in digests]
    points = max(len(trace.evaluations) - 1 for trace in traces)
    numbers = {name: pack_numbers(_column(traces, name)) for name in ("iterations", "steps", *_VALUES)}
    return {**{kind: [json.loads(text) for text in texts] for kind, texts in shared.items()},
            "points": points, "runs": runs, "numbers": numbers}  # fmt: skip


_VALUES = (*MEASURED, "step")


def _column(traces: Sequence[Trace], name: str) -> NDArray[np.float64]:
    columns = [trace.values[name] if name in _VALUES else getattr(trace, name) for trace in traces]
    values: NDArray[np.float64] = np.concatenate(columns)
    if name not in LOGARITHMS | {"steps"}:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(values)


def digests_from_values(values: dict[str, Any]) -> tuple[Digest, ...]:
    """Return the digests that `digests_to_values` wrote."""
    points, numbers = values["points"], {}
    for name, text in values["numbers"].items():
        column = unpack_numbers(text)
        numbers[name] = iter(10.0**column if name in LOGARITHMS | {"steps"} else column)
    found = []
    for line in values["runs"]:
        run = line["run"]
        run |= {"problem": values["problems"][run["problem"]], "method": values["methods"][run["method"]]}
        about = line["about"]
        about |= {"status": Status(about["status"]), "versions": values["versions"][about["versions"]]}
        header = Header(run=Run.from_dict(run), **about)
        row: dict[str, Any] = {
            name: float(value) if value in _WORDS else value for name, value in line["summary"].items()
        }
        count = len(grid_of(header.run.budget, points))
        curves = {name: _take(numbers[name], count) for name in _VALUES}
        probes = None
        if row["probes_max"]:
            fewest, most, later = (int(row[name]) for name in ("probes_min", "probes_max", "probes_max_later"))
            probes = Probes(fewest, most, later, row["probes_mean"])
        iterations, steps = _take(numbers["iterations"], count).round(), _take(numbers["steps"], line["steps"])
        trace = trace_of(configuration(header.run), curves, iterations, steps, probes, points)
        found.append(Digest(header, row, trace))
    return tuple(found)


_WORDS = ("nan", "inf", "-inf")


def _take(numbers: Iterator[float], count: int) -> NDArray[np.float64]:
    return np.fromiter(numbers, np.float64, count)


def _shorter(value: Any) -> Any:
    """Return a number with fewer digits; JSON has no NaN and no infinity."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
