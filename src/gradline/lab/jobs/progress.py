"""Progress and partial results of a study while it runs, from the reports of its workers."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from gradline.lab.jobs.grouping import cost
from gradline.lab.jobs.result import PARTIAL_COLUMNS, Measurements, measurements
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.jobs.work import PROGRESS, Task, WorkerSettings

WINDOW = 60.0
"""Seconds over which rates are averaged."""
WARM_UP = 4.0
"""Seconds of work before a rate is shown."""
FOLLOW_INTERVAL = 5.0
"""Seconds between two updates of a follower."""


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
    evaluations: float
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


class Reported(NamedTuple):
    """Progress of a task: its evaluations, those that its worker made, and the results that it stored."""

    evaluations: float
    made: float
    saved: float


class Meter:
    """Adds up finished runs and the progress of tasks; problems are weighed by the `cost` of their evaluations."""

    def __init__(self, runs: list[Run], settings: WorkerSettings) -> None:
        self._settings = settings
        self._runs = {run.key: run for run in runs}
        self._costs = {run.key: cost(run) for run in runs}
        self._finished: set[str] = set()
        self._made: dict[str, tuple[float, float]] = {}  # by each task since the start: evaluations, and their cost
        self._begun = time.monotonic()
        self._history: deque[tuple[float, float, float]] = deque()  # times, and what had been made by then

    def finish(self, keys: set[str]) -> None:
        """Count runs as finished: stored, or given up."""
        self._finished |= keys & set(self._runs)

    def report(self, task: Task) -> Reported | None:
        """Return the progress that the worker of a task has reported, if any."""
        path = self._settings.report(task)
        with suppress(OSError), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = Reported(*arrays[PROGRESS].tolist())
            self._made[task.name] = found.made, found.made * self._price(task)
            return found
        return None

    def _price(self, task: Task) -> float:
        """Return the cost of an evaluation."""
        return self._costs[task.runs[0].key] / task.runs[0].budget

    def snapshot(self, tasks: list[Task], *, done: int, workers: int, **counts: int) -> Snapshot:
        """Return the progress, with the counts of runs and workers that a `Snapshot` has."""
        total = sum(run.budget for run in self._runs.values())
        evaluations: float = sum(self._runs[key].budget for key in self._finished)
        rest = sum(price for key, price in self._costs.items() if key not in self._finished)
        reports = [(task, report) for task in tasks if (report := self.report(task))]
        for task, report in reports:
            budget = sum(run.budget for run in task.runs)
            counted = sum(run.budget for run in task.runs if run.key in self._finished)
            more = max(min(report.evaluations, budget) - counted, 0)
            evaluations += more
            rest -= more * self._price(task)
        now, whole, rest = time.monotonic(), sum(self._costs.values()), max(rest, 0.0)
        rate, pace = self._rates(now)
        return Snapshot(
            done=done + int(sum(report.saved for _, report in reports)),
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


class Follower(Protocol):
    """Receives the partial results of a study, for example to write them for TensorBoard."""

    def follow(self, measured: dict[str, tuple[Run, Measurements]], finished: set[str]) -> None:
        """Receive what has been measured of each run, by its key, and the keys of finished runs."""

    def close(self) -> None:
        """Called once, at the end."""


class Following:
    """Passes what workers reported into a folder, and stored results of runs, to a follower."""

    def __init__(self, follower: Follower, runs: list[Run], store: Store, folder: Path) -> None:
        self.follower = follower
        self._runs = {run.key: run for run in runs}
        self._store = store
        self._folder = folder
        self._measured: dict[str, tuple[Run, Measurements]] = {}
        self._finished: set[str] = set()
        self._next = 0.0

    def update(self, stored: set[str], *, now: bool = False) -> None:
        """Read reports, and results of `stored` runs, if the interval has passed or `now` is true."""
        if not (now or time.monotonic() >= self._next):
            return
        for path in self._folder.glob("*.npz"):
            for key, measured in partial_results(path).items():
                if key in self._runs and key not in self._finished:
                    self._measured[key] = self._runs[key], measured
        for key in stored - self._finished:
            with suppress(KeyError):  # it exists but cannot be read, which the store reports
                self._measured[key] = self._runs[key], measurements(self._store.load(key).columns)
                self._finished.add(key)
        self.follower.follow(self._measured, self._finished)
        self._next = time.monotonic() + FOLLOW_INTERVAL


def partial_results(path: Path) -> dict[str, Measurements]:
    """Read the partial results of a report; none if the file has just been removed."""
    with suppress(OSError), path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return {key: dict(zip(PARTIAL_COLUMNS, rows, strict=True)) for key, rows in file.items() if key != PROGRESS}
    return {}
