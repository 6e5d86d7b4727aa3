"""Thin runs to a few hundred points, on a grid that all runs of one budget share.

The rule it obeys: nothing is interpolated. A value at so many evaluations is the last one measured by then, and stays
what it was when a run has ended (its weights do). Steps are those of the iterations on the grid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from gradline.lab.tools.files import Report

Array = NDArray[np.float64]
Source: TypeAlias = "str | os.PathLike[str] | pd.DataFrame | list[Trace] | tuple[Trace, ...]"
"""A study's directory, a file of `gradline results --pack`, a data frame of `gradline.lab.results`, or traces."""

POINTS = 300
"""Intervals of a curve's grid."""
MEASURED = ("train_error", "train_loss", "test_error", "test_loss", "angle")
"""Columns of a result that are thinned to the grid."""


class Probes(NamedTuple):
    """Evaluations in one iteration of a run."""

    fewest: int
    most: int
    most_later: int
    """After the first iteration."""
    mean: float


@dataclass(frozen=True, eq=False)
class Trace:
    """One run, thinned."""

    problem: str
    method: str
    batch_size: int
    seed: int
    sampling: str
    direction_batch_size: int | None
    budget: int
    variant: tuple[Any, ...]
    """Other settings in which runs differ: whether samples repeat, which variances, which loss."""
    angled: bool
    """Whether angles were measured."""
    evaluations: Array
    """The grid: from 0 to the budget."""
    iterations: Array
    """Made by then."""
    values: Mapping[str, Array]
    """Losses, errors, the angle and the step, the last ones known by then."""
    step_iterations: Array
    """Another grid: of iterations, from 1."""
    steps: Array
    """Accepted in those."""
    probes: Probes | None
    """Evaluations per iteration; `None` where the method is no search of ours."""


def traces(source: Source, *, report: Report | None = None) -> list[Trace]:
    """Thin all runs of a source, one by one, so that not all of them need to be in memory at once."""
    if isinstance(source, list | tuple):
        return list(source)
    if isinstance(source, str | os.PathLike):
        from gradline.lab.findings.reading import digests

        return [digest.trace for digest in digests(source, report=report)]
    return [thin(configuration, columns) for configuration, columns in _frames(source)]


def _frames(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    import pandas as pd

    for _, rows in frame.groupby("key", observed=True, sort=True):
        columns = {name: rows[name].to_numpy() for name in ("iteration", "evaluations", "probes", "step", *MEASURED)}
        configuration = {str(name): None if value is pd.NA else value for name, value in rows.iloc[0].items()}
        yield configuration, columns


def thin(configuration: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], *, points: int = POINTS) -> Trace:
    """Thin one run.

    Args:
        configuration: the first columns of `gradline.lab.summary`.
        columns: of its result.
        points: intervals of the grid of evaluations; of steps there are up to twice as many.
    """
    evaluations = columns["evaluations"].astype(np.float64)
    grid = grid_of(int(configuration["budget"]), points)
    values = {}
    for name in MEASURED:
        measured = ~np.isnan(columns[name])
        values[name] = held(evaluations[measured], columns[name][measured], grid)
    moved = columns["iteration"] > 0
    steps = np.asarray(columns["step"][moved], dtype=np.float64)
    values["step"] = held(evaluations[moved], steps, grid)
    probes = columns["probes"][moved]
    probes = probes[~np.isnan(probes)]
    iterations = held(evaluations, columns["iteration"].astype(np.float64), grid)
    kept = steps[:: stride(int(configuration["budget"]), points)]
    counted = None
    if probes.size:
        later = probes[1:].max(initial=0)
        counted = Probes(int(probes.min()), int(probes.max()), int(later), float(probes.mean()))
    return trace_of(configuration, values, iterations, kept, counted, points)


def trace_of(
    configuration: Mapping[str, Any],
    values: Mapping[str, Array],
    iterations: Array,
    steps: Array,
    probes: Probes | None,
    points: int,
) -> Trace:
    """Return a trace of numbers that are thinned already; its two grids follow from the budget."""
    budget = int(configuration["budget"])
    direction = configuration["direction_batch_size"]
    return Trace(
        problem=str(configuration["problem"]),
        method=str(configuration["method"]),
        batch_size=int(configuration["batch_size"]),
        seed=int(configuration["seed"]),
        sampling=str(configuration["sampling"]),
        direction_batch_size=None if direction is None else int(direction),
        budget=budget,
        variant=tuple(configuration[name] for name in ("repetition", "diagonal", "loss")),
        angled=bool(np.isfinite(values["angle"]).any()),
        evaluations=grid_of(budget, points),
        iterations=iterations,
        values=values,
        step_iterations=1.0 + stride(budget, points) * np.arange(len(steps), dtype=np.float64),
        steps=steps,
        probes=probes,
    )


def grid_of(budget: int, points: int = POINTS) -> Array:
    """Return the evaluations at which runs of a budget are read."""
    return np.unique(np.linspace(0.0, budget, min(budget, points) + 1).round())


def stride(budget: int, points: int = POINTS) -> int:
    """Return the number of iterations from one step that is kept to the next."""
    return max(1, budget // (2 * points))


def held(at: Array, values: Array, grid: Array) -> Array:
    """Return the last of some values known at each point of a grid; NaN before the first."""
    if not len(at):
        return np.full(len(grid), np.nan)
    place = np.searchsorted(at, grid, side="right") - 1
    return np.where(place >= 0, np.asarray(values, dtype=np.float64)[np.maximum(place, 0)], np.nan)
