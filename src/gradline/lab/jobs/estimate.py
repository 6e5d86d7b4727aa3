"""Estimate time, memory and disk space of a study by running a part of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from gradline.lab.jobs.grouping import groups, makespan, row_bytes
from gradline.lab.jobs.result import MakeEngine
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.threads import threads

BYTES_OF_FILE = 9_000
"""Size of a result without rows."""
BYTES_OF_ROW = 45
"""Size of an iteration in a result."""
EVALUATIONS_OF_ITERATION = 2
"""Mean number of evaluations per iteration."""


@dataclass(frozen=True)
class Pace:
    """Evaluations per second (`rate`) of the runs of one problem and batch size, and the number of these runs."""

    problem: str
    batch_size: int
    runs: int
    evaluations: float
    rate: float

    @property
    def seconds(self) -> float:
        """Seconds one worker needs for all these runs."""
        return self.evaluations / self.rate


@dataclass(frozen=True)
class Estimate:
    """Estimate for a study: time in seconds; memory, disk space and size of checkpoints in bytes."""

    paces: tuple[Pace, ...]
    seconds: float
    memory: int
    disk: int
    checkpoints: int
    measured: float
    """Seconds the measurement took."""


def estimate(
    runs: Sequence[Run],
    workers: int,
    *,
    make_engine: MakeEngine,
    key: Callable[[Run], Hashable],
    probe_seconds: float = 0.5,
    notice: Callable[[str], None] = lambda text: None,
) -> Estimate:
    """Run each kind of runs for `probe_seconds` on one thread and extrapolate.

    The estimate is correct to a factor of about 1.5: searches get shorter or longer in the course of training, and
    other programs use the machine too.
    """
    began = time.monotonic()
    tasks = groups(runs, workers, key)
    samples: dict[str, tuple[Run, ...]] = {}
    for task in tasks:
        samples.setdefault(task[0].setting, task)
    paces: dict[str, Pace] = {}
    for setting, sample in samples.items():
        name, size = sample[0].problem.name, sample[0].batch_size
        notice(f"{name}, batch size {size}")
        with threads():
            rate = 1.0 / measure_pace(sample, probe_seconds, make_engine)[1]
        budgets = [run.budget for run in runs if run.setting == setting]
        paces[setting] = Pace(name, size, len(budgets), sum(budgets), rate)
    prices = [sum(run.budget for run in task) / paces[task[0].setting].rate for task in tasks]
    return Estimate(
        tuple(paces.values()),
        makespan(prices, workers),
        _peak_memory(),
        sum(BYTES_OF_FILE + BYTES_OF_ROW * run.budget // EVALUATIONS_OF_ITERATION for run in runs),
        sum(sorted((len(task) * row_bytes(task[0].problem) for task in tasks), reverse=True)[:workers]),
        time.monotonic() - began,
    )


def measure_pace(runs: Sequence[Run], seconds: float, make_engine: MakeEngine) -> tuple[float, float]:
    """Return the seconds of an engine's first round, set-up included, and then of an evaluation, from some seconds."""
    began = time.perf_counter()
    engine = make_engine(runs, None)
    engine.advance()
    first, before, made = time.perf_counter(), engine.evaluations, 0.0
    while engine.active and (not made or time.perf_counter() - first < seconds):
        engine.advance()
        made = engine.evaluations - before
    return first - began, max(time.perf_counter() - first, 1e-9) / max(made, 1.0)


def _peak_memory() -> int:
    """Return the peak memory of this process."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
