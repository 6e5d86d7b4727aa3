"""Making runs: leave out what is stored, group the rest, have workers do it, and survive what goes wrong.

* A result is stored when its run is finished; a run under way has a checkpoint every half minute. Running a study again
  into the same directory does what is missing, from the checkpoints.
* A worker that dies has its task given to another one. A task that fails is tried again run by run, so that one bad run
  does not take its group along; what fails alone is reported, and the rest goes on.
* Several runners may share a directory: each run is locked while it is worked on, and a runner waits for the
  runs of others.
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

from gradline.lab.jobs.checkpoints import Checkpoints
from gradline.lab.jobs.engine import MakeEngine
from gradline.lab.jobs.executors import check_backend, died, open_executor
from gradline.lab.jobs.grouping import groups
from gradline.lab.jobs.locks import forget, is_free
from gradline.lab.jobs.partial import SHOW_EVERY, Follower, Following
from gradline.lab.jobs.progress import Meter, Observer, Silent, Snapshot
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.jobs.work import Orders, Report, RunError, Task, execute
from gradline.lab.tools.files import sweep
from gradline.searches.arguments import require

DEATHS = 3
"""So many workers may die over one task without any progress before it is cut in two, or given up."""
SILENCE = 180.0
"""Seconds without news from any worker after which that is said."""
ASK_AGAIN = 2.0
"""Seconds between two looks at runs that another process works on."""


@dataclass(frozen=True)
class Failure:
    """A run that failed, why, and where (a traceback, where there is one)."""

    key: str
    error: str
    trace: str = ""


@dataclass(frozen=True)
class Summary:
    """What became of a study: how many of its runs were there before, how many were made now, and which failed."""

    directory: Path
    runs: int
    before: int
    made: int
    failures: tuple[Failure, ...]
    seconds: float


class Interrupted(KeyboardInterrupt):
    """A study was stopped by Ctrl-C or SIGTERM. Checkpoints are written; running it again resumes."""


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
    """Make those runs that are not in a directory yet. See `gradline.lab.run_study`."""
    require(
        workers is None or (type(workers) is int and workers > 0), "workers", "above 0", "they do the work", workers
    )
    require(checkpoint_every > 0.0, "checkpoint_every", "above 0", "it is a time", checkpoint_every)
    require(type(threads) is int and threads > 0, "threads", "above 0", "they do the arithmetic", threads)
    check_backend(backend)
    directory = Path(out).resolve()
    with _post(directory) as post:
        orders = Orders(directory, post, checkpoint_every, threads, None if follower is None else SHOW_EVERY)
        return _Runner(runs, orders, workers, backend, observer or Silent(), follower, make_engine, key).run()


class _Runner:
    """One call of `run_all`."""

    def __init__(
        self,
        runs: list[Run],
        orders: Orders,
        workers: int | None,
        backend: str,
        observer: Observer,
        follower: Follower | None,
        make_engine: MakeEngine,
        key: Callable[[Run], Hashable],
    ) -> None:
        self.runs = runs
        self.orders = orders
        self.wanted_workers = workers
        self.workers = workers or 1  # until the executor says
        self.backend = backend
        self.observer = observer
        self.make_engine = make_engine
        self.key = key
        self.said: set[str] = set()
        self.store = Store(orders.directory, report=self.say)
        self.checkpoints = Checkpoints(orders.directory, report=self.say)
        self.failures: list[Failure] = []
        self.stored: set[str] = set()
        self.flight: dict[Future[Report], Task] = {}
        self.deaths: dict[str, tuple[int, float]] = {}  # of a task: how many, and evaluations at the last one
        self.elsewhere: dict[str, Run] = {}
        self.made: set[str] = set()  # by this runner's own workers
        self.following = follower and Following(follower, runs, self.store, orders.post, self.say)
        self.names = (f"task-{number}" for number in itertools.count())
        self.interrupted = False
        self.heard = 0, time.monotonic()  # evaluations, and when they were first seen

    def run(self) -> Summary:
        began = time.monotonic()
        missing = self.store.missing(self.runs)
        self.before = len(self.runs) - len(missing)
        self.meter = Meter(missing, self.orders)
        self.there = {run.key for run in self.runs} - {run.key for run in missing}
        try:
            if missing:
                with self.listening(), open_executor(self.backend, self.wanted_workers) as (executor, self.workers):
                    self.observer.update(self.snapshot())
                    self.submit(executor, missing)
                    self.loop(executor)
        finally:
            if self.following:
                self.following.look(self.there | self.stored, now=True)
                self.following.close()
        if self.interrupted:
            raise Interrupted
        self.observer.update(self.snapshot())
        self.checkpoints.tidy(self.there | self.stored)
        forget(self.orders.directory, self.there | self.stored)
        return Summary(
            self.orders.directory,
            len(self.runs),
            self.before,
            len(self.made),
            tuple(self.failures),
            time.monotonic() - began,
        )

    def say(self, text: str) -> None:
        """Tell the observer, but each thing once."""
        if text not in self.said:
            self.said.add(text)
            self.observer.message(text)

    def submit(self, executor: Executor, runs: Sequence[Run]) -> None:
        """Group runs, those of a checkpoint together, and hand them out."""
        free = [run for run in runs if is_free(self.orders.directory, run.key)]
        rest = {run.key: run for run in free}
        self.wait_for(run for run in runs if run.key not in rest)
        for checkpoint in self.checkpoints.usable(free, self.store):
            unfinished = tuple(rest.pop(run.key) for run in checkpoint.runs if run.key in rest)
            if checkpoint.begun:
                self.say(f"taking up {_runs(len(unfinished))} from {checkpoint.path.name}")
            self.hand_out(executor, unfinished)
        fresh = groups(list(rest.values()), self.workers, self.key)
        for group in fresh:  # which runs go together decides their rounding: whoever goes on keeps to it
            self.checkpoints.write(self.checkpoints.of(group), None)
        for group in fresh:
            self.hand_out(executor, group)

    def hand_out(self, executor: Executor, runs: tuple[Run, ...], deaths: tuple[int, float] = (0, 0)) -> None:
        if self.interrupted:
            return
        task = Task(next(self.names), runs)
        self.deaths[task.name] = deaths
        self.flight[executor.submit(execute, task, self.orders, self.make_engine)] = task

    def loop(self, executor: Executor) -> None:
        asked = time.monotonic()
        while self.flight or (self.elsewhere and not self.interrupted):
            ended, _ = wait(self.flight, timeout=0.5, return_when=FIRST_COMPLETED)
            if not self.flight:
                time.sleep(0.5)
            for future in ended:
                self.settle(executor, future, self.flight.pop(future))
            if self.interrupted:
                self.orders.stop.touch()
                for future in [future for future in self.flight if future.cancel()]:
                    del self.flight[future]
                continue  # the last snapshot stays: what workers now lay down would be missing in a new one
            if self.elsewhere and time.monotonic() - asked > ASK_AGAIN:
                asked = time.monotonic()
                self.ask_again(executor)
            snapshot = self.snapshot()
            self.observer.update(snapshot)
            self.mind_silence(snapshot.evaluations)
            if self.following:
                self.following.look(self.there | self.stored)

    def mind_silence(self, evaluations: int) -> None:
        """Say when nothing has come from workers for long: a cluster that has lost them all waits for new ones."""
        now = time.monotonic()
        if evaluations != self.heard[0] or not self.flight:
            self.heard = evaluations, now
        elif now - self.heard[1] > SILENCE:
            self.say("nothing has come from workers for minutes: are there any left? The study waits for them")

    def settle(self, executor: Executor, future: Future[Report], task: Task) -> None:
        """A task has ended, one way or another."""
        try:
            report = future.result()
        except CancelledError:  # by us, or by a cluster that has lost its scheduler
            self.made |= self.note_stored(task)
            if not self.interrupted:
                self.give_up(task, "the cluster gave it up (is its scheduler gone?)")
        except RunError as failed:
            self.made |= self.note_stored(task)
            self.retry_alone(executor, task, failed)
        except Exception as error:
            self.made |= self.note_stored(task)
            if died(error):
                self.resubmit(executor, task)
            else:
                self.give_up(task, f"{type(error).__name__}: {error}")
        else:
            for text in report.messages:
                self.say(text)
            self.made |= set(report.saved)
            self.note_stored(task)
            self.wait_for(run for run in self.open(task) if run.key in report.busy)

    def wait_for(self, runs: Iterable[Run]) -> None:
        """Another process works on these."""
        busy = {run.key: run for run in runs}
        if busy and not self.elsewhere:
            self.say(f"{_runs(len(busy))} being made by another process: waiting for the results")
        self.elsewhere |= busy

    def note_stored(self, task: Task) -> set[str]:
        """See which runs of a task have results, and say which of them are new."""
        missing = {run.key for run in self.store.missing(task.runs)}
        stored = {run.key for run in task.runs} - missing
        new = stored - self.stored
        self.stored |= stored
        self.meter.finish(stored)
        return new

    def open(self, task: Task) -> tuple[Run, ...]:
        """The runs of a task that have no result."""
        return tuple(run for run in task.runs if run.key not in self.stored)

    def retry_alone(self, executor: Executor, task: Task, failed: RunError) -> None:
        """One run of several has failed, which one is not known: each is tried alone."""
        runs = self.open(task)
        if len(task.runs) == 1 or self.interrupted:
            self.failures += [Failure(run.key, failed.error, failed.trace) for run in runs]
            self.meter.finish({run.key for run in runs})
            self.observer.error(f"{runs[0].key} failed: {failed.error}" if runs else failed.error)
            return
        self.observer.error(f"one of {_runs(len(task.runs))} failed, each is tried alone: {failed.error}")
        self.checkpoints.drop(runs)
        for run in runs:
            self.hand_out(executor, (run,))

    def resubmit(self, executor: Executor, task: Task) -> None:
        """A worker died. Not more than a few times without progress on one task: perhaps the task kills it."""
        runs = self.open(task)
        deaths, evaluations = self.deaths[task.name]
        reached = self.meter.reported(task)
        deaths = 1 if reached > evaluations or len(runs) < len(task.runs) else deaths + 1
        self.orders.progress(task).unlink(missing_ok=True)
        self.orders.growth(task).unlink(missing_ok=True)
        if self.interrupted or not runs:
            return
        if deaths < DEATHS:
            self.observer.error(f"a worker died: its {_runs(len(runs))} are given to another one")
            self.hand_out(executor, runs, (deaths, reached))
        elif len(runs) > 1:
            self.observer.error(f"{deaths} workers died over the same {_runs(len(runs))}: trying them in two halves")
            self.checkpoints.drop(runs)
            middle = len(runs) // 2
            for half in (runs[:middle], runs[middle:]):
                self.hand_out(executor, half, (deaths - 1, reached))
        else:
            self.give_up(task, f"its worker died {deaths} times (was it out of memory?)")

    def give_up(self, task: Task, reason: str) -> None:
        runs = self.open(task)
        self.failures += [Failure(run.key, reason) for run in runs]
        self.meter.finish({run.key for run in runs})
        self.observer.error(f"{runs[0].key} failed: {reason}" if runs else reason)

    def ask_again(self, executor: Executor) -> None:
        """Runs of other processes: stored by now, still under way, or left by a process that died."""
        task = Task("elsewhere", tuple(self.elsewhere.values()))
        self.note_stored(task)
        self.elsewhere = {run.key: run for run in self.open(task)}
        free = [run for key, run in self.elsewhere.items() if is_free(self.orders.directory, key)]
        for run in free:
            del self.elsewhere[run.key]
        self.submit(executor, free)

    def snapshot(self) -> Snapshot:
        tasks = [task for future, task in self.flight.items() if not future.done()]
        evaluations, fraction, seconds, rate, left = self.meter.measure(tasks)
        working = sum(self.orders.progress(task).exists() for task in tasks)
        return Snapshot(
            runs=len(self.runs),
            before=self.before,
            done=len(self.stored) + sum(self.meter.saved(task) for task in tasks),
            failed=len(self.failures),
            elsewhere=len(self.elsewhere),
            working=min(working, self.workers),
            workers=self.workers,
            evaluations=evaluations,
            total_evaluations=self.meter.total,
            fraction=fraction,
            seconds=seconds,
            rate=rate,
            left=left,
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as a wish to stop soon; the second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            self.orders.stop.touch()
            self.observer.message("stopping: writing checkpoints (once more to stop at once)")

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _post(directory: Path) -> Iterator[Path]:
    """A folder for the messages of this runner; what runners that were killed left is removed."""
    posts = directory / "runners"
    posts.mkdir(parents=True, exist_ok=True)
    _clear_away(directory)
    name = uuid.uuid4().hex[:12]
    post = posts / name
    try:
        with filelock.FileLock(posts / f"{name}.lock"):
            post.mkdir()
            yield post
    finally:
        _clear_away(directory)  # what this one leaves, too


def _clear_away(directory: Path) -> None:
    """Remove what killed runners left, and the folders that are empty."""
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
        sweep(directory / folder)
    for folder in ("checkpoints", "locks", "runners"):
        with suppress(OSError):
            (directory / folder).rmdir()


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"
