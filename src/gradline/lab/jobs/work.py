"""What a worker does with a task: lock its runs, take up a checkpoint, advance, save results, until told to stop.

Everything goes through the study's directory (results, checkpoints, locks, progress, the sign to stop), so a worker may
be a process here or on another machine that sees the directory.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradline.lab.jobs import partial as growth
from gradline.lab.jobs.checkpoints import Checkpoint, CheckpointError, Checkpoints
from gradline.lab.jobs.engine import Engine, MakeEngine
from gradline.lab.jobs.locks import Locks
from gradline.lab.jobs.result import Result
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.jobs.tables import versions
from gradline.lab.tools.threads import threads

LOOK_EVERY = 0.2
"""Seconds between two looks for the sign to stop."""
TELL_EVERY = 1.0
"""Seconds between two reports of progress."""
CHECKPOINT_SHARE = 0.05
"""Writing checkpoints takes at most about this part of the time."""


@dataclass(frozen=True)
class Task:
    """Runs that one worker advances together."""

    name: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Orders:
    """What all tasks of a study share.

    Args:
        directory: of the study.
        post: of this runner, a folder where workers report progress and look for the sign to stop.
        checkpoint_every: seconds between two checkpoints of a task.
        threads: of torch in each worker.
        show_every: seconds between two times of laying down how far runs are; `None`: nobody wants to see it.
    """

    directory: Path
    post: Path
    checkpoint_every: float = 30.0
    threads: int = 1
    show_every: float | None = None

    @property
    def stop(self) -> Path:
        """The file whose presence tells workers to stop."""
        return self.post / "stop"

    def progress(self, task: Task) -> Path:
        """The file with a task's progress."""
        return self.post / f"{task.name}.json"

    def growth(self, task: Task) -> Path:
        """The file with a task's runs as far as they are."""
        return self.post / f"{task.name}{growth.SUFFIX}"


@dataclass(frozen=True)
class Report:
    """What became of a task. `busy` are runs that another process holds; `messages` is what was passed over and why."""

    saved: tuple[str, ...]
    busy: tuple[str, ...] = ()
    stopped: bool = False
    messages: tuple[str, ...] = ()


class RunError(RuntimeError):
    """A task failed in its worker. Carries the keys of its runs, and the error as text (its class may not be here)."""

    def __init__(self, keys: tuple[str, ...], error: str, trace: str) -> None:
        super().__init__(keys, error, trace)
        self.keys = keys
        self.error = error
        self.trace = trace

    def __str__(self) -> str:
        others = f" (or one of {len(self.keys) - 1} others beside it)" if len(self.keys) > 1 else ""
        return f"{self.keys[0]}{others}: {self.error}"


def execute(task: Task, orders: Orders, make_engine: MakeEngine) -> Report:
    """Do a task. Raises `RunError`, which names the runs."""
    try:
        with threads(orders.threads), Locks(orders.directory) as locks:
            return _Work(task, orders, make_engine, locks).done()
    except RunError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        keys = tuple(run.key for run in task.runs)
        raise RunError(keys, text, traceback.format_exc()) from None


