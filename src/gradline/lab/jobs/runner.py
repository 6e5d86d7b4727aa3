"""Compute the runs of a study that are not stored yet, in worker processes, and recover from failures.

* A result is stored when its run is finished, and a run in progress has a checkpoint every half minute. Running a study
  again into the same directory computes what is missing, from the checkpoints.
* The task of a worker that dies is given to another one. A task that fails is repeated run by run, so that one bad run
  does not fail its group; a run that fails alone is reported, and the others continue.
* Several runners may share a directory: each run is locked while a worker computes it, and a runner waits for the runs
  of others.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import filelock

from gradline.lab.jobs.checkpoints import Checkpoint, Checkpoints
from gradline.lab.jobs.executors import check_backend, died, open_executor
from gradline.lab.jobs.grouping import groups
from gradline.lab.jobs.locks import is_free, remove_locks
from gradline.lab.jobs.partial import INTERVAL, Follower, Following
from gradline.lab.jobs.progress import Meter, Observer, Snapshot
from gradline.lab.jobs.result import MakeEngine
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.jobs.work import Task, TaskError, TaskReport, WorkerSettings, execute
from gradline.lab.tools.arguments import require_count
from gradline.lab.tools.files import remove_temporary_files
from gradline.lab.tools.formatting import plural
from gradline.searches.arguments import require

DEATHS = 3
"""Workers that may die over one task without progress before its runs are tried alone, or given up."""
SILENCE = 180.0
"""Seconds without progress of any worker after which a message says so."""
ELSEWHERE_INTERVAL = 2.0
"""Seconds between two checks of runs that another process works on."""


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
    directory = Path(out).resolve()
    with _mailbox(directory) as mailbox:
        settings = WorkerSettings(directory, mailbox, checkpoint_every, threads, None if follower is None else INTERVAL)
        return _Runner(runs, settings, workers, backend, observer or Observer(), follower, make_engine, key).run()


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
        self.tasks: dict[Future[TaskReport], Task] = {}
        self.deaths: dict[str, tuple[int, float]] = {}  # of each task: number, and evaluations at the last one
        self.elsewhere: dict[str, Run] = {}
        self.made: set[str] = set()  # by the workers of this runner
        self.names = (f"task-{number}" for number in itertools.count())
        self.interrupted = False
        self.progress = 0, time.monotonic()  # evaluations, and when they were first reported
        self.missing = self.store.missing(self.runs)
        self.meter = Meter(self.missing, self.settings)
        self.before = len(self.runs) - len(self.missing)
        self.stored = {run.key for run in self.runs} - {run.key for run in self.missing}
        self.following = self.follower and Following(
            self.follower, self.runs, self.store, self.settings.mailbox, self.message
        )

    def run(self) -> Summary:
        began = time.monotonic()
        try:
            if self.missing:
                with self.listening(), open_executor(self.backend, self.wanted_workers) as (executor, self.workers):
                    self.observer.update(self.snapshot())
                    self.submit(executor, self.missing)
                    self.loop(executor)
        finally:
            if self.following:
                self.following.update(self.stored, now=True)
                self.following.close()
        if self.interrupted:
            raise Interrupted
        self.observer.update(self.snapshot())
        self.checkpoints.remove_finished(self.stored)
        remove_locks(self.settings.directory, self.stored)
        counts = len(self.runs), self.before, len(self.made)
        return Summary(self.settings.directory, *counts, tuple(self.failures), time.monotonic() - began)

    def message(self, text: str) -> None:
        """Pass a message to the observer, each text once."""
        if text not in self.messages:
            self.messages.add(text)
            self.observer.message(text)

    def submit(self, executor: Executor, runs: Sequence[Run]) -> None:
        """Group runs, those of a checkpoint together, and submit the groups."""
        free = [run for run in runs if is_free(self.settings.directory, run.key)]
        rest = {run.key: run for run in free}
        self.wait_for(run for run in runs if run.key not in rest)
        for checkpoint in self.checkpoints.usable(free, self.store):
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
        checked = time.monotonic()
        while self.tasks or (self.elsewhere and not self.interrupted):
            ended, _ = wait(self.tasks, timeout=0.5, return_when=FIRST_COMPLETED)
            if not self.tasks:
                time.sleep(0.5)
            for future in ended:
                self.finish_task(executor, future, self.tasks.pop(future))
            if self.interrupted:
                self.settings.stop.touch()
                for future in [future for future in self.tasks if future.cancel()]:
                    del self.tasks[future]
                continue  # the last snapshot stays: workers that stop remove their progress
            if self.elsewhere and time.monotonic() - checked > ELSEWHERE_INTERVAL:
                checked = time.monotonic()
                self.check_elsewhere(executor)
            snapshot = self.snapshot()
            self.observer.update(snapshot)
            self.warn_if_silent(snapshot.evaluations)
            if self.following:
                self.following.update(self.stored)

    def warn_if_silent(self, evaluations: int) -> None:
        """Say that workers have reported nothing for long: a cluster that has lost them all waits for new ones."""
        now = time.monotonic()
        if evaluations != self.progress[0] or not self.tasks:
            self.progress = evaluations, now
        elif now - self.progress[1] > SILENCE:
            self.message("workers have reported nothing for minutes: are there any left? The study waits for them")

    def finish_task(self, executor: Executor, future: Future[TaskReport], task: Task) -> None:
        """Record the results of a task that has ended, and submit its failed runs again."""
        report, error = None, None
        try:
            report = future.result()
        except Exception as raised:
            error = raised
        new = self.note_stored(task.runs)
        self.made |= new if report is None else set(report.saved)
        if report is not None:
            for text in report.messages:
                self.message(text)
            self.wait_for(run for run in self.unfinished(task.runs) if run.key in report.busy)
        elif isinstance(error, CancelledError):  # by us, or by a cluster that has lost its scheduler
            if not self.interrupted:
                self.give_up(task, "the cluster gave it up (is its scheduler gone?)")
        elif isinstance(error, TaskError):
            self.retry_alone(executor, task, error.error, error.trace)
        elif error is not None and died(error):
            self.resubmit(executor, task)
        else:
            self.give_up(task, f"{type(error).__name__}: {error}")
        self.settings.remove_reports(task)

    def wait_for(self, runs: Iterable[Run]) -> None:
        """Wait for runs that another process computes."""
        busy = {run.key: run for run in runs}
        if busy and not self.elsewhere:
            self.message(f"{plural(len(busy), 'run')} being made by another process: waiting for the results")
        self.elsewhere |= busy

    def note_stored(self, runs: Iterable[Run]) -> set[str]:
        """Note which runs are stored, and return the keys of those that are new."""
        new = {run.key for run in runs if self.store.has(run)} - self.stored
        self.stored |= new
        self.meter.finish(new)
        return new

    def unfinished(self, runs: Iterable[Run]) -> tuple[Run, ...]:
        """Return the runs without a result."""
        return tuple(run for run in runs if run.key not in self.stored)

    def resubmit(self, executor: Executor, task: Task) -> None:
        """Submit the task of a dead worker again; after some deaths without progress run by run."""
        runs = self.unfinished(task.runs)
        deaths, evaluations = self.deaths[task.name]
        reached = self.meter.report(task).get("evaluations", 0)
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

    def check_elsewhere(self, executor: Executor) -> None:
        """Check runs of other processes: stored by now, still in progress, or left by a process that died."""
        self.note_stored(self.elsewhere.values())
        self.elsewhere = {run.key: run for run in self.unfinished(self.elsewhere.values())}
        free = [run for key, run in self.elsewhere.items() if is_free(self.settings.directory, key)]
        for run in free:
            del self.elsewhere[run.key]
        self.submit(executor, free)

    def snapshot(self) -> Snapshot:
        tasks = [task for future, task in self.tasks.items() if not future.done()]
        reports = [report for report in map(self.meter.report, tasks) if report]
        return self.meter.snapshot(
            tasks,
            runs=len(self.runs),
            before=self.before,
            done=len(self.stored) - self.before + sum(report["saved"] for report in reports),
            failed=len(self.failures),
            elsewhere=len(self.elsewhere),
            working=min(len(reports), self.workers),
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
def _mailbox(directory: Path) -> Iterator[Path]:
    """Context manager with a folder for the reports of this runner's workers."""
    runners = directory / "runners"
    runners.mkdir(parents=True, exist_ok=True)
    _clean_up(directory)
    mailbox = runners / uuid.uuid4().hex[:12]
    try:
        with filelock.FileLock(mailbox.with_suffix(".lock")):
            mailbox.mkdir()
            yield mailbox
    finally:
        _clean_up(directory)


def _clean_up(directory: Path) -> None:
    """Remove the files of runners that have ended, and empty folders."""
    alive = False
    for lock in (directory / "runners").glob("*.lock"):
        try:
            with filelock.FileLock(lock, timeout=0):
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
        except filelock.Timeout:
            alive = True
    if alive:
        return
    for folder in ("runs", "checkpoints"):
        remove_temporary_files(directory / folder)
    for folder in ("checkpoints", "locks", "runners"):
        with suppress(OSError):
            (directory / folder).rmdir()
