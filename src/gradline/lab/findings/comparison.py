"""A comparison of methods: all that the command line, the documentation and reports show of it.

Methods are scored by the loss they end with, over the lowest that any method ended with there: the mean over settings
of the logarithm of this ratio. One that fails counts as `LIMIT`, and so does one that is farther behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings import measures
from gradline.lab.findings.measures import Grid, Row, Table, final_loss, leading, profile
from gradline.lab.findings.trajectory import Trajectory
from gradline.lab.jobs.result import Status
from gradline.lab.methods import GROUPS, METHODS, Peer
from gradline.lab.studies import Setting, Study

Array = NDArray[np.float64]

SIZES = ("small", "medium", "large")
"""What the batch sizes of a problem are called, in their order."""
TUNED = ("sgd best", "adam best")
"""Methods with a learning rate chosen with the results in hand."""
LIMIT = 2.0
"""Decades that a method can be behind the best one in a setting: a hundred times its loss is as bad as anything."""
FLOOR = 1e-12
"""A lower loss counts as this one: both fit the data to numerical accuracy."""
DRAWN = 10
"""Lines in a figure, at most: gradline's, the tuned ones, and the best of the others."""


_COSTS = ("step_cost", "evaluation_cost")


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


class Cost(NamedTuple):
    """Processor time over that of SGD, medians over settings; NaN where nothing is known."""

    step: float
    evaluation: float


@dataclass(frozen=True)
class Failure:
    """Runs of a method that ended for the same reason."""

    method: str
    reason: str
    runs: int
    of: int
    """Runs that the method made in all."""
    settings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of a study that compares methods, and what is read from them.

    Args:
        records: of the study's settings and methods.
        settings: those that have records, in the study's order.
        grids: the methods that are points of a grid of learning rates.
        sizes: of each setting, one of `SIZES`.
    """

    records: tuple[Trajectory, ...]
    settings: tuple[Setting, ...]
    grids: Mapping[str, Grid]
    sizes: Mapping[str, str]

    @cached_property
    def table(self) -> Table:
        """By setting and method, in the study's order, best and median of each grid in the place of the grid."""
        made = measures.with_grids(measures.tabulate(self.records), self.grids)
        return {setting.name: made[setting.name] for setting in self.settings}

    @property
    def targets(self) -> dict[str, float]:
        return {s.name: -math.inf if s.target is None else s.target for s in self.settings}

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each method on each setting."""
        units = [name for name in ("sgd best", "sgd median") if any(name in known for known in self.table.values())]
        return measures.rows(self.table, self.targets, units)

    def names(self, *, size: str | None = None, held_out: bool | None = None) -> tuple[str, ...]:
        """Return the names of settings, perhaps only of one of `SIZES`, or of problems that are held out or are not."""
        return tuple(
            setting.name
            for setting in self.settings
            if (size is None or self.sizes[setting.name] == size) and (held_out is None or setting.held_out == held_out)
        )

    def part(self, settings: Iterable[str]) -> Table:
        return {name: self.table[name] for name in settings}

    def scores(self, settings: Sequence[str] | None = None) -> list[Score]:
        """Return the scores of methods over those (of some) settings on which all of them were run, the best first."""
        table = self.part(self.table if settings is None else settings)
        usual, worst = profile(table, self.targets), profile(table, self.targets, worst=True)
        behind = decades(table, usual.methods, usual.settings).clip(max=LIMIT)
        means = behind.mean(axis=1) if usual.settings else np.full(len(usual.methods), math.nan)
        shares = [usual.share(1.0), usual.share(2.0), usual.share(10.0), usual.solved(), worst.solved()]
        made = [
            Score(name, float(10.0**mean), *(share[name] for share in shares))
            for name, mean in zip(usual.methods, means, strict=True)
        ]
        return sorted(made, key=lambda score: (score.behind, -score.near, score.method))

    @property
    def free(self) -> list[str]:
        """Methods without a learning rate that somebody chose: all but those that stand for a grid."""
        grids = {f"{grid.family} {which}" for grid in self.grids.values() for which in ("best", "median")}
        return [name for name in dict.fromkeys(row.method for row in self.rows) if name not in grids]

    def beaten(self, method: str, by: Iterable[str]) -> dict[str, list[str]]:
        """Return by setting which of some methods have all their seeds end lower than every seed of a method."""
        others, found = set(by) - {method}, {}
        for setting in self.table:
            spreads = {row.method: row.train_loss for row in self.rows if row.setting == setting}
            if method in spreads:
                best = max(spreads[method].best, FLOOR)
                lower = [name for name, losses in spreads.items() if name in others and losses.worst < best]
                found[setting] = sorted(lower, key=lambda name: spreads[name].median)
        return found

    def shared(self, settings: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the settings on which all methods were run: those of scores."""
        return profile(self.part(self.table if settings is None else settings), self.targets).settings

    def drawn(self, own: Sequence[str]) -> list[str]:
        """Return the methods that a figure of lines shows: gradline's, the tuned ones, the best of the others."""
        return leading(profile(self.table, self.targets), (*own, *TUNED), DRAWN)

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """Of each method the cost of a step and of an evaluation over those of SGD."""
        return {
            name: Cost(*(_median(getattr(row, cost) for row in self.rows if row.method == name) for cost in _COSTS))
            for name in dict.fromkeys(row.method for row in self.rows)
        }

    @cached_property
    def failures(self) -> list[Failure]:
        """What failed or diverged, learning rates of a grid each on their own; those that failed most come first."""
        made = Counter(record.method for record in self.records)
        found: dict[tuple[str, str], list[str]] = {}
        for record in self.records:
            if record.status is not Status.DONE:
                reason = record.reason or "diverged"
                found.setdefault((record.method, reason), []).append(record.setting)
        failures = [
            Failure(method, reason, len(settings), made[method], tuple(dict.fromkeys(settings)))
            for (method, reason), settings in found.items()
        ]
        return sorted(failures, key=lambda failure: (-failure.runs, failure.method, failure.reason))


