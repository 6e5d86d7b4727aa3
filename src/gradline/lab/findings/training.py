"""Results of the study `train`: losses at the end of training, with and without tuning.

A case is a problem with a batch size and a budget. Losses are those of validation samples at the end of a run. A tuned
method is a group of candidates: the one with the lowest loss on the tuning seed is reported on the other seeds, and all
runs on the tuning seed are its cost. Test samples decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings.cases import Case, MethodRuns, by_setting, ratio
from gradline.lab.findings.traces import Trace
from gradline.lab.studies import Study
from gradline.lab.studies.running import lowest

UNTOUCHED = "adam-0.001"
"""Adam at the learning rate that people begin with."""
CLOSE = 1.02
"""A loss of at most so many times another one is as good."""
RESAMPLES = 2000
"""Number of bootstrap samples of an interval, drawn over problems."""


class Versus(NamedTuple):
    """A method against what one gets by tuning, over cases."""

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

    def versus(self, method: str) -> Versus | None:
        """Compare a method with what one gets by tuning, over the cases that have both."""
        pairs = [
            (case, case.entries[method], other)
            for case in self.cases
            if method in case.entries and (other := case.tuned) is not None and other.method != method
        ]
        if not pairs:
            return None
        ratios = np.log([ratio(one.validation_loss.median, other.validation_loss.median) for _, one, other in pairs])
        tests = [ratio(*(entry.final("test_loss").median for entry in entries)) for _, *entries in pairs]
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
    _, places, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    sums = np.bincount(places, logarithms)
    drawn = np.random.default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    return float(low), float(high)


def trained(runs: Iterable[Trace], study: Study) -> TrainingCases:
    """Sort runs into the cases of a study: those with its budgets, or else with the largest there is."""
    longest: dict[str, int] = {}
    for setting in study.settings:
        longest[setting.name] = max(setting.budget, longest.get(setting.name, 0))
    cases = [
        Case(setting, entries, setting.budget < longest[setting.name])
        for setting, some in by_setting(runs, study.settings)
        if (entries := _entries(some, study))
    ]
    return TrainingCases(tuple(cases))


def _entries(runs: Sequence[Trace], study: Study) -> dict[str, MethodRuns]:
    def reported(method: str | None) -> tuple[Trace, ...]:
        return tuple(run for run in runs if run.method == method and run.seed in study.seeds)

    entries = {method.name: MethodRuns(method.name, reported(method.name)) for method in study.methods}
    for name, candidates, others in study.tuned:
        names = [method.name for method in candidates + others]
        tuning = [run for run in runs if run.method in names and run.seed == study.tuning_seed]
        tuning.sort(key=lambda run: names.index(run.method))
        chosen = lowest({run.method: run.final("validation_loss") for run in tuning})
        entries[name] = MethodRuns(name, reported(chosen), chosen, tuple(tuning))
    return {name: entry for name, entry in entries.items() if entry.runs}
