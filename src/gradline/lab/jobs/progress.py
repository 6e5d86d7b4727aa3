"""Progress of a study in evaluations and time, from what its workers report."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import NamedTuple

from gradline.lab.jobs.grouping import cost
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.jobs.work import Task, WorkerSettings

WINDOW = 20.0
"""Seconds over which the rate is averaged."""
WARM_UP = 4.0
"""Seconds of work before a rate is shown."""

_Kind = tuple[str, int, Sampling]  # problem, batch size and sampling: evaluations that take about the same time


@dataclass(frozen=True)
class Snapshot:
    """Progress of a study at one moment.

    `runs` counts all runs of the plan, `before` those that were stored when it began, `done` those finished since, and
    `elsewhere` those that another process works on. `rate` is in evaluations per second and `left` in seconds; both are
    `None` until they can be estimated.
    """

    runs: int
    before: int
    done: int
    failed: int
    elsewhere: int
    working: int
    workers: int
    evaluations: int
    total_evaluations: int
    fraction: float
    seconds: float
    rate: float | None = None
    left: float | None = None


class Observer:
    """Receives the progress of a study, and ignores it: subclasses override what they show."""

    def update(self, snapshot: Snapshot) -> None:
        """Receive the progress, about twice a second."""

    def message(self, text: str) -> None:
        """Receive a message: something was ignored, resumed or waited for."""

    def error(self, text: str) -> None:
        """Receive an error: a run failed or a worker died."""


class _Span(NamedTuple):
    """The times of the first and the last report of a task, and the evaluations that it had made then."""

    kind: _Kind
    first: float
    first_made: int
    last: float
    last_made: int


class Meter:
    """Adds up finished runs and the progress of tasks.

    How long evaluations take is measured for each problem, batch size and sampling. Those of which no task has run yet
    are estimated by `cost`, multiplied by the ratio of measured to estimated times of the others.
    """

    def __init__(self, runs: list[Run], settings: WorkerSettings) -> None:
        self._settings = settings
        self._budgets = {run.key: run.budget for run in runs}
        self._kinds = {run.key: _kind(run) for run in runs}
        self._estimates = {_kind(run): cost(run) / run.budget for run in runs}
        self._finished: set[str] = set()
        self._made: dict[str, int] = {}  # evaluations made by each task since the start, also by tasks that have ended
        self._spans: dict[str, _Span] = {}
        self._begun = time.monotonic()
        self._history: deque[tuple[float, int]] = deque()

    def finish(self, keys: set[str]) -> None:
        """Count runs as finished: stored, or given up."""
        self._finished |= keys & set(self._budgets)

    def report(self, task: Task) -> dict[str, int]:
        """Return what the worker of a task has reported, if anything; see `gradline.lab.jobs.work`."""
        try:
            found: dict[str, int] = json.loads(self._settings.progress(task).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        made = found["made"]
        if made > self._made.get(task.name, 0):
            self._made[task.name] = made
            now = time.monotonic()
            begun = self._spans.get(task.name, _Span(_kind(task.runs[0]), now, made, now, made))
            self._spans[task.name] = begun._replace(last=now, last_made=made)
        return found

    def snapshot(self, tasks: list[Task], *, working: int, **counts: int) -> Snapshot:
        """Return the progress, with the counts of runs and workers that a `Snapshot` has."""
        done = Counter[_Kind]()
        for key in self._finished:
            done[self._kinds[key]] += self._budgets[key]
        for task in tasks:
            keys = [run.key for run in task.runs if run.key in self._budgets]
            budget = sum(self._budgets[key] for key in keys)
            counted = sum(self._budgets[key] for key in keys if key in self._finished)
            done[_kind(task.runs[0])] += max(min(self.report(task).get("evaluations", 0), budget) - counted, 0)
        total = Counter[_Kind]()
        for key, budget in self._budgets.items():
            total[self._kinds[key]] += budget
        now, (prices, measured) = time.monotonic(), self._prices()
        whole = sum(evaluations * prices[kind] for kind, evaluations in total.items())
        rest = sum((evaluations - done[kind]) * prices[kind] for kind, evaluations in total.items())
        return Snapshot(
            evaluations=min(done.total(), total.total()),
            total_evaluations=total.total(),
            fraction=1.0 - max(rest, 0.0) / whole if whole else 1.0,
            seconds=now - self._begun,
            rate=self._rate(now, sum(self._made.values())),
            left=max(rest, 0.0) / working if working and measured >= WARM_UP else None,
            working=working,
            **counts,
        )

    def _prices(self) -> tuple[dict[_Kind, float], float]:
        """Return the seconds that an evaluation of each kind takes, and the seconds in which they were measured."""
        seconds, evaluations = dict.fromkeys(self._estimates, 0.0), Counter[_Kind]()
        for span in self._spans.values():
            seconds[span.kind] += span.last - span.first
            evaluations[span.kind] += span.last_made - span.first_made
        measured = sum(seconds.values())
        estimated = sum(self._estimates[kind] * count for kind, count in evaluations.items())
        scale = measured / estimated if measured and estimated else 1.0
        prices = {
            kind: seconds[kind] / evaluations[kind] if evaluations[kind] else estimate * scale
            for kind, estimate in self._estimates.items()
        }
        return prices, measured

    def _rate(self, now: float, made: int) -> float | None:
        if not made:  # workers are still starting
            self._history.clear()
        self._history.append((now, made))
        while now - self._history[0][0] > WINDOW and len(self._history) > 2:
            self._history.popleft()
        then, made_then = self._history[0]
        return (made - made_then) / (now - then) if now - then >= WARM_UP and made > made_then else None


def _kind(run: Run) -> _Kind:
    return run.problem.name, run.batch_size, run.sampling
