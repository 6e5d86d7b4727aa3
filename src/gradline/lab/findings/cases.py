"""Cases of studies that compare methods: a setting, and the results of each method there, over its seeds.

Nothing is interpolated: a value at so many evaluations is the last one measured by then. A run that failed or diverged
has an infinite loss at its end, and reached its target only if it did so before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gradline.lab.findings.traces import Trace, latest
from gradline.lab.jobs.result import Status
from gradline.lab.studies import Setting
from gradline.lab.studies.running import lowest
from gradline.lab.tools.formatting import number

OURS = "angle"
"""The method that questions are asked about."""
WORST = 100.0
"""A ratio of losses counts at most so much, and so does a failure."""


class Spread(NamedTuple):
    """A number over seeds."""

    median: float
    best: float
    worst: float

    def __str__(self) -> str:
        if self.best == self.worst:
            return number(self.median)
        return f"{number(self.median)} ({number(self.best)} to {number(self.worst)})"


def spread(values: Iterable[float]) -> Spread:
    """Return the median, the lowest and the highest value; of an even number the upper of both middles.

    The mean of a finite and an infinite value would be infinite.
    """
    ordered = sorted(values)
    if not ordered:
        return Spread(math.nan, math.nan, math.nan)
    return Spread(ordered[len(ordered) // 2], ordered[0], ordered[-1])


@dataclass(frozen=True)
class MethodRuns:
    """A method in a case.

    Args:
        method: its name; of a tuned one that of its group.
        runs: one for each seed, in their order.
        chosen: the candidate that was chosen, of a tuned method.
        candidates: runs on the tuning seed.
    """

    method: str
    runs: tuple[Trace, ...]
    chosen: str | None = None
    candidates: tuple[Trace, ...] = ()

    def over_seeds(self, measure: Callable[[Trace], float]) -> Spread:
        """Return a measure of runs over seeds."""
        return spread(map(measure, self.runs))

    def final(self, name: str) -> Spread:
        """Return a measure at the end, also beyond the budget."""
        return self.over_seeds(lambda run: run.final(name))

    def at_budget(self, name: str) -> Spread:
        """Return a measure at the end of the budget."""
        return self.over_seeds(lambda run: run.at_budget(name))

    @cached_property
    def losses(self) -> dict[int, float]:
        """Validation losses at the end, by seed."""
        return {run.seed: run.final("validation_loss") for run in self.runs}

    @property
    def validation_loss(self) -> Spread:
        return spread(self.losses.values())

    @property
    def validation_error(self) -> Spread:
        """Validation error over seeds; NaN where runs ended and it was not measured."""
        found = self.final("validation_error")
        if math.isfinite(self.validation_loss.best) and not math.isfinite(found.best):
            return spread([])
        return found

    @property
    def evaluations(self) -> float:
        """Evaluations of a run, the median over seeds."""
        return spread(run.last("evaluations") for run in self.runs if run.rows).median

    @property
    def tuning_evaluations(self) -> float:
        """Evaluations of all runs on the tuning seed; 0 where nothing is tuned."""
        return sum(run.last("evaluations") for run in self.candidates)

    @property
    def failures(self) -> tuple[str, ...]:
        """The reasons of runs that failed or diverged."""
        return tuple(run.reason or "diverged" for run in self.runs if run.status is not Status.DONE)

    def evaluations_to(self, target: float) -> float:
        """Return the median seed's evaluations until a measured validation loss is at most the target."""
        return self.over_seeds(lambda run: run.first("validation_loss", target, "evaluations")).median

    def pace(self, counted: str = "evaluations") -> float:
        """Return processor seconds for one iteration or evaluation, the median over runs; NaN if there is none."""
        paces = [run.last("cpu_seconds") / run.last(counted) for run in self.runs if run.last(counted) > 0]
        return float(np.median(paces)) if paces else math.nan


