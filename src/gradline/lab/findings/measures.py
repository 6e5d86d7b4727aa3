"""What is read from records: losses, evaluations to a target, worst cases, costs; and grids of learning rates.

Nothing is interpolated: a value at so many evaluations is the last one measured by then. A run that failed or diverged
has an infinite loss at its end, and reached its target only if it did so before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from gradline.lab.findings.trajectory import Trajectory
from gradline.lab.jobs.result import Status

Table: TypeAlias = dict[str, dict[str, list[Trajectory]]]
"""Trajectorys by setting and method, one for each seed."""


class Spread(NamedTuple):
    """A number over seeds."""

    median: float
    best: float
    worst: float


class Grid(NamedTuple):
    """A method on a grid: what the grid is called, and the learning rate."""

    family: str
    rate: float


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
    """Trajectorys by setting and method; within them in order of their seeds. Each seed counts once."""
    table: Table = {}
    for record in sorted(records, key=lambda record: (record.seed, record.budget)):
        table.setdefault(record.setting, {}).setdefault(record.method, []).append(record)
    return table


def evaluations_to(record: Trajectory, target: float) -> float:
    """Evaluations at the first measured training loss at or below a target; infinite if there is none."""
    return next((point.evaluations for point in record.counted if point.train_loss <= target), math.inf)


def seconds_to(record: Trajectory, target: float) -> float:
    """Seconds of training at the first measured training loss at or below a target; infinite if there is none."""
    return next((point.seconds for point in record.counted if point.train_loss <= target), math.inf)


def spread(values: Iterable[float]) -> Spread:
    """The median, the lowest and the highest; of an even number the upper of both middles, so that it is one of them.

    A mean of a finite and an infinite value would tell nothing.
    """
    ordered = sorted(values)
    if not ordered:
        return Spread(math.nan, math.nan, math.nan)
    return Spread(ordered[len(ordered) // 2], ordered[0], ordered[-1])


def with_grids(table: Table, grids: Mapping[str, Grid]) -> Table:
    """The table with two methods in the place of each grid: the best learning rate of each setting, and the median.

    They are chosen by the median over seeds of the final training loss, with the result in hand: what the best one
    costs to find is not counted, so it is what a perfect tuner would have got.

    Args:
        table: the records.
        grids: the methods that are points of a grid.
    """
    made: Table = {}
    for setting, methods in table.items():
        made[setting] = {name: records for name, records in methods.items() if name not in grids}
        families: dict[str, list[str]] = {}
        for name in methods:
            if name in grids:
                families.setdefault(grids[name].family, []).append(name)
        for family, names in families.items():
            ranked = sorted(names, key=lambda name: (_final(methods[name]), grids[name].rate))
            for what, chosen in (("best", ranked[0]), ("median", ranked[len(ranked) // 2])):
                made[setting][f"{family} {what}"] = methods[chosen]
    return made


def _final(records: Sequence[Trajectory]) -> float:
    return spread(record.train_loss for record in records).median


def rows(table: Table, targets: Mapping[str, float], sgd: Iterable[str]) -> list[Row]:
    """A row for each method on each setting, the lowest median training loss first.

    Args:
        table: the records.
        targets: the training loss to be reached, of each setting.
        sgd: the methods whose steps are the unit of cost.
    """
    units = set(sgd)
    made = []
    for setting, methods in table.items():
        step = _pace(
            [r for name in units & set(methods) for r in methods[name]], lambda record: record.points[-1].steps
        )
        pass_ = _pace([r for name in units & set(methods) for r in methods[name]], _evaluations)
        lines = [_row(setting, name, records, targets[setting], step, pass_) for name, records in methods.items()]
        made += sorted(lines, key=lambda row: (row.train_loss.median, row.method))
    return made


def _row(setting: str, method: str, records: Sequence[Trajectory], target: float, step: float, pass_: float) -> Row:
    return Row(
        setting=setting,
        method=method,
        runs=len(records),
        train_loss=spread(record.train_loss for record in records),
        test_error=spread(record.test_error for record in records),
        to_target=spread(evaluations_to(record, target) for record in records),
        seconds_to_target=spread(seconds_to(record, target) for record in records),
        step_cost=_pace(records, _steps) / step,
        evaluation_cost=_pace(records, _evaluations) / pass_,
        failures=tuple(record.reason or "diverged" for record in records if record.status is not Status.DONE),
    )


def _steps(record: Trajectory) -> float:
    return record.points[-1].steps


def _evaluations(record: Trajectory) -> float:
    return record.points[-1].evaluations


def _pace(records: Iterable[Trajectory], count: Callable[[Trajectory], float]) -> float:
    """Processor seconds for one of what is counted, the median over records; NaN if there is none."""
    paces = [record.points[-1].cpu_seconds / count(record) for record in records if record.points and count(record) > 0]
    return float(np.median(paces)) if paces else math.nan
