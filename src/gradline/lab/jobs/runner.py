"""Compute the runs of a study that are not stored yet, in worker processes, and recover from failures.

* A result is stored when its run is finished, and a run in progress has a checkpoint every half minute. Running a study
  again into the same directory computes what is missing, from the checkpoints.
* The task of a worker that dies is given to another one. A task that fails is repeated run by run, so that one bad run
  does not fail its group; a run that fails alone is reported, and the others continue.
* One runner at a time works in a directory: another one waits for it, and then computes what is still missing.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import filelock

from gradline.lab.jobs.checkpoints import Checkpoint, Checkpoints
from gradline.lab.jobs.executors import check_backend, died, open_executor
from gradline.lab.jobs.grouping import groups
from gradline.lab.jobs.progress import Follower, Following, Meter, Observer, Snapshot
from gradline.lab.jobs.result import MakeEngine
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.jobs.work import Task, TaskError, WorkerSettings, execute
from gradline.lab.tools.arguments import require_count
from gradline.lab.tools.files import remove_temporary_files
from gradline.lab.tools.formatting import plural
from gradline.searches.arguments import require

DEATHS = 3
"""Workers that may die over one task without progress before its runs are tried alone, or given up."""
SILENCE = 180.0
"""Seconds without progress of any worker after which a message says so."""


@dataclass(frozen=True)
class Failure:
    """A run that failed, its error, and the traceback if there is one."""

    key: str
    error: str
    trace: str = ""


@dataclass(frozen=True)
class Summary:
    """Counts of a study's runs: all, those stored before, those made now; and the failures."""

    directory: Path
    runs: int
    before: int
    made: int
    failures: tuple[Failure, ...]
    seconds: float


class Interrupted(KeyboardInterrupt):
    """A study was stopped by Ctrl-C or SIGTERM, with checkpoints; running it again resumes."""


def run_all(
    runs: list[Run],
    out: str | os.PathLike[str],
    *,
    make_engine: MakeEngine,
    key: Callable[[Run], Hashable],
    workers: int | None = None,
    backend: str = "processes",
    checkpoint_every: float = 30.0,
    threads: int = 1,
    observer: Observer | None = None,
    follower: Follower | None = None,
) -> Summary:
    """Compute those runs that are not stored in a directory yet. See `gradline.lab.run_study`."""
    require_count("workers", workers, "processes", optional=True)
    require_count("threads", threads, "threads of torch")
    require(checkpoint_every > 0.0, "checkpoint_every", "above 0", "it is a time", checkpoint_every)
    check_backend(backend)
    directory, observer = Path(out).resolve(), observer or Observer()
    with _mailbox(directory, observer) as mailbox:
        settings = WorkerSettings(directory, mailbox, checkpoint_every, threads, followed=follower is not None)
        return _Runner(runs, settings, workers, backend, observer, follower, make_engine, key).run()


@dataclass
class _Runner:
    """One call of `run_all`."""

    runs: list[Run]
    settings: WorkerSettings
    wanted_workers: int | None
    backend: str
    observer: Observer
    follower: Follower | None
    make_engine: MakeEngine
    key: Callable[[Run], Hashable]

    def __post_init__(self) -> None:
        self.workers = self.wanted_workers or 1  # until the executor is open
        self.messages: set[str] = set()
        self.store = Store(self.settings.directory, report=self.message)
        self.checkpoints = Checkpoints(self.settings.directory, report=self.message)
        self.failures: list[Failure] = []
        self.tasks: dict[Future[list[str]], Task] = {}
        self.deaths: dict[str, tuple[int, float]] = {}  # of each task: number, and evaluations at the last one
        self.names = (f"task-{number}" for number in itertools.count())
        self.interrupted = False
        self.progress = 0.0, time.monotonic()  # evaluations, and when they were first reported
        self.missing = self.store.missing(self.runs)
        self.meter = Meter(self.missing, self.settings)
        self.before = len(self.runs) - len(self.missing)
        self.stored = {run.key for run in self.runs} - {run.key for run in self.missing}
        self.following = self.follower and Following(self.follower, self.runs, self.store, self.settings.mailbox)

    def run(self) -> Summary:
        began = time.monotonic()
        try:
            if self.missing:
                with self.listening(), open_executor(self.backend, self.wanted_workers) as (executor, self.workers):
                    self.observer.update(self.snapshot())
                    self.submit(executor)
                    self.loop(executor)
        finally:
            self.follow(last=True)
        if self.interrupted:
            raise Interrupted
        self.observer.update(self.snapshot())
        self.checkpoints.remove_finished(self.stored)
        counts = len(self.runs), self.before, len(self.stored) - self.before
        return Summary(self.settings.directory, *counts, tuple(self.failures), time.monotonic() - began)

    def message(self, text: str) -> None:
        """Pass a message to the observer, each text once."""
        if text not in self.messages:
            self.messages.add(text)
            self.observer.message(text)

    def submit(self, executor: Executor) -> None:
        """Group the missing runs, those of a checkpoint together, and submit the groups."""
        rest = {run.key: run for run in self.missing}
        for checkpoint in self.checkpoints.usable(self.missing, self.store):
            unfinished = tuple(rest.pop(run.key) for run in checkpoint.runs if run.key in rest)
            if checkpoint.has_state:
                self.message(f"resuming {plural(len(unfinished), 'run')} from {checkpoint.path.name}")
            self.submit_task(executor, unfinished, checkpoint)
        new = [self.checkpoints.of(group) for group in groups(list(rest.values()), self.workers, self.key)]
        for checkpoint in new:  # the grouping decides the rounding: whoever resumes keeps it
            self.checkpoints.write(checkpoint, None)
        for checkpoint in new:
            self.submit_task(executor, checkpoint.runs, checkpoint)

    def submit_task(
        self, executor: Executor, runs: tuple[Run, ...], checkpoint: Checkpoint, deaths: tuple[int, float] = (0, 0)
    ) -> None:
        if self.interrupted:
            return
        task = Task(next(self.names), runs, checkpoint)
        self.deaths[task.name] = deaths
        self.tasks[executor.submit(execute, task, self.settings, self.make_engine)] = task

    def loop(self, executor: Executor) -> None:
        while self.tasks:
            ended, _ = wait(self.tasks, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in ended:
                self.finish_task(executor, future, self.tasks.pop(future))
            if self.interrupted:
                self.settings.stop.touch()
                for future in [future for future in self.tasks if future.cancel()]:
                    del self.tasks[future]
                continue  # the last snapshot stays: workers that stop remove their progress
            snapshot = self.snapshot()
            self.observer.update(snapshot)
            self.warn_if_silent(snapshot.evaluations)
            self.follow()

    def follow(self, *, last: bool = False) -> None:
        """Pass partial results to the follower; a disk that is full ends the live view, not the study."""
        if self.following:
            try:
                self.following.update(self.stored, now=last)
                if last:
                    self.following.follower.close()
            except OSError as error:
                self.following = None
                self.message(f"the live view ends here ({error}); the study goes on")

    def warn_if_silent(self, evaluations: float) -> None:
        """Say that workers have reported nothing for long: a cluster that has lost them all waits for new ones."""
        now = time.monotonic()
        if evaluations != self.progress[0] or not self.tasks:
            self.progress = evaluations, now
        elif now - self.progress[1] > SILENCE:
            self.message("workers have reported nothing for minutes: are there any left? The study waits for them")

    def finish_task(self, executor: Executor, future: Future[list[str]], task: Task) -> None:
        """Record the results of a task that has ended, and submit its failed runs again."""
        stored = {run.key for run in task.runs if self.store.has(run)}
        self.stored |= stored
        self.meter.finish(stored)
        try:
            for text in future.result():
                self.message(text)
        except CancelledError:  # by us, or by a cluster that has lost its scheduler
            if not self.interrupted:
                self.give_up(task, "the cluster gave it up (is its scheduler gone?)")
        except TaskError as error:
            self.retry_alone(executor, task, error.error, error.trace)
        except Exception as error:
            if died(error):
                self.resubmit(executor, task)
            else:
                self.give_up(task, f"{type(error).__name__}: {error}")
        self.settings.report(task).unlink(missing_ok=True)

    def unfinished(self, runs: Iterable[Run]) -> tuple[Run, ...]:
        """Return the runs without a result."""
        return tuple(run for run in runs if run.key not in self.stored)

    def resubmit(self, executor: Executor, task: Task) -> None:
        """Submit the task of a dead worker again; after some deaths without progress run by run."""
        runs = self.unfinished(task.runs)
        deaths, evaluations = self.deaths[task.name]
        report = self.meter.report(task)
        reached = 0.0 if report is None else report.evaluations
        deaths = 1 if reached > evaluations or len(runs) < len(task.runs) else deaths + 1
        if self.interrupted or not runs:
            return
        if deaths < DEATHS:
            self.observer.error(f"a worker died: its {plural(len(runs), 'run')} are given to another one")
            self.submit_task(executor, runs, task.checkpoint, (deaths, reached))
        else:
            reason = f"its worker died {deaths} times (was it out of memory?)"
            self.retry_alone(executor, task, reason, deaths=(deaths - 1, reached))

    def retry_alone(
        self, executor: Executor, task: Task, reason: str, trace: str = "", deaths: tuple[int, float] = (0, 0)
    ) -> None:
        """Submit each run of a failed task alone, as which one failed is not known; give up a run that was alone."""
        if len(task.runs) == 1 or self.interrupted:
            self.give_up(task, reason, trace)
            return
        self.observer.error(f"one of {plural(len(task.runs), 'run')} failed, each is tried alone: {reason}")
        task.checkpoint.path.unlink(missing_ok=True)
        for run in self.unfinished(task.runs):
            self.submit_task(executor, (run,), self.checkpoints.of([run]), deaths)

    def give_up(self, task: Task, reason: str, trace: str = "") -> None:
        runs = self.unfinished(task.runs)
        self.failures += [Failure(run.key, reason, trace) for run in runs]
        self.meter.finish({run.key for run in runs})
        self.observer.error(f"{runs[0].key} failed: {reason}" if runs else reason)

    def snapshot(self) -> Snapshot:
        return self.meter.snapshot(
            [task for future, task in self.tasks.items() if not future.done()],
            runs=len(self.runs),
            before=self.before,
            done=len(self.stored) - self.before,
            failed=len(self.failures),
            workers=self.workers,
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Context manager in which Ctrl-C and SIGTERM request workers to stop; a second one raises."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            self.settings.stop.touch()
            self.observer.message("stopping: writing checkpoints (once more to stop at once)")

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _mailbox(directory: Path, observer: Observer) -> Iterator[Path]:
    """Context manager with the lock of a directory, and in it a folder for the reports of this runner's workers."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(directory / ".lock")
    try:
        held = lock.acquire(timeout=0)
    except filelock.Timeout:
        observer.message(f"another process makes runs in {directory}: waiting for it")
        held = lock.acquire()
    with held:
        _clean_up(directory)  # after a runner that was killed
        mailbox = directory / "runners" / uuid.uuid4().hex[:12]
        mailbox.mkdir(parents=True)
        try:
            yield mailbox
        finally:
            _clean_up(directory)


def _clean_up(directory: Path) -> None:
    """Remove what a runner needs while it works."""
    shutil.rmtree(directory / "runners", ignore_errors=True)
    for folder in ("runs", "checkpoints"):
        remove_temporary_files(directory / folder)
    with suppress(OSError):  # it is not empty
        (directory / "checkpoints").rmdir()
