"""Results of the study `train`: losses at the end of training, with and without tuning.

A case is a problem with a batch size and a budget. Losses are those of validation samples at the end of a run. A tuned
method is a group of candidates: the one with the lowest loss on the tuning seed is reported on the other seeds, and all
runs on the tuning seed are its cost. Test samples decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings.measures import Spread, by_setting, failures, spread
from gradline.lab.findings.traces import Trace
from gradline.lab.studies import Setting, Study
from gradline.lab.studies.running import lowest

OURS = "angle"
"""The method that questions are asked about."""
UNTOUCHED = "adam-0.001"
"""Adam at the learning rate that people begin with."""
CLOSE = 1.02
"""A loss of at most so many times another one is as good."""
RESAMPLES = 2000
"""Number of bootstrap samples of an interval, drawn over problems."""
WORST = 100.0
"""A ratio of losses counts at most so much, and so does a failure."""


@dataclass(frozen=True)
class CaseMethod:
    """A method in a case.

    Args:
        method: its name; of a tuned one that of its group.
        runs: one for each seed.
        chosen: the candidate that was chosen, of a tuned method.
        candidates: runs on the tuning seed.
    """

    method: str
    runs: tuple[Trace, ...]
    chosen: str | None = None
    candidates: tuple[Trace, ...] = ()

    def by_seed(self, name: str) -> dict[int, float]:
        """Return a measure at the end of each run, by seed; infinite where the run failed or the value is NaN."""
        return {run.seed: run.final(name) for run in self.runs}

    @cached_property
    def losses(self) -> dict[int, float]:
        return self.by_seed("validation_loss")

    @property
    def validation_loss(self) -> Spread:
        return spread(self.losses.values())

    @property
    def validation_error(self) -> Spread:
        """Validation error over seeds; NaN where runs ended and it was not measured."""
        values = self.by_seed("validation_error").values()
        if math.isfinite(self.validation_loss.best) and not any(map(math.isfinite, values)):
            return Spread(math.nan, math.nan, math.nan)
        return spread(values)

    def final(self, name: str) -> Spread:
        """Return a measure at the end over seeds."""
        return spread(self.by_seed(name).values())

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
        return failures(self.runs)

    def evaluations_to(self, target: float) -> float:
        """Return the median seed's evaluations until a measured validation loss is at most the target."""
        return spread(run.first("validation_loss", target, "evaluations") for run in self.runs).median


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with a batch size and a budget, and what the methods came to there."""

    setting: Setting
    short: bool
    """Whether the budget is a share of the one at which training has flattened."""
    entries: dict[str, CaseMethod]

    @property
    def name(self) -> str:
        return f"{self.setting.name}, {self.setting.budget:,}"

    @property
    def tuned(self) -> CaseMethod | None:
        """The tuned method with the lowest validation loss on the tuning seed: what one gets by tuning."""
        losses = {
            entry.method: min((run.final("validation_loss") for run in entry.candidates), default=math.inf)
            for entry in self.entries.values()
            if entry.chosen is not None
        }
        name = lowest(losses)
        return None if name is None else self.entries[name]

    def untuned(self) -> list[CaseMethod]:
        """Return the methods without candidates but `OURS`, the lowest median loss first."""
        found = [entry for entry in self.entries.values() if entry.chosen is None and entry.method != OURS]
        return sorted(found, key=lambda entry: entry.validation_loss.median)

    def ratio(self, method: str, against: str) -> Spread:
        """Return the validation loss of a method over that of another: of medians, then lowest and highest of seeds."""
        one, other = self.entries[method], self.entries[against]
        paired = [_ratio(one.losses[seed], other.losses[seed]) for seed in one.losses if seed in other.losses]
        return Spread(_ratio(one.validation_loss.median, other.validation_loss.median), min(paired), max(paired))


def _ratio(one: float, other: float) -> float:
    """Return one loss over another, within `WORST`; 1 where both failed."""
    if math.isinf(one) or math.isinf(other):
        return 1.0 if one == other else WORST if math.isinf(one) else 1.0 / WORST
    return min(max(one / other, 1.0 / WORST), WORST) if other > 0.0 else 1.0 if one <= 0.0 else WORST


class Versus(NamedTuple):
    """A method against another over cases."""

    ratio: float
    """Geometric mean of validation losses over the other's."""
    middle: float
    """Median of validation losses over the other's."""
    close: int
    """Cases where it ends at most `CLOSE` times as high: as good or better."""
    low: float
    high: float
    """Bootstrap interval of 95%, over problems."""
    test: float
    """Geometric mean of test losses over the other's."""
    better: int
    """Pairs of runs with one seed where it ends lower."""
    pairs: int
    always_worse: int
    """Cases where it ends higher in every seed."""
    cases: int