def compare(records: Iterable[Trajectory], study: Study) -> Comparison:
    """Return the comparison of a study's runs: those with its budget, or else the largest there is."""
    found: dict[str, list[Trajectory]] = {}
    wanted = {setting.name: setting for setting in study.settings}
    for record in records:
        setting = wanted.get(record.setting)
        if setting is not None and setting.problem.revision == record.revision and record.method in METHODS:
            found.setdefault(record.setting, []).append(record)
    settings, chosen = [], []
    for name, setting in wanted.items():
        if name in found:
            budgets = {record.budget for record in found[name]}
            budget = setting.budget if setting.budget in budgets else max(budgets)
            settings.append(replace(setting, budget=budget))
            chosen += [record for record in found[name] if record.budget == budget]
    return Comparison(tuple(chosen), tuple(settings), grids(), _sizes(study.settings))


def grids() -> dict[str, Grid]:
    """Return the methods that are points of a grid of learning rates."""
    return {
        name: Grid(method.family, method.rate)
        for name, method in METHODS.items()
        if isinstance(method, Peer) and method.family is not None and method.rate is not None
    }


def own() -> tuple[str, ...]:
    """Return the names of the methods that stand for gradline."""
    return GROUPS["gradline"]


def _sizes(settings: Sequence[Setting]) -> dict[str, str]:
    """Return for each setting whether its batches are small, medium or large for its problem."""
    found = {}
    for setting in settings:
        of_problem = sorted({other.batch_size for other in settings if other.problem == setting.problem})
        found[setting.name] = SIZES[min(of_problem.index(setting.batch_size), len(SIZES) - 1)]
    return found


def decades(table: Table, methods: Sequence[str], settings: Sequence[str]) -> Array:
    """Return methods × settings: log10 of the median seed's final training loss over the lowest of all methods.

    Infinite where the median seed failed, NaN where there are no runs, and nothing is negative. The lowest loss is
    that of all methods in the table, these or not.
    """
    made = np.full((len(methods), len(settings)), math.nan)
    for place, setting in enumerate(settings):
        finals = {name: math.log10(max(final_loss(records), FLOOR)) for name, records in table[setting].items()}
        best = min(finals.values(), default=math.inf)
        for line, name in enumerate(methods):
            if name in finals:
                # Where all failed there is no best one to be behind of.
                made[line, place] = finals[name] - best if math.isfinite(finals[name]) else math.inf
    return made


def _median(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan
