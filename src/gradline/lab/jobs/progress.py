"""Progress of a study in evaluations and time, from what its workers report."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass

from gradline.lab.jobs.grouping import cost
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.work import Task, WorkerSettings

WINDOW = 20.0
"""Seconds over which the rate is averaged."""
WARM_UP = 4.0
"""Seconds of work before a rate is shown."""


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


class Meter:
    """Adds up finished runs and the progress of tasks."""

    def __init__(self, runs: list[Run], settings: WorkerSettings) -> None:
        self._settings = settings
        self._budgets = {run.key: run.budget for run in runs}
        self._costs = {run.key: cost(run) for run in runs}
        self._finished: set[str] = set()
        self._made: dict[str, int] = {}  # evaluations made by each task since the start, also by tasks that have ended
        self._begun = time.monotonic()
        self._history: deque[tuple[float, int, float]] = deque()

    def finish(self, keys: set[str]) -> None:
        """Count runs as finished: stored, or given up."""
        self._finished |= keys & set(self._budgets)

    def report(self, task: Task) -> dict[str, int]:
        """Return what the worker of a task has reported, if anything; see `gradline.lab.jobs.work`."""
        try:
            found: dict[str, int] = json.loads(self._settings.progress(task).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        self._made[task.name] = max(self._made.get(task.name, 0), found["made"])
        return found

    def snapshot(self, tasks: list[Task], **counts: int) -> Snapshot:
        """Return the progress, with the counts of runs and workers that a `Snapshot` has."""
        evaluations = float(sum(self._budgets[key] for key in self._finished))
        price = sum(self._costs[key] for key in self._finished)
        for task in tasks:
            keys = [run.key for run in task.runs if run.key in self._budgets]
            budget = sum(self._budgets[key] for key in keys)
            counted = sum(self._budgets[key] for key in keys if key in self._finished)
            new = max(min(self.report(task).get("evaluations", 0), budget) - counted, 0.0)
            evaluations += new
            price += sum(self._costs[key] for key in keys) * new / budget if budget else 0.0
        now, total, budget = time.monotonic(), sum(self._costs.values()), sum(self._budgets.values())
        fraction = min(price / total, 1.0) if total else 1.0
        rate, left = self._pace(now, sum(self._made.values()), fraction)
        return Snapshot(
            evaluations=min(int(evaluations), budget),
            total_evaluations=budget,
            fraction=fraction,
            seconds=now - self._begun,
            rate=rate,
            left=left,
            **counts,
        )

    def _pace(self, now: float, made: int, fraction: float) -> tuple[float | None, float | None]:
        if not made:  # workers are still starting
            self._history.clear()
        self._history.append((now, made, fraction))
        while now - self._history[0][0] > WINDOW and len(self._history) > 2:
            self._history.popleft()
        then, made_then, fraction_then = self._history[0]
        if now - then < WARM_UP or made <= made_then:
            return None, None
        rate = (made - made_then) / (now - then)
        gained = fraction - fraction_then
        return rate, (1.0 - fraction) * (now - then) / gained if gained > 0.0 else None