@dataclass(frozen=True, eq=False)
class TrainingCases:
    """All cases of which there are runs, in the study's order."""

    cases: tuple[Case, ...]

    @property
    def ordered(self) -> list[Case]:
        """The cases of problems for tuning first, then those of problems that are held out."""
        return sorted(self.cases, key=lambda case: case.setting.held_out)

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(name for case in self.cases for name in case.entries))

    def part(self, *, held_out: bool | None = None, short: bool | None = None) -> TrainingCases:
        """Return some of the cases: of problems that are held out or not, of short budgets or not."""
        return TrainingCases(
            tuple(
                case
                for case in self.cases
                if (held_out is None or case.setting.held_out == held_out) and (short is None or case.short == short)
            )
        )

    def versus(self, method: str, against: str | None = None) -> Versus | None:
        """Compare a method with another, or with what one gets by tuning (`None`), over the cases that have both."""
        pairs = [
            (case, case.entries[method], other)
            for case in self.cases
            if method in case.entries
            and (other := case.tuned if against is None else case.entries.get(against)) is not None
            and other.method != method
        ]
        if not pairs:
            return None
        ratios = np.log([_ratio(one.validation_loss.median, other.validation_loss.median) for _, one, other in pairs])
        tests = [_ratio(*(entry.final("test_loss").median for entry in entries)) for _, *entries in pairs]
        low, high = interval(ratios, [case.setting.problem.name for case, _, _ in pairs])
        seeds = [
            [one.losses[seed] < other.losses[seed] for seed in one.losses if seed in other.losses]
            for _, one, other in pairs
        ]
        worse = sum(
            all(one.losses[seed] > other.losses.get(seed, math.inf) for seed in one.losses) for _, one, other in pairs
        )
        return Versus(
            math.exp(ratios.mean()),
            math.exp(float(np.median(ratios))),
            int((ratios <= math.log(CLOSE)).sum()),
            low,
            high,
            math.exp(np.log(tests).mean()),
            sum(map(sum, seeds)),
            sum(map(len, seeds)),
            worse,
            len(pairs),
        )


def interval(logarithms: NDArray[np.float64], clusters: Sequence[str]) -> tuple[float, float]:
    """Return the 95% bootstrap interval of a geometric mean, resampled by clusters: cases of a problem go together."""
    names = sorted(set(clusters))
    sums = np.array([sum(x for x, name in zip(logarithms, clusters, strict=True) if name == one) for one in names])
    counts = np.array([clusters.count(one) for one in names])
    drawn = np.random.default_rng(0).integers(len(names), size=(RESAMPLES, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    return float(low), float(high)


def trained(runs: Iterable[Trace], study: Study) -> TrainingCases:
    """Sort runs into the cases of a study: those with its budgets, or else with the largest there is."""
    longest: dict[str, int] = {}
    for setting in study.settings:
        longest[setting.name] = max(setting.budget, longest.get(setting.name, 0))
    cases = [
        Case(setting, setting.budget < longest[setting.name], entries)
        for setting, some in by_setting(runs, study.settings)
        if (entries := _entries(some, study))
    ]
    return TrainingCases(tuple(cases))


def _entries(runs: Sequence[Trace], study: Study) -> dict[str, CaseMethod]:
    def reported(method: str | None) -> tuple[Trace, ...]:
        return tuple(run for run in runs if run.method == method and run.seed in study.seeds)

    entries = {method.name: CaseMethod(method.name, reported(method.name)) for method in study.methods}
    for name, candidates, others in study.tuned:
        names = [method.name for method in candidates + others]
        tuning = [run for run in runs if run.method in names and run.seed == study.tuning_seed]
        tuning.sort(key=lambda run: names.index(run.method))
        chosen = lowest({run.method: run.final("validation_loss") for run in tuning})
        entries[name] = CaseMethod(name, reported(chosen), chosen, tuple(tuning))
    return {name: entry for name, entry in entries.items() if entry.runs}
