"""A comparison of methods: all that the command line, the documentation and reports show of it.

Methods are scored by the loss they end with, over the lowest that any method ended with there: the mean over settings
of the logarithm of this ratio. One that fails counts as `LIMIT`, and so does one that is farther behind.

Performance profiles (Dolan and Moré, 2002) show how often a method is within a factor of the best one. The cost of a
method on a setting is the number of evaluations it needs to reach the setting's target; its ratio is this cost over the
lowest of all methods. The profile of a method at τ is the share of settings whose ratio is at most τ: at 1 how often it
is the best, and far out how often it reaches the target at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from gradline.lab.findings.cases import Case, MethodRuns, by_setting
from gradline.lab.findings.traces import Trace
from gradline.lab.methods import GROUPS, METHODS, Peer
from gradline.lab.studies import Setting, Study

OWN = GROUPS["gradline"]
"""The methods that stand for gradline."""
TUNED = ("sgd best", "adam best")
"""Methods with a learning rate chosen with the results in hand."""
LIMIT = 2.0
"""Decades that a method can be behind the best one in a setting: a hundred times its loss is as bad as anything."""
FLOOR = 1e-12
"""A lower loss counts as this one: both fit the data to numerical accuracy."""
DRAWN = 10
"""Lines in a figure, at most: gradline's, the tuned ones, and the best of the others."""


@dataclass(frozen=True)
class Score:
    """A method over some settings: shares of them, and its loss over the best one's."""

    method: str
    behind: float
    """Geometric mean of its final loss over the best one's: 1 is the best everywhere, `10 ** LIMIT` the worst."""
    best: float
    """Share of settings where it reaches the target first, in evaluations of the median seed."""
    near: float
    """Within twice the evaluations of the best one."""
    far: float
    """Within ten times."""
    reached: float
    """Share of settings where its median seed reaches the target."""
    always: float
    """Share of settings where all its seeds do."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of a study that compares methods, and what is read from them.

    Args:
        runs: of the study's settings and methods.
        settings: those that have runs, in the study's order.
    """

    runs: tuple[Trace, ...]
    settings: tuple[Setting, ...]

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The settings with their methods, best and median of each grid in the place of the grid."""
        found: dict[str, dict[str, list[Trace]]] = {}
        for run in self.runs:
            found.setdefault(run.setting, {}).setdefault(run.method, []).append(run)
        cases = [(setting, found[setting.name]) for setting in self.settings if setting.name in found]
        return tuple(Case(setting, with_grids(methods)) for setting, methods in cases)

    def part(self, settings: Iterable[str] | None) -> tuple[Case, ...]:
        """Return the cases of some settings; `None`: all."""
        return tuple(case for case in self.cases if settings is None or case.setting.name in settings)

    def scores(self, settings: Sequence[str] | None = None) -> list[Score]:
        """Return the scores of methods over those (of some) settings on which all of them were run, the best first."""
        cases = self.part(settings)
        usual, worst = costs(cases), costs(cases, worst=True)
        near = ratios(usual)
        behind = 10.0 ** decades(cases)[usual.columns].clip(upper=LIMIT).mean(axis=1)
        flags = (near <= 1.0, near <= 2.0, near <= 10.0, np.isfinite(usual), np.isfinite(worst))
        columns = pd.concat([behind, *(one.mean(axis=1) for one in flags)], axis=1)
        made = [Score(*row) for row in columns.itertuples(name=None)]
        return sorted(made, key=lambda score: (score.behind, -score.near, score.method))

    def shared(self, settings: Sequence[str] | None = None) -> list[str]:
        """Return the settings on which all methods were run: those of scores."""
        return [str(name) for name in costs(self.part(settings))]

    @cached_property
    def drawn(self) -> list[str]:
        """The methods that a figure of lines shows: gradline's, the tuned ones, the best of the others."""
        return leading(ratios(costs(self.cases)), (*OWN, *TUNED), DRAWN)


def compare(runs: Iterable[Trace], study: Study) -> Comparison:
    """Return the comparison of a study's runs: those with its budget, or else the largest there is."""
    known = list(by_setting((run for run in runs if run.method in METHODS), study.settings))
    chosen = tuple(run for _, some in known for run in some)
    return Comparison(chosen, tuple(setting for setting, _ in known))


def with_grids(methods: dict[str, list[Trace]]) -> dict[str, MethodRuns]:
    """Return methods on a setting, with two in the place of each grid: its best learning rate there, and the median.

    They are chosen by the median over seeds of the final training loss, with the result in hand: what the best one
    costs to find is not counted, so it is what a perfect tuner would have got.
    """
    entries = {name: MethodRuns(name, tuple(runs)) for name, runs in methods.items()}
    grids: dict[str, list[Peer]] = {}
    for name in methods:
        method = METHODS.get(name)
        if isinstance(method, Peer) and method.family is not None:
            grids.setdefault(method.family, []).append(method)
    for family, peers in grids.items():
        rates = [(entries.pop(peer.name), peer.rate or 0.0) for peer in peers]
        ranked = [one for one, _ in sorted(rates, key=lambda pair: (pair[0].at_budget("train_loss").median, pair[1]))]
        for what, chosen in (("best", ranked[0]), ("median", ranked[len(ranked) // 2])):
            entries[f"{family} {what}"] = MethodRuns(f"{family} {what}", chosen.runs)
    return entries


def frame(cases: Iterable[Case], number: Callable[[Case, MethodRuns], float]) -> pd.DataFrame:
    """Return methods × settings: a number of each method there; NaN without runs."""
    columns = {case.setting.name: {name: number(case, entry) for name, entry in case.entries.items()} for case in cases}
    methods = list(dict.fromkeys(name for column in columns.values() for name in column))
    return pd.DataFrame(columns, index=methods, dtype=float)


def decades(cases: Iterable[Case]) -> pd.DataFrame:
    """Return methods × settings: log10 of the median seed's final training loss over the lowest of all methods.

    Infinite where the median seed failed, NaN where there are no runs, and nothing is negative.
    """
    finals = frame(cases, lambda case, entry: math.log10(max(entry.at_budget("train_loss").median, FLOOR)))
    return (finals - finals.min()).mask(np.isinf(finals), math.inf)  # where all failed there is no best one


def costs(cases: Iterable[Case], *, worst: bool = False) -> pd.DataFrame:
    """Return methods × settings on which all methods were run: evaluations of the median or worst seed to the target.

    Infinite where the target was not reached.
    """
    which = "worst" if worst else "median"
    return frame(cases, lambda case, entry: getattr(case.to_target(entry), which)).dropna(axis="columns")


def ratios(costs: pd.DataFrame) -> pd.DataFrame:
    """Return costs over the lowest cost of the setting; infinite where the target was not reached.

    A target that is reached before the first step costs nothing: all who did so have a ratio of 1.
    """
    best = costs.min()
    return (costs / best).mask(costs == best, 1.0).mask(np.isinf(costs), math.inf)


def leading(ratios: pd.DataFrame, always: Sequence[str], count: int) -> list[str]:
    """Return the methods that a figure shows: some always, if they are there, then those most often near the best."""
    chosen = [name for name in always if name in ratios.index]
    near = (ratios <= 2.0).mean(axis=1) + (ratios <= 10.0).mean(axis=1)
    rest = sorted(set(ratios.index) - set(chosen), key=lambda name: (-near[name], name))
    return chosen + rest[: max(count - len(chosen), 0)]
