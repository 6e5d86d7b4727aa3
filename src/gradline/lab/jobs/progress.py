"""Progress of a study in evaluations and time, from what its workers report."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass

from gradline.lab.jobs.grouping import cost
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.work import Task, WorkerSettings

WINDOW = 60.0
"""Seconds over which rates are averaged."""
WARM_UP = 4.0
"""Seconds of work before a rate is shown."""


@dataclass(frozen=True)
class Snapshot:
    """Progress of a study at one moment.

    `runs` counts all runs of the plan, `before` those that were stored when it began, and `done` those finished since.
    `rate` is in evaluations per second and `left` in seconds; both are `None` until they can be estimated.
    """

    runs: int
    before: int
    done: int
    failed: int
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


class Meter:
    """Adds up finished runs and the progress of tasks; problems are weighed by the `cost` of their evaluations."""

    def __init__(self, runs: list[Run], settings: WorkerSettings) -> None:
        self._settings = settings
        self._runs = {run.key: run for run in runs}
        self._costs = {run.key: cost(run) for run in runs}
        self._finished: set[str] = set()
        self._made: dict[str, tuple[int, float]] = {}  # by each task since the start: evaluations, and their cost
        self._begun = time.monotonic()
        self._history: deque[tuple[float, int, float]] = deque()  # times, and what had been made by then

    def finish(self, keys: set[str]) -> None:
        """Count runs as finished: stored, or given up."""
        self._finished |= keys & set(self._runs)

    def report(self, task: Task) -> dict[str, int]:
        """Return what the worker of a task has reported, if anything; see `gradline.lab.jobs.work`."""
        try:
            found: dict[str, int] = json.loads(self._settings.progress(task).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        self._made[task.name] = found["made"], found["made"] * self._price(task)
        return found

    def _price(self, task: Task) -> float:
        """Return the cost of an evaluation."""
        return self._costs[task.runs[0].key] / task.runs[0].budget

    def snapshot(self, tasks: list[Task], *, done: int, workers: int, **counts: int) -> Snapshot:
        """Return the progress, with the counts of runs and workers that a `Snapshot` has."""
        evaluations, total = (sum(self._runs[key].budget for key in keys) for keys in (self._finished, self._runs))
        rest = sum(price for key, price in self._costs.items() if key not in self._finished)
        reports = [(task, report) for task in tasks if (report := self.report(task))]
        for task, report in reports:
            budget = sum(run.budget for run in task.runs)
            counted = sum(run.budget for run in task.runs if run.key in self._finished)
            more = max(min(report["evaluations"], budget) - counted, 0)
            evaluations += more
            rest -= more * self._price(task)
        now, whole, rest = time.monotonic(), sum(self._costs.values()), max(rest, 0.0)
        rate, pace = self._rates(now)
        return Snapshot(
            done=done + sum(report["saved"] for _, report in reports),
            working=min(len(reports), workers),
            workers=workers,
            evaluations=min(evaluations, total),
            total_evaluations=total,
            fraction=1.0 - rest / whole if whole else 1.0,
            seconds=now - self._begun,
            rate=rate,
            left=rest / pace if pace else None,
            **counts,
        )

    def _rates(self, now: float) -> tuple[float | None, float | None]:
        """Return the evaluations of a second, and their cost, over the last minute; `None` until workers begin."""
        made = sum(made for made, _ in self._made.values())
        if not made:  # workers are still starting
            self._history.clear()
        self._history.append((now, made, sum(price for _, price in self._made.values())))
        while now - self._history[0][0] > WINDOW and len(self._history) > 2:
            self._history.popleft()
        seconds, evaluations, price = (new - old for old, new in zip(self._history[0], self._history[-1], strict=True))
        known = seconds >= WARM_UP and evaluations > 0
        return (evaluations / seconds, price / seconds) if known else (None, None)
