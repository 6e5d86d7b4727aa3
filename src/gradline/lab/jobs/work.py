"""What a worker does with a task: resume a checkpoint, advance, save results, until it is to stop.

All communication is by files in the study's directory (results, checkpoints, reports, the request to stop), so that a
worker may be a process here or on another machine that sees the directory.

The report of a task is a NumPy archive: `PROGRESS`, and by the keys of runs their partial results, if somebody follows
the study. It may be lost without harm.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradline.lab.jobs.checkpoints import Checkpoint, CheckpointError, Checkpoints
from gradline.lab.jobs.result import PARTIAL_COLUMNS, Engine, MakeEngine, Measurements, Result
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.threads import threads

STOP_INTERVAL = 0.2
"""Seconds between two checks for the request to stop."""
REPORT_INTERVAL = 1.0
"""Seconds between two reports of a task."""
WRITING_SHARE = 0.05
"""Largest fraction of the time spent on writing checkpoints, and on writing reports."""
PROGRESS = "progress"
"""Numbers of a report: evaluations of the task, those not from a checkpoint, and its results."""


@dataclass(frozen=True)
class Task:
    """Runs that one worker advances together, and the checkpoint of their group, some of which may have finished."""

    name: str
    runs: tuple[Run, ...]
    checkpoint: Checkpoint


@dataclass(frozen=True)
class WorkerSettings:
    """Settings that all tasks of a study share.

    Args:
        directory: the directory of the study.
        mailbox: a folder of this runner, where workers report and look for the request to stop.
        checkpoint_every: seconds between two checkpoints of a task.
        threads: threads of torch in each worker.
        followed: whether reports have partial results.
    """

    directory: Path
    mailbox: Path
    checkpoint_every: float = 30.0
    threads: int = 1
    followed: bool = False

    @property
    def stop(self) -> Path:
        """The file whose presence requests workers to stop."""
        return self.mailbox / "stop"

    @property
    def stopped(self) -> bool:
        """Whether workers are to stop; so they are if the mailbox of a runner that was killed has been removed."""
        return self.stop.exists() or not self.mailbox.exists()

    def report(self, task: Task) -> Path:
        return self.mailbox / f"{task.name}.npz"


class TaskError(RuntimeError):
    """A task failed in its worker: last line of the traceback, and all of it, as the error's class may be unknown."""

    def __init__(self, error: str, trace: str) -> None:
        super().__init__(error, trace)
        self.error, self.trace = error, trace


def execute(task: Task, settings: WorkerSettings, make_engine: MakeEngine) -> list[str]:
    """Run a task to its end, or until the request to stop, and return messages. Raises `TaskError`."""
    try:
        with threads(settings.threads):
            return _Work(task, settings, make_engine).run()
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        raise TaskError(text, traceback.format_exc()) from None


@dataclass
class _Work:
    """One task in progress."""

    task: Task
    settings: WorkerSettings
    make_engine: MakeEngine

    def __post_init__(self) -> None:
        self.messages: list[str] = []
        self.saved = 0
        self.store = Store(self.settings.directory, report=self.messages.append)
        self.checkpoints = Checkpoints(self.settings.directory, report=self.messages.append)

    def run(self) -> list[str]:
        # A cluster repeats the task of a worker that died, which may have saved all its results.
        if not self.settings.stopped and self.store.missing(self.task.runs):
            self.advance(self.task.checkpoint, self.resume(self.task.checkpoint))
        return self.messages

    def resume(self, checkpoint: Checkpoint) -> Engine:
        """Return the engine of a checkpoint; a new one if its state is refused."""
        try:
            return self.make_engine(checkpoint.runs, checkpoint.state())
        except (CheckpointError, ValueError, KeyError, TypeError, RuntimeError) as error:
            self.messages.append(f"{checkpoint.path} is not used ({error}): its runs start anew")
            return self.make_engine(checkpoint.runs, None)

    def advance(self, checkpoint: Checkpoint, engine: Engine) -> None:
        """Advance an engine to its end, or until the request to stop."""
        if not checkpoint.path.exists():
            self.checkpoints.write(checkpoint, None)
        begun = engine.evaluations
        now = time.monotonic()
        check, report, save = now, now, now + self.settings.checkpoint_every
        while engine.active:
            engine.advance()
            self.save(engine.finished())
            now = time.monotonic()
            if now >= check:
                check = now + STOP_INTERVAL
                if self.settings.stopped:
                    self.checkpoints.write(checkpoint, engine.state_dict())
                    return
            if now >= report:
                progress = engine.evaluations, engine.evaluations - begun, self.saved
                partial = engine.partial_results() if self.settings.followed else {}
                write_report(self.settings.report(self.task), progress, partial)
                report = _next(now, REPORT_INTERVAL)
            if now >= save:
                try:
                    self.checkpoints.write(checkpoint, engine.state_dict())
                except OSError as error:  # the previous one is still there
                    text = f"{checkpoint.path} could not be written ({error}): the work goes on without it"
                    self.messages.append(text)
                save = _next(now, self.settings.checkpoint_every)
        self.save(engine.finished())
        checkpoint.path.unlink(missing_ok=True)

    def save(self, results: Sequence[Result]) -> None:
        """Store results."""
        for result in results:
            if not self.store.has(result.run):  # it may have been stored after the checkpoint was written
                self.store.save(result)
                self.saved += 1


def write_report(path: Path, progress: tuple[float, ...], partial: dict[str, Measurements]) -> None:
    """Write the report of a task: its progress, and what has been measured of its runs."""
    arrays: dict[str, Any] = {PROGRESS: np.array(progress)}
    arrays |= {key: np.stack([run[name] for name in PARTIAL_COLUMNS]) for key, run in partial.items()}
    with atomic_write(path, sync=False) as file:
        np.savez(file, **arrays)


def _next(began: float, interval: float) -> float:
    """Return when to write again what began at `began`, so that writing takes a small share of the time."""
    now = time.monotonic()
    return now + max(interval, (now - began) / WRITING_SHARE)
