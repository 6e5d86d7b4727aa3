"""What a study will take, measured by running a little of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from gradline.lab.jobs.cost import row_bytes
from gradline.lab.jobs.engine import MakeEngine
from gradline.lab.jobs.grouping import groups, makespan
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.threads import threads

BYTES_OF_FILE = 9_000
"""Of a result without its rows."""
BYTES_OF_ROW = 45
"""Of an iteration in a result."""
EVALUATIONS_OF_ITERATION = 2
"""On average, about: for the size on disk."""


@dataclass(frozen=True)
class Pace:
    """How fast runs of one kind go when they go together: a problem, a batch size, and how many runs that is."""

    problem: str
    batch_size: int
    runs: int
    evaluations: float
    rate: float

    @property
    def seconds(self) -> float:
        """Of one worker for all of them."""
        return self.evaluations / self.rate


@dataclass(frozen=True)
class Estimate:
    """Of a study: time in seconds, memory and disk in bytes."""

    paces: tuple[Pace, ...]
    seconds: float
    memory: int
    disk: int
    checkpoints: int
    measured: float
    """Seconds that measuring took."""


def estimate(
    runs: Sequence[Run],
    workers: int,
    *,
    make_engine: MakeEngine,
    key: Callable[[Run], Hashable],
    probe_seconds: float = 0.5,
    notice: Callable[[str], None] = lambda text: None,
) -> Estimate:
    """Run each kind of runs for a moment on one thread, and conclude from it.

    The time is that of the first evaluations: searches get shorter or longer later, and other programs take their share
    of the machine. Take it as good to a factor of 1.5.
    """
    began = time.monotonic()
    with threads():
        tasks = groups(runs, workers, key)
        rates: dict[tuple[str, int], float] = {}
        for kind, sample in _samples(tasks):
            notice(f"{kind[0]}, batch size {kind[1]}")
            rates[kind] = _rate(sample, probe_seconds, make_engine)
    paces = []
    for kind, rate in rates.items():
        same = [run for run in runs if _kind(run) == kind]
        paces.append(Pace(*kind, len(same), sum(run.budget for run in same), rate))
    prices = [sum(run.budget for run in task) / rates[_kind(task[0])] for task in tasks]
    return Estimate(
        tuple(paces),
        makespan(prices, workers),
        _peak_memory(),
        sum(BYTES_OF_FILE + BYTES_OF_ROW * run.budget // EVALUATIONS_OF_ITERATION for run in runs),
        sum(sorted((len(task) * row_bytes(task[0].problem) for task in tasks), reverse=True)[:workers]),
        time.monotonic() - began,
    )


def _kind(run: Run) -> tuple[str, int]:
    return run.problem.name, run.batch_size


def _samples(tasks: Sequence[tuple[Run, ...]]) -> Iterator[tuple[tuple[str, int], tuple[Run, ...]]]:
    """One task of each kind."""
    seen = set()
    for task in tasks:
        if _kind(task[0]) not in seen:
            seen.add(_kind(task[0]))
            yield _kind(task[0]), task


def _rate(runs: Sequence[Run], seconds: float, make_engine: MakeEngine) -> float:
    """Evaluations a second of an engine, after its first round, which pays for what is made once."""
    engine = make_engine(runs, None)
    engine.advance()
    before, began = engine.evaluations, time.perf_counter()
    while engine.active and time.perf_counter() - began < seconds:
        engine.advance()
    return max(engine.evaluations - before, 1) / (time.perf_counter() - began)


def _peak_memory() -> int:
    """The most that this process has had in memory so far."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
