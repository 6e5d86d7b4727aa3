"""Measures of runs: losses, evaluations to a target, worst cases, costs, grids of learning rates, profiles.

Nothing is interpolated: a value at so many evaluations is the last one measured by then. A run that failed or diverged
has an infinite loss at its end, and reached its target only if it did so before.

Performance profiles (Dolan and Moré, 2002) show how often a method is within a factor of the best one. The cost of a
method on a setting is the number of evaluations it needs to reach the setting's target; its ratio is this cost over the
lowest of all methods. The profile of a method at τ is the share of settings whose ratio is at most τ: at 1 how often it
is the best, and far out how often it reaches the target at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings.trajectory import Trajectory
from gradline.lab.jobs.result import Array, Status
from gradline.lab.tools.formatting import number

Table: TypeAlias = dict[str, dict[str, list[Trajectory]]]
"""Trajectories by setting and method, one for each seed."""


class Spread(NamedTuple):
    """A number over seeds."""

    median: float
    best: float
    worst: float

    def __str__(self) -> str:
        if self.best == self.worst:
            return number(self.median)
        return f"{number(self.median)} ({number(self.best)} to {number(self.worst)})"


@dataclass(frozen=True)
class Row:
    """A method on a setting, over its seeds."""

    setting: str
    method: str
    runs: int
    train_loss: Spread
    test_error: Spread
    to_target: Spread
    """Evaluations; infinite where the target was not reached."""
    seconds_to_target: Spread
    step_cost: float
    """Processor time of a step over that of a step of SGD; NaN without runs of SGD."""
    evaluation_cost: float
    """Processor time of an evaluation, all included, over that of SGD; NaN without runs of SGD."""
    failures: tuple[str, ...]
    """The reasons of runs that failed or diverged."""


def tabulate(records: Iterable[Trajectory]) -> Table:
    """Return trajectories by setting and method; within them in order of their seeds."""
    table: Table = {}
    for record in sorted(records, key=lambda record: (record.seed, record.budget)):
        table.setdefault(record.setting, {}).setdefault(record.method, []).append(record)
    return table


def spread(values: Iterable[float]) -> Spread:
    """Return the median, the lowest and the highest value; of an even number the upper of both middles.

    The mean of a finite and an infinite value would be infinite.
    """
    ordered = sorted(values)
    if not ordered:
        return Spread(math.nan, math.nan, math.nan)
    return Spread(ordered[len(ordered) // 2], ordered[0], ordered[-1])


def final_loss(records: Iterable[Trajectory]) -> float:
    """Return the median over seeds of the training loss at the end."""
    return spread(record.train_loss for record in records).median


def to_target(records: Iterable[Trajectory], target: float, unit: str = "evaluations") -> Spread:
    """Return evaluations or seconds to a training loss, over seeds."""
    return spread(record.first("train_loss", target, unit, counted=True) for record in records)


def failures(records: Iterable[Trajectory]) -> tuple[str, ...]:
    """Return the reasons of runs that failed or diverged."""
    return tuple(record.reason or "diverged" for record in records if record.status is not Status.DONE)


def with_grids(table: Table, grids: Mapping[str, tuple[str, float]]) -> Table:
    """Return the table with two methods in the place of each grid: its best learning rate in a setting, and the median.

    They are chosen by the median over seeds of the final training loss, with the result in hand: what the best one
    costs to find is not counted, so it is what a perfect tuner would have got.
    """
    made: Table = {}
    for setting, methods in table.items():
        made[setting] = {name: records for name, records in methods.items() if name not in grids}
        families: dict[str, list[str]] = {}
        for name in methods:
            if name in grids:
                families.setdefault(grids[name][0], []).append(name)
        for family, names in families.items():
            ranked = sorted(names, key=lambda name: (final_loss(methods[name]), grids[name][1]))
            for what, chosen in (("best", ranked[0]), ("median", ranked[len(ranked) // 2])):
                made[setting][f"{family} {what}"] = methods[chosen]
    return made


def rows(table: Table, targets: Mapping[str, float], sgd: Iterable[str]) -> list[Row]:
    """Return a row for each method on each setting, the lowest median loss first; costs are over those of `sgd`."""
    units = set(sgd)
    made = []
    for setting, methods in table.items():
        of_sgd = [record for name in units & set(methods) for record in methods[name]]
        lines = [_row(setting, name, records, targets[setting], of_sgd) for name, records in methods.items()]
        made += sorted(lines, key=lambda row: (row.train_loss.median, row.method))
    return made


def _row(setting: str, method: str, records: Sequence[Trajectory], target: float, of_sgd: Sequence[Trajectory]) -> Row:
    return Row(
        setting=setting,
        method=method,
        runs=len(records),
        train_loss=spread(record.train_loss for record in records),
        test_error=spread(record.test_error for record in records),
        to_target=to_target(records, target),
        seconds_to_target=to_target(records, target, "seconds"),
        step_cost=pace(records, "steps") / pace(of_sgd, "steps"),
        evaluation_cost=pace(records) / pace(of_sgd),
        failures=failures(records),
    )


def pace(records: Iterable[Trajectory], counted: str = "evaluations") -> float:
    """Return processor seconds for one step or evaluation, the median over records; NaN if there is none."""
    last = [record.points[-1] for record in records if record.points]
    paces = [point.cpu_seconds / getattr(point, counted) for point in last if getattr(point, counted) > 0]
    return float(np.median(paces)) if paces else math.nan


@dataclass(frozen=True, eq=False)
class Profile:
    """The profiles of several methods over the same settings."""

    methods: tuple[str, ...]
    settings: tuple[str, ...]
    costs: Array
    """Methods × settings; infinite where the target was not reached."""

    @property
    def ratios(self) -> Array:
        """Costs over the lowest cost of the setting; infinite where nobody reached the target."""
        best = self.costs.min(axis=0, initial=math.inf)
        reached = np.isfinite(best)
        ratios = np.full(self.costs.shape, math.inf)
        # A target that is reached before the first step costs nothing: then all who did so are the best.
        with np.errstate(invalid="ignore", divide="ignore"):
            divided = np.where(self.costs[:, reached] == best[reached], 1.0, self.costs[:, reached] / best[reached])
        ratios[:, reached] = divided
        return ratios

    def share(self, factor: float) -> dict[str, float]:
        """Return for each method the share of settings where it is within a factor of the best."""
        return self._shares(self.ratios <= factor)

    def solved(self) -> dict[str, float]:
        """Return for each method the share of settings whose target it reached."""
        return self._shares(np.isfinite(self.costs))

    def _shares(self, flags: NDArray[np.bool_]) -> dict[str, float]:
        shares = flags.mean(axis=1) if self.settings else np.full(len(self.methods), math.nan)
        return dict(zip(self.methods, map(float, shares), strict=True))

    def steps(self, method: str) -> tuple[Array, Array]:
        """Return the corners of a method's profile: ratios, and the share from each of them on."""
        ratios = np.sort(self.ratios[self.methods.index(method)])
        finite = ratios[np.isfinite(ratios)]
        return finite, np.arange(1, len(finite) + 1) / max(len(self.settings), 1)


def leading(found: Profile, always: Sequence[str], count: int) -> list[str]:
    """Return the methods that a figure shows: some always, if they are there, then those most often near the best."""
    chosen = [name for name in always if name in found.methods]
    near, far = found.share(2.0), found.share(10.0)
    rest = sorted(set(found.methods) - set(chosen), key=lambda name: (-near[name] - far[name], name))
    return chosen + rest[: max(count - len(chosen), 0)]


def profile(table: Table, targets: Mapping[str, float], *, worst: bool = False) -> Profile:
    """Return the profiles of all methods, over the settings on which all of them were run; of median or worst seeds."""
    methods = list(dict.fromkeys(name for of_setting in table.values() for name in of_setting))
    settings = [setting for setting, known in table.items() if all(name in known for name in methods)]
    costs = np.full((len(methods), len(settings)), math.inf)
    for line, name in enumerate(methods):
        for place, setting in enumerate(settings):
            found = to_target(table[setting][name], targets[setting])
            costs[line, place] = found.worst if worst else found.median
    return Profile(tuple(methods), tuple(settings), costs)
