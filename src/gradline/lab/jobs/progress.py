"""How far a study is: read from what the workers report, in evaluations and in time."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from gradline.lab.jobs.cost import cost
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.work import Orders, Task

WINDOW = 20.0
"""Seconds over which the rate is taken."""
WARM_UP = 4.0
"""Seconds of work before its pace is told."""


@dataclass(frozen=True)
class Snapshot:
    """How far a study is.

    `runs` counts all of the plan, `before` those that were there when it began, `done` those finished since, and
    `elsewhere` those that another process works on. `rate` is in evaluations a second and `left` in seconds; both are
    `None` until they can be told.
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


class Observer(Protocol):
    """Who is told how a study goes on."""

    def update(self, snapshot: Snapshot) -> None:
        """Called about twice a second."""

    def message(self, text: str) -> None:
        """Something was passed over, resumed or waited for."""

    def error(self, text: str) -> None:
        """A run failed or a worker died."""


class Silent:
    """Tells nobody."""

    def update(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def error(self, text: str) -> None:
        """Nothing."""


class Meter:
    """Adds up what is done and what the tasks under way report."""

    def __init__(self, runs: list[Run], orders: Orders) -> None:
        self._orders = orders
        self._budgets = {run.key: run.budget for run in runs}
        self._costs = {run.key: cost(run) for run in runs}
        self._finished: set[str] = set()
        self._made: dict[str, int] = {}  # evaluations of a task in this session, also of tasks that have ended
        self._begun = time.monotonic()
        self._history: deque[tuple[float, int, float]] = deque()
        self._first: float | None = None  # when something was first seen to be made

    @property
    def total(self) -> int:
        """Evaluations of all runs."""
        return sum(self._budgets.values())

    def finish(self, keys: set[str]) -> None:
        """These runs are stored (or given up)."""
        self._finished |= keys & set(self._budgets)

    def reported(self, task: Task) -> int:
        """Evaluations of a task under way, those taken up from a checkpoint included."""
        news = self._news(task)
        self._made[task.name] = max(self._made.get(task.name, 0), news.get("made", 0))
        return news.get("evaluations", 0)

    def saved(self, task: Task) -> int:
        """Runs that a task under way has stored."""
        return self._news(task).get("saved", 0)

    def _news(self, task: Task) -> dict[str, int]:
        try:
            news: dict[str, int] = json.loads(self._orders.progress(task).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return news

    def measure(self, tasks: list[Task]) -> tuple[int, float, float, float | None, float | None]:
        """Evaluations done, the fraction of all work done, seconds, evaluations a second, seconds left."""
        evaluations = sum(self._budgets[key] for key in self._finished)
        price = sum(self._costs[key] for key in self._finished)
        for task in tasks:
            keys = [run.key for run in task.runs if run.key in self._budgets]
            whole = sum(self._budgets[key] for key in keys)
            open_keys = [key for key in keys if key not in self._finished]
            share = min(self.reported(task) / whole, 1.0) if whole else 0.0
            finished = whole - sum(self._budgets[key] for key in open_keys)
            progress = max(share * whole - finished, 0.0)
            evaluations += int(progress)
            price += sum(self._costs[key] for key in keys) * progress / whole if whole else 0.0
        now = time.monotonic()
        everything = sum(self._costs.values())
        fraction = min(price / everything, 1.0) if everything else 1.0
        rate, left = self._pace(now, sum(self._made.values()), fraction)
        return min(evaluations, self.total), fraction, now - self._begun, rate, left

    def _pace(self, now: float, made: int, fraction: float) -> tuple[float | None, float | None]:
        self._history.append((now, made, fraction))
        while now - self._history[0][0] > WINDOW and len(self._history) > 2:
            self._history.popleft()
        then, made_then, fraction_then = self._history[0]
        if now - then < 2.0 or made <= made_then:
            return None, None
        self._first = self._first or now
        if now - self._first < WARM_UP:  # workers have hardly begun
            return None, None
        rate = (made - made_then) / (now - then)
        gained = fraction - fraction_then
        return rate, (1.0 - fraction) * (now - then) / gained if gained > 0.0 else None