class _Work:
    """One task under way."""

    def __init__(self, task: Task, orders: Orders, make_engine: MakeEngine, locks: Locks) -> None:
        self.task = task
        self.orders = orders
        self.make_engine = make_engine
        self.locks = locks
        self.messages: list[str] = []
        self.saved: list[str] = []
        self.store = Store(orders.directory, report=self.messages.append)
        self.checkpoints = Checkpoints(orders.directory, report=self.messages.append)
        self.before = 0.0  # evaluations of the engines before the present one
        self.made = 0.0  # those of them that were not in a checkpoint

    def done(self) -> Report:
        if self.orders.stop.exists():
            return Report((), stopped=True)
        taken = self.locks.take(run.key for run in self.task.runs)
        mine = [run for run in self.task.runs if run.key in taken]
        todo = self.store.missing(mine)  # after locking: somebody may just have finished one
        for key in {run.key for run in mine} - {run.key for run in todo}:
            self.locks.done(key)
        stopped = False
        for checkpoint in self.checkpoints.usable(todo, self.store):
            held = {run.key for run in checkpoint.runs}
            todo = [run for run in todo if run.key not in held]
            stopped = stopped or not self.advance(checkpoint, self.taken_up(checkpoint))
        if todo and not stopped:
            checkpoint = self.checkpoints.of(todo)
            stopped = not self.advance(checkpoint, self.make_engine(todo, None))
        self.orders.progress(self.task).unlink(missing_ok=True)
        self.orders.growth(self.task).unlink(missing_ok=True)
        busy = tuple(run.key for run in self.task.runs if run.key not in taken)
        return Report(tuple(self.saved), busy, stopped, tuple(self.messages))

    def taken_up(self, checkpoint: Checkpoint) -> Engine:
        """The engine of a checkpoint; anew where the state is refused."""
        try:
            engine = self.make_engine(checkpoint.runs, checkpoint.state())
        except (CheckpointError, ValueError, KeyError, TypeError, RuntimeError) as error:
            self.messages.append(f"{checkpoint.path} is not used ({error}): its runs start anew")
            engine = self.make_engine(checkpoint.runs, None)
        return engine

    def advance(self, checkpoint: Checkpoint, engine: Engine) -> bool:
        """Advance to the end, and say whether it was reached."""
        if not checkpoint.path.exists():
            self.checkpoints.write(checkpoint, None)
        begun = engine.evaluations
        now = time.monotonic()
        look, tell, save = now, now, now + self.orders.checkpoint_every
        show = now if self.orders.show_every else math.inf
        while engine.active:
            engine.advance()
            self.keep(engine.finished())
            now = time.monotonic()
            if now >= look:
                look = now + LOOK_EVERY
                if self.orders.stop.exists():
                    self.checkpoints.write(checkpoint, engine.state_dict())
                    return False
            if now >= tell:
                tell = now + TELL_EVERY
                self.tell(engine, begun)
            if now >= show:
                growth.write(self.orders.growth(self.task), engine.growing())
                took = time.monotonic() - now
                show = now + took + max(self.orders.show_every or 0.0, took / CHECKPOINT_SHARE)
            if now >= save:
                self.lay_down(checkpoint, engine)
                took = time.monotonic() - now
                save = now + took + max(self.orders.checkpoint_every, took / CHECKPOINT_SHARE)
        self.keep(engine.finished())
        checkpoint.path.unlink(missing_ok=True)
        self.before += engine.evaluations
        self.made += engine.evaluations - begun
        return True

    def lay_down(self, checkpoint: Checkpoint, engine: Engine) -> None:
        """Write a checkpoint on the way. Where that fails the work goes on: there is still the one before."""
        try:
            self.checkpoints.write(checkpoint, engine.state_dict())
        except OSError as error:
            self.messages.append(f"{checkpoint.path} could not be written ({error}): the work goes on without it")

    def keep(self, results: Sequence[Result]) -> None:
        """Store what has finished."""
        for result in results:
            if not self.store.has(result.run):  # it may have been, after the checkpoint that was taken up
                complete = result if result.versions else dataclasses.replace(result, versions=versions())
                self.store.save(complete)
                self.saved.append(result.run.key)
            self.locks.done(result.run.key)

    def tell(self, engine: Engine, begun: float) -> None:
        """Report progress. It is renamed into place, but need not survive a power cut."""
        place = self.orders.progress(self.task)
        place.parent.mkdir(parents=True, exist_ok=True)
        news = {
            "evaluations": self.before + engine.evaluations,
            "made": self.made + engine.evaluations - begun,
            "saved": len(self.saved),
            "pid": os.getpid(),
        }
        temporary = place.with_suffix(".tmp")
        temporary.write_text(json.dumps(news), encoding="utf-8")
        temporary.replace(place)
