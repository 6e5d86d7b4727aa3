"""A comparison of methods: all that the command line, the documentation and reports show of it.

Methods are scored by the loss they end with, over the lowest that any method ended with there: the mean over settings
of the logarithm of this ratio. One that fails counts as `LIMIT`, and so does one that is farther behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from gradline.lab.findings import measures
from gradline.lab.findings.measures import MethodRow, RunTable, by_setting, costs, final_loss, frame, leading, ratios
from gradline.lab.findings.traces import Trace
from gradline.lab.methods import GROUPS, METHODS
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
    def table(self) -> RunTable:
        """By setting and method, in the study's order, best and median of each grid in the place of the grid."""
        made = measures.with_grids(measures.tabulate(self.runs))
        return {setting.name: made[setting.name] for setting in self.settings}

    @property
    def targets(self) -> dict[str, float]:
        return {s.name: -math.inf if s.target is None else s.target for s in self.settings}

    @cached_property
    def rows(self) -> list[MethodRow]:
        """A row for each method on each setting."""
        return measures.rows(self.table, self.targets, ("sgd best", "sgd median"))

    def scores(self, settings: Sequence[str] | None = None) -> list[Score]:
        """Return the scores of methods over those (of some) settings on which all of them were run, the best first."""
        table = self._part(settings)
        usual, worst = costs(table, self.targets), costs(table, self.targets, worst=True)
        near = ratios(usual)
        behind = 10.0 ** decades(table)[usual.columns].clip(upper=LIMIT).mean(axis=1)
        flags = (near <= 1.0, near <= 2.0, near <= 10.0, np.isfinite(usual), np.isfinite(worst))
        columns = pd.concat([behind, *(one.mean(axis=1) for one in flags)], axis=1)
        made = [Score(*row) for row in columns.itertuples(name=None)]
        return sorted(made, key=lambda score: (score.behind, -score.near, score.method))

    def shared(self, settings: Sequence[str] | None = None) -> list[str]:
        """Return the settings on which all methods were run: those of scores."""
        return [str(name) for name in costs(self._part(settings), self.targets)]

    def _part(self, settings: Sequence[str] | None) -> RunTable:
        return self.table if settings is None else {name: self.table[name] for name in settings}

    @cached_property
    def drawn(self) -> list[str]:
        """The methods that a figure of lines shows: gradline's, the tuned ones, the best of the others."""
        return leading(ratios(costs(self.table, self.targets)), (*OWN, *TUNED), DRAWN)


def compare(runs: Iterable[Trace], study: Study) -> Comparison:
    """Return the comparison of a study's runs: those with its budget, or else the largest there is."""
    known = list(by_setting((run for run in runs if run.method in METHODS), study.settings))
    chosen = tuple(run for _, some in known for run in some)
    return Comparison(chosen, tuple(setting for setting, _ in known))


def decades(table: RunTable) -> pd.DataFrame:
    """Return methods × settings: log10 of the median seed's final training loss over the lowest of all methods.

    Infinite where the median seed failed, NaN where there are no runs, and nothing is negative.
    """
    finals = frame(table, lambda setting, runs: math.log10(max(final_loss(runs), FLOOR)))
    return (finals - finals.min()).mask(np.isinf(finals), math.inf)  # where all failed there is no best one
