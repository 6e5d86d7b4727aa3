"""Runs, each thinned to a few hundred points on a grid that all runs of a budget share; and which a figure shows.

The rule it obeys: nothing is interpolated. A value at so many evaluations is the last one measured by then, and stays
what it was when a run has ended (its weights do). Steps are those of the iterations on the grid.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from gradline.lab.tools.files import Report

Array = NDArray[np.float64]
Source: TypeAlias = "str | os.PathLike[str] | pd.DataFrame | list[Trace] | tuple[Trace, ...]"
"""A study's directory, or what `gradline.lab.results` made of it, or what `traces` made of either."""

POINTS = 300
"""Intervals of a curve's grid."""


class MissingRuns(LookupError):  # noqa: N818 - it is no mistake: a directory need not have everything
    """A figure has no runs to show."""


_MEASURED = ("train_error", "train_loss", "test_error", "test_loss", "angle")


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
    """What else may tell runs apart: whether samples repeat, which variances, which loss."""
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
    probes: NDArray[np.int64]
    """Of each iteration; none where the method is no search of ours."""


def traces(source: Source, *, report: Report | None = None) -> list[Trace]:
    """All runs of a source, thinned one by one, so that not all of them need to be in memory at once."""
    if isinstance(source, list | tuple):
        return list(source)
    if isinstance(source, str | os.PathLike):
        from gradline.lab.findings.query import loaded

        return [_trace(configuration, columns) for configuration, columns in loaded(source, report=report)]
    return [_trace(configuration, columns) for configuration, columns in _frames(source)]


def _frames(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    for _, rows in frame.groupby("key", observed=True, sort=True):
        columns = {name: rows[name].to_numpy() for name in ("iteration", "evaluations", "probes", "step", *_MEASURED)}
        yield {str(name): value for name, value in rows.iloc[0].items()}, columns


def _trace(configuration: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> Trace:
    import pandas as pd

    budget = int(configuration["budget"])
    evaluations = columns["evaluations"].astype(np.float64)
    grid = grid_of(budget)
    values = {}
    for name in _MEASURED:
        measured = ~np.isnan(columns[name])
        values[name] = held(evaluations[measured], columns[name][measured], grid)
    steps = np.asarray(columns["step"][columns["iteration"] > 0], dtype=np.float64)
    values["step"] = held(evaluations[columns["iteration"] > 0], steps, grid)
    chosen = np.arange(0, len(steps), max(1, budget // (2 * POINTS)), dtype=np.int64)
    direction = configuration["direction_batch_size"]
    probes = columns["probes"][columns["iteration"] > 0]
    return Trace(
        problem=str(configuration["problem"]),
        method=str(configuration["method"]),
        batch_size=int(configuration["batch_size"]),
        seed=int(configuration["seed"]),
        sampling=str(configuration["sampling"]),
        direction_batch_size=None if pd.isna(direction) else int(direction),
        budget=budget,
        variant=tuple(configuration[name] for name in ("repetition", "diagonal", "loss")),
        angled=bool((~np.isnan(columns["angle"])).any()),
        evaluations=grid,
        iterations=held(evaluations, columns["iteration"].astype(np.float64), grid),
        values=values,
        step_iterations=(chosen + 1).astype(np.float64),
        steps=steps[chosen],
        probes=probes[~np.isnan(probes)].astype(np.int64),
    )


def grid_of(budget: int) -> Array:
    """The evaluations at which runs of a budget are looked at."""
    return np.unique(np.linspace(0.0, budget, min(budget, POINTS) + 1).round())


def held(at: Array, values: Array, grid: Array) -> Array:
    """The last of some values known at each point of a grid; NaN before the first."""
    if not len(at):
        return np.full(len(grid), np.nan)
    place = np.searchsorted(at, grid, side="right") - 1
    return np.where(place >= 0, np.asarray(values, dtype=np.float64)[np.maximum(place, 0)], np.nan)


def select(
    runs: Iterable[Trace],
    *,
    problems: Sequence[str],
    methods: Sequence[str],
    sampling: Sequence[str] = ("dynamic",),
    directions: bool = False,
    angled: bool = False,
    any_of: Sequence[str] = (),
) -> list[Trace]:
    """The runs of a figure: of each problem those of one budget and variant, which most runs have; each seed once.

    A directory may hold more than one study. Where two budgets have as many runs, the larger one is taken.

    Args:
        runs: to choose from.
        problems: the names of problems.
        methods: the names of methods.
        sampling: which kinds.
        directions: runs whose directions had batches of their own; else those where they had not.
        angled: runs whose angles were measured; else those whose were not.
        any_of: methods without any of which there is nothing to show; their budget counts.
    """
    wanted = [
        run
        for run in runs
        if run.problem in problems
        and run.method in methods
        and run.sampling in sampling
        and (run.direction_batch_size is not None) == directions
        and run.angled == angled
    ]
    chosen: dict[tuple[Any, ...], Trace] = {}
    for problem in problems:
        of_problem = [run for run in wanted if run.problem == problem]
        counted = Counter((run.budget, run.variant) for run in of_problem if run.method in (any_of or methods))
        if not counted:
            continue
        usual = max(counted, key=lambda key: (counted[key], key[0]))
        for run in of_problem:
            if (run.budget, run.variant) == usual:
                known = (problem, methods.index(run.method), run.batch_size, run.sampling)
                chosen.setdefault((*known, run.direction_batch_size or 0, run.seed), run)
    order = {problem: place for place, problem in enumerate(problems)}
    return [chosen[key] for key in sorted(chosen, key=lambda key: (order[key[0]], *key[1:]))]


def missing(what: str, study: str) -> MissingRuns:
    """What to say where a figure has no runs."""
    return MissingRuns(f"{what} is left out: it needs runs of the study {study} (gradline run {study})")
