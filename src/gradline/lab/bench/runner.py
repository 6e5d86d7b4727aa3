"""Making the runs that are missing, one after another or in several processes; what is made is kept.

Each run is locked while it is made, so that several runners can share a directory. After Ctrl-C the runs that were
under way are lost, and nothing else: they take a minute at most. The same call again makes them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path

from gradline.lab.bench.runs import Record, Run, Status
from gradline.lab.bench.store import Store
from gradline.lab.jobs.executors import open_executor
from gradline.lab.jobs.locks import Locks, forget
from gradline.lab.jobs.progress import WINDOW, Observer, Silent, Snapshot
from gradline.lab.tools.files import sweep
from gradline.lab.tools.threads import threads
from gradline.searches._arguments import require

SHOW_EVERY = 0.25
"""Seconds between two looks at the progress."""


@dataclass(frozen=True)
class Summary:
    """What became of a benchmark: runs in all, there before, made now, and made elsewhere at this moment."""

    runs: int
    before: int
    made: int
    elsewhere: int
    failed: tuple[Record, ...]
    """Of those made now, the runs whose method raised an error. Their records are stored."""
    seconds: float


def run_bench(
    runs: Sequence[Run],
    out: str | os.PathLike[str],
    *,
    workers: int = 1,
    observer: Observer | None = None,
) -> Summary:
    """Make those runs that are not in a directory yet. Raises `KeyboardInterrupt` after Ctrl-C.

    Args:
        runs: in the order in which they are made; see `gradline.lab.bench.runs.interleaved`.
        out: the directory.
        workers: processes, each with one thread. With 1 it is this process.
        observer: is told how it goes on.
    """
    require(type(workers) is int and workers > 0, "workers", "a whole number above 0", "they do the work", workers)
    observer = observer or Silent()
    directory = Path(out).resolve()
    store = Store(directory, report=observer.message)
    missing = store.missing(runs)
    meter = _Meter(runs, missing, workers, observer)
    sweep(store.folder)
    if missing and workers == 1:
        _here(missing, directory, meter)
    elif missing:
        _in_processes(missing, directory, workers, meter)
    forget(directory, [run.key for run in runs if run.key in meter.done])
    return meter.summary()


def _here(missing: Sequence[Run], directory: Path, meter: _Meter) -> None:
    for run in missing:
        meter.begin(run)
        meter.end(run, make(run, directory, tick=meter.tick))


def _in_processes(missing: Sequence[Run], directory: Path, workers: int, meter: _Meter) -> None:
    with open_executor("processes", workers) as (executor, _):
        waiting, flight = list(missing), dict[Future[Record | None], Run]()
        while waiting or flight:
            while waiting and len(flight) < workers:
                run = waiting.pop(0)
                meter.begin(run)
                flight[executor.submit(make, run, directory)] = run
            ended, _ = wait(flight, timeout=SHOW_EVERY, return_when=FIRST_COMPLETED)
            for future in ended:
                meter.end(flight.pop(future), future.result())
            meter.show()


def make(run: Run, directory: Path, tick: Callable[[float], None] = lambda evaluations: None) -> Record | None:
    """Make a run and store its record; `None` if another process makes it just now, or has just made it."""
    from gradline.lab.bench.training import train

    store = Store(directory)
    with Locks(directory) as locks:
        if not locks.take([run.key]) or store.has(run):
            return None
        with threads():  # results then do not depend on the number of cores
            record = train(run, tick=tick)
        store.save(record)
        locks.done(run.key)
        return record


class _Meter:
    """Adds up what is done, and tells the observer."""

    def __init__(self, runs: Sequence[Run], missing: Sequence[Run], workers: int, observer: Observer) -> None:
        self.done: set[str] = set()
        self._runs, self._before, self._workers, self._observer = len(runs), len(runs) - len(missing), workers, observer
        self._total = sum(run.budget for run in missing)
        self._finished = 0
        self._flight: dict[str, float] = {}
        self._elsewhere = 0
        self._failed: list[Record] = []
        self._began = time.monotonic()
        self._shown = 0.0
        self._history = [(self._began, 0.0)]

    def begin(self, run: Run) -> None:
        """A run begins."""
        self._flight[run.key] = 0.0
        self.show()

    def tick(self, evaluations: float) -> None:
        """The only run under way has made so many evaluations."""
        for key in self._flight:
            self._flight[key] = evaluations
        if time.monotonic() - self._shown >= SHOW_EVERY:
            self.show()

    def end(self, run: Run, record: Record | None) -> None:
        """A run has ended; `None`: another process has it."""
        del self._flight[run.key]
        self._finished += run.budget
        if record is None:
            self._elsewhere += 1
            return
        self.done.add(run.key)
        if record.status is Status.FAILED:
            self._failed.append(record)
            self._observer.error(f"{run.method} on {run.setting}, seed {run.seed}: {record.reason}")
        self.show()

    def show(self) -> None:
        """Tell the observer."""
        now = self._shown = time.monotonic()
        evaluations = self._finished + sum(self._flight.values())
        self._history.append((now, evaluations))
        while now - self._history[0][0] > WINDOW and len(self._history) > 2:
            self._history.pop(0)
        then, made_then = self._history[0]
        rate = (evaluations - made_then) / (now - then) if now - then > 1.0 else None
        # Problems differ in what an evaluation costs, so what is left is told by the whole of what was done.
        past, left = now - self._began, None
        if evaluations > 0 and past > 4.0:
            left = past * (self._total - evaluations) / evaluations
        self._observer.update(
            Snapshot(
                runs=self._runs,
                before=self._before,
                done=len(self.done),
                failed=len(self._failed),
                elsewhere=self._elsewhere,
                working=len(self._flight),
                workers=self._workers,
                evaluations=int(evaluations),
                total_evaluations=self._total,
                fraction=min(evaluations / self._total, 1.0) if self._total else 1.0,
                seconds=past,
                rate=rate,
                left=left,
            )
        )

    def summary(self) -> Summary:
        """What became of it."""
        seconds = time.monotonic() - self._began
        return Summary(self._runs, self._before, len(self.done), self._elsewhere, tuple(self._failed), seconds)
