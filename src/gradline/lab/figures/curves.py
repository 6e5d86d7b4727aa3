"""Curves of runs: selecting the runs of a figure, and their means and medians over seeds.

Where a mean is over runs of different lengths in iterations, it ends with the shortest (the paper's "lowest common
number of iterations"). On logarithmic scales means and deviations are those of the logarithms, and `NUGGET` is added to
errors before, as in the paper. Steps of zero, or below 1e-16, moved nothing and are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from gradline.lab import studies
from gradline.lab.figures import labels
from gradline.lab.findings.comparison import Comparison, compare
from gradline.lab.findings.reading import Source, traces
from gradline.lab.findings.traces import Trace, grid_of
from gradline.lab.findings.training import TrainingCases, trained
from gradline.lab.jobs.result import Array, held

NUGGET = 1e-4
"""Added to errors before their logarithm is taken, so that zero can be shown."""


class MissingRuns(LookupError):  # noqa: N818 - it is no mistake: a directory need not have everything
    """A figure has no runs to show."""


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
    """Return the runs of a figure: for each problem those with the most frequent budget and variant, each seed once.

    A directory may hold more than one study. Runs of comparisons are left out: they have figures of their own. Of two
    equally frequent budgets the larger one is taken.

    Args:
        runs: the runs of a directory.
        problems: the names of problems to show, in order.
        methods: the names of methods to show, in order.
        sampling: the kinds of sampling to show.
        directions: select runs with separate batches for directions; `False`: runs without.
        angled: select runs whose angles were measured; `False`: the others.
        any_of: methods whose runs decide the budget; a problem without runs of any of them is left out.
    """
    wanted = [
        run
        for run in runs
        if not run.run.benchmark
        and run.problem in problems
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


def missing(study: str) -> MissingRuns:
    """Return the error for a figure without runs."""
    return MissingRuns(f"it needs runs of the study {study} (gradline run {study})")


def compared(source: Source) -> Comparison:
    """Return the comparison of the runs of a source; raises `MissingRuns`."""
    found = compare(traces(source), studies.load("compare"))
    if not found.runs:
        raise missing("compare")
    return found


def cases_of_training(source: Source) -> TrainingCases:
    """Return the cases of the study `train` in a source; raises `MissingRuns`."""
    found = trained(traces(source), studies.load("train"))
    if not found.cases:
        raise missing("train")
    return found


class Measure(NamedTuple):
    """A measure of runs and its scale in figures."""

    name: str
    words: str
    logarithmic: bool = True
    nugget: float = 0.0
    floor: float = 0.0
    """Values that are not above it are left out on a logarithmic scale."""

    @property
    def against(self) -> str:
        return "iterations" if self.name == "step" else "evaluations"

    def linear(self) -> Measure:
        return self._replace(logarithmic=False)

    def shown(self, values: Array) -> Array:
        """Return values as drawn: on a logarithmic scale with the nugget added, and NaN if not above the floor."""
        if not self.logarithmic:
            return np.where(np.isfinite(values), values, np.nan)
        moved = values + self.nugget
        return np.where(np.isfinite(moved) & (moved > self.floor), moved, np.nan)


TRAIN_ERROR = Measure("train_error", "training error", nugget=NUGGET)
TRAIN_LOSS = Measure("train_loss", "training loss")
TEST_ERROR = Measure("test_error", "test error", nugget=NUGGET)
TEST_LOSS = Measure("test_loss", "test loss")
STEP = Measure("step", "step α", floor=1e-16)
ANGLE = Measure("angle", "angle in degrees", logarithmic=False)
MEASURES = {measure.name: measure for measure in (TRAIN_ERROR, TRAIN_LOSS, TEST_ERROR, TEST_LOSS, STEP, ANGLE)}


class Band(NamedTuple):
    """A middle line and what is around it."""

    x: Array
    middle: Array
    low: Array
    high: Array


def rows_of(runs: Sequence[Trace], measure: Measure) -> tuple[Array, Array]:
    """Return x and a row of values for each run: of steps against iterations, NaN beyond the end of a run."""
    if measure.against == "evaluations":
        return runs[0].grid, np.stack([run.on_grid(measure.name) for run in runs])
    known = [run.columns["iterations"][: run.counted] for run in runs]
    x = grid_of(int(max(at[-1] for at in known)), runs[0].points)
    rows = [held(at, run.columns[measure.name][: run.counted], x) for at, run in zip(known, runs, strict=True)]
    return x, np.stack([np.where(x <= at[-1], row, np.nan) for at, row in zip(known, rows, strict=True)])


def _common(x: Array, rows: Array, measure: Measure) -> tuple[Array, Array]:
    """Return x and values; where x is iterations, those that all runs have."""
    if measure.against == "evaluations":
        return x, rows
    there = np.flatnonzero(~np.isnan(rows).any(axis=0))
    return x[there], rows[:, there]


def cloud(x: Array, rows: Array, measure: Measure) -> Band:
    """Return mean and standard deviation over seeds; on a logarithmic scale, those of logarithms."""
    x, rows = _common(x, rows, measure)
    shown = measure.shown(rows)
    if measure.logarithmic:
        shown = np.log10(shown)
    there = np.ma.masked_invalid(shown)
    mean, deviation = (part.filled(np.nan) for part in (there.mean(axis=0), there.std(axis=0)))
    band = Band(x, mean, mean - deviation, mean + deviation)
    return Band(x, *(10.0**line for line in band[1:])) if measure.logarithmic else band


def quantiles(x: Array, rows: Array, measure: Measure) -> Band:
    """Return the median over seeds, and the quartiles."""
    x, rows = _common(x, rows, measure)
    return Band(x, *pd.DataFrame(measure.shown(rows)).quantile([0.5, 0.25, 0.75]).to_numpy())


Plan: TypeAlias = dict[tuple[str, str, int], tuple[int, int]]
"""Number of seeds and budget that a study has for a problem, method and batch size."""


@dataclass(frozen=True, eq=False)
class FigureRuns:
    """The runs that a figure of curves shows."""

    runs: tuple[Trace, ...]
    planned: Plan = field(default_factory=dict)
    """Settings of the whole study; `notes` compares the runs with them."""

    def part(self, *problems: str) -> FigureRuns:
        planned = {key: plan for key, plan in self.planned.items() if key[0] in problems}
        return FigureRuns(tuple(run for run in self.runs if run.problem in problems), planned)

    def notes(self) -> list[str]:
        """Return what is missing of the whole study: methods, batch sizes, seeds, evaluations."""
        seeds: dict[tuple[str, str, int], set[int]] = {}
        for run in self.runs:
            seeds.setdefault((run.problem, run.method, run.batch_size), set()).add(run.seed)
        problems, methods, sizes = (set(names) for names in zip(*seeds, strict=True))
        planned = {key: plan for key, plan in self.planned.items() if key[0] in problems}
        names = dict.fromkeys(method for _, method, _ in planned)
        notes = [f"no runs of {labels.method(name)}" for name in names if name not in methods]
        if unseen := sorted({size for *_, size in planned} - sizes):
            notes.append(f"none at B = {' and '.join(map(str, unseen))}")
        for problem, method, size in planned:
            if (problem, method, size) not in seeds and method in methods and size in sizes:
                where = f"{labels.problem(problem)}, " if len(problems) > 1 else ""
                notes.append(f"none of {labels.method(method)} at {where}B = {size}")
        there = [(len(seeds[key]), count) for key, (count, _) in planned.items() if key in seeds]
        if fewer := [count for made, count in there if made < count]:
            low, high = (some(made for made, _ in there) for some in (min, max))
            notes.append(f"{low if low == high else f'{low} to {high}'} of {max(fewer)} seeds")
        wanted = {key[0]: budget for key, (_, budget) in planned.items()}
        short = {(run.budget, wanted.get(run.problem, 0)) for run in self.runs}
        return notes + [f"{end:,} of {budget:,} evaluations" for end, budget in sorted(short) if end < budget]

    def values_of(self, name: str) -> list[Any]:
        """Return the different values of a field, in their order."""
        return list(dict.fromkeys(getattr(run, name) for run in self.runs))


def figure_runs(
    source: Source,
    study: str,
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    **choice: Any,
) -> FigureRuns:
    """Return the runs of a study for a figure: of all its problems and methods, or of those given.

    Other choices are those of `select`. Raises `MissingRuns`, naming the study.
    """
    planned = planned_by(study)
    problems = list(dict.fromkeys(problem for problem, *_ in planned)) if problems is None else problems
    methods = list(dict.fromkeys(method for _, method, _ in planned)) if methods is None else methods
    runs = select(traces(source), problems=problems, methods=methods, **choice)
    if not runs:
        raise missing(study)
    return FigureRuns(tuple(runs), planned)


@cache
def planned_by(study: str) -> Plan:
    """Return the settings of a study that comes with gradline."""
    seeds: dict[tuple[str, str, int], list[int]] = {}
    budgets = {}
    for run in studies.plan(studies.load(study)):
        key = run.problem.name, run.method.name, run.batch_size
        seeds.setdefault(key, []).append(run.seed)
        budgets[key] = run.budget
    return {key: (len(set(some)), budgets[key]) for key, some in seeds.items()}