@dataclass(frozen=True, eq=False)
class Case:
    """A setting, and what the methods came to there.

    Args:
        setting: a problem with a batch size and a budget.
        entries: the methods by name.
        short: whether the budget is a share of the one at which training has flattened.
    """

    setting: Setting
    entries: dict[str, MethodRuns]
    short: bool = False

    @property
    def name(self) -> str:
        return f"{self.setting.name}, {self.setting.budget:,}"

    @property
    def ranked(self) -> list[MethodRuns]:
        """The methods, the lowest median training loss first."""
        return sorted(self.entries.values(), key=lambda entry: (entry.at_budget("train_loss").median, entry.method))

    def to_target(self, entry: MethodRuns, unit: str = "evaluations") -> Spread:
        """Return evaluations or seconds to the setting's target, a training loss; infinite where it is not reached."""
        target = -math.inf if self.setting.target is None else self.setting.target
        return entry.over_seeds(lambda run: run.first("train_loss", target, unit, counted=True))

    def cost(self, entry: MethodRuns, counted: str) -> float:
        """Return processor time of an evaluation, or of an iteration, over that of SGD; NaN without runs of SGD."""
        of_sgd = [one for name, one in self.entries.items() if name in ("sgd best", "sgd median")]
        runs = tuple(run for one in of_sgd for run in one.runs)
        return entry.pace(counted) / MethodRuns("sgd", runs).pace(counted)

    @property
    def tuned(self) -> MethodRuns | None:
        """The tuned method with the lowest validation loss on the tuning seed: what one gets by tuning."""
        losses = {
            entry.method: min((run.final("validation_loss") for run in entry.candidates), default=math.inf)
            for entry in self.entries.values()
            if entry.chosen is not None
        }
        name = lowest(losses)
        return None if name is None else self.entries[name]

    def untuned(self) -> list[MethodRuns]:
        """Return the methods without candidates but `OURS`, the lowest median loss first."""
        found = [entry for entry in self.entries.values() if entry.chosen is None and entry.method != OURS]
        return sorted(found, key=lambda entry: entry.validation_loss.median)

    def ratio(self, method: str, against: str) -> Spread:
        """Return the validation loss of a method over that of another: of medians, then lowest and highest of seeds.

        Without a seed that both have, as in a study that is not complete, all three are that of medians.
        """
        one, other = self.entries[method], self.entries[against]
        paired = [ratio(one.losses[seed], other.losses[seed]) for seed in one.losses if seed in other.losses]
        middle = ratio(one.validation_loss.median, other.validation_loss.median)
        return Spread(middle, min(paired, default=middle), max(paired, default=middle))


def ratio(one: float, other: float) -> float:
    """Return one loss over another, within `WORST`; 1 where both failed."""
    if math.isinf(one) or math.isinf(other):
        return 1.0 if one == other else WORST if math.isinf(one) else 1.0 / WORST
    return min(max(one / other, 1.0 / WORST), WORST) if other > 0.0 else 1.0 if one <= 0.0 else WORST


def by_setting(runs: Iterable[Trace], settings: Iterable[Setting]) -> Iterator[tuple[Setting, list[Trace]]]:
    """Yield the settings of a study that have runs of comparisons, with these in order of their seeds.

    Of each problem and batch size they are the runs with the study's budgets, or else those with the largest there is.
    """
    found: dict[tuple[str, int], dict[int, list[Trace]]] = {}
    for run in sorted(latest(run for run in runs if run.run.benchmark), key=lambda run: run.seed):
        found.setdefault((run.setting, run.run.problem.revision), {}).setdefault(run.budget, []).append(run)
    planned: dict[str, list[Setting]] = {}
    for setting in settings:
        planned.setdefault(setting.name, []).append(setting)
    for name, some in planned.items():
        known = found.get((name, some[0].problem.revision), {})
        there = [setting for setting in some if setting.budget in known]
        if known and not there:
            there = [replace(some[0], budget=max(known))]
        yield from ((setting, known[setting.budget]) for setting in there)
