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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from gradline.lab.findings.traces import Trace, latest
from gradline.lab.jobs.result import Status
from gradline.lab.methods import METHODS, Peer
from gradline.lab.studies import Setting
from gradline.lab.tools.formatting import number

RunTable: TypeAlias = dict[str, dict[str, list[Trace]]]
"""Runs by setting and method, one for each seed."""


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
class MethodRow:
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


def tabulate(runs: Iterable[Trace]) -> RunTable:
    """Return runs by setting and method; within them in order of their seeds."""
    table: RunTable = {}
    for run in sorted(runs, key=lambda run: (run.seed, run.budget)):
        table.setdefault(run.setting, {}).setdefault(run.method, []).append(run)
    return table


def by_setting(runs: Iterable[Trace], settings: Iterable[Setting]) -> Iterator[tuple[Setting, list[Trace]]]:
    """Yield the settings of a study that have runs, with these in order of their seeds.

    Of each problem and batch size they are the runs with the study's budgets, or else those with the largest there is.
    """
    found: dict[tuple[str, int], dict[int, list[Trace]]] = {}
    for run in sorted(latest(runs), key=lambda run: run.seed):
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


def spread(values: Iterable[float]) -> Spread:
    """Return the median, the lowest and the highest value; of an even number the upper of both middles.

    The mean of a finite and an infinite value would be infinite.
    """
    ordered = sorted(values)
    if not ordered:
        return Spread(math.nan, math.nan, math.nan)
    return Spread(ordered[len(ordered) // 2], ordered[0], ordered[-1])


def final_loss(runs: Iterable[Trace]) -> float:
    """Return the median over seeds of the training loss at the end."""
    return spread(run.at_budget("train_loss") for run in runs).median


def to_target(runs: Iterable[Trace], target: float, unit: str = "evaluations") -> Spread:
    """Return evaluations or seconds to a training loss, over seeds."""
    return spread(run.first("train_loss", target, unit, counted=True) for run in runs)


def failures(runs: Iterable[Trace]) -> tuple[str, ...]:
    """Return the reasons of runs that failed or diverged."""
    return tuple(run.reason or "diverged" for run in runs if run.status is not Status.DONE)


def with_grids(table: RunTable) -> RunTable:
    """Return the table with two methods in the place of each grid: its best learning rate in a setting, and the median.

    They are chosen by the median over seeds of the final training loss, with the result in hand: what the best one
    costs to find is not counted, so it is what a perfect tuner would have got.
    """
    made: RunTable = {}
    for setting, methods in table.items():
        made[setting] = {}
        grids: dict[str, list[Peer]] = {}
        for name, runs in methods.items():
            method = METHODS.get(name)
            if isinstance(method, Peer) and method.family is not None:
                grids.setdefault(method.family, []).append(method)
            else:
                made[setting][name] = runs
        for family, peers in grids.items():
            ranked = sorted(peers, key=lambda peer: (final_loss(methods[peer.name]), peer.rate or 0.0))
            for what, chosen in (("best", ranked[0]), ("median", ranked[len(ranked) // 2])):
                made[setting][f"{family} {what}"] = methods[chosen.name]
    return made


def rows(table: RunTable, targets: Mapping[str, float], sgd: Iterable[str]) -> list[MethodRow]:
    """Return a row for each method on each setting, the lowest median loss first; costs are over those of `sgd`."""
    units = set(sgd)
    made = []
    for setting, methods in table.items():
        of_sgd = [run for name in units & set(methods) for run in methods[name]]
        lines = [
            MethodRow(
                setting=setting,
                method=method,
                runs=len(runs),
                train_loss=spread(run.at_budget("train_loss") for run in runs),
                test_error=spread(run.at_budget("test_error") for run in runs),
                to_target=to_target(runs, targets[setting]),
                seconds_to_target=to_target(runs, targets[setting], "seconds"),
                step_cost=pace(runs, "iterations") / pace(of_sgd, "iterations"),
                evaluation_cost=pace(runs) / pace(of_sgd),
                failures=failures(runs),
            )
            for method, runs in methods.items()
        ]
        made += sorted(lines, key=lambda row: (row.train_loss.median, row.method))
    return made


def pace(runs: Iterable[Trace], counted: str = "evaluations") -> float:
    """Return processor seconds for one iteration or evaluation, the median over runs; NaN if there is none."""
    paces = [run.last("cpu_seconds") / run.last(counted) for run in runs if run.last(counted) > 0]
    return float(np.median(paces)) if paces else math.nan


def frame(table: RunTable, number: Callable[[str, list[Trace]], float]) -> pd.DataFrame:
    """Return methods × settings: a number of the setting and the method's runs there; NaN without runs."""
    methods = list(dict.fromkeys(name for known in table.values() for name in known))
    columns = {
        setting: [number(setting, known[name]) if name in known else math.nan for name in methods]
        for setting, known in table.items()
    }
    return pd.DataFrame(columns, index=methods, dtype=float)


def costs(table: RunTable, targets: Mapping[str, float], *, worst: bool = False) -> pd.DataFrame:
    """Return methods × settings on which all methods were run: evaluations of the median or worst seed to the target.

    Infinite where the target was not reached.
    """

    def cost(setting: str, runs: list[Trace]) -> float:
        found = to_target(runs, targets[setting])
        return found.worst if worst else found.median

    return frame(table, cost).dropna(axis="columns")


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
