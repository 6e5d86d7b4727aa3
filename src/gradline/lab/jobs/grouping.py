"""The cost of runs, and which of them one worker advances together.

Runs that share an engine are cheaper together (one batched evaluation serves them all), so tasks are large; but all
workers should have work to the end, so large tasks are divided. The grouping changes results by rounding only: batched
arithmetic adds up in another order when there are more rows.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Sequence

from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.problems import Problem

MOST_ROWS = 128
"""Largest number of runs of one task."""
FEWEST_ROWS = 4
"""Tasks with fewer runs are not made to balance the load: an engine of few runs is mostly overhead."""
MOST_BYTES = 1 << 30
"""Largest size of the parameters and gradients of one task."""
EVEN = 1.1
"""Largest ratio of the time of the last worker to the mean time of workers."""


def cost(run: Run) -> float:
    """Return about how many seconds a run takes on one core, for comparing runs; `gradline check` measures more."""
    samples = run.problem.samples if run.sampling is Sampling.FULL else run.batch_size
    return run.budget * run.problem.seconds(samples)


def row_bytes(problem: Problem) -> int:
    """Return about how many bytes a run needs in a group: its parameters, gradients and buffers of the search."""
    return 10 * problem.parameters * (8 if getattr(problem, "dtype", "float32") == "float64" else 4)


def groups(runs: Sequence[Run], workers: int, key: Callable[[Run], Hashable]) -> list[tuple[Run, ...]]:
    """Divide runs into groups that workers can advance at the same time, the most expensive first.

    Runs with equal keys may share an engine.
    """
    families: dict[Hashable, list[Run]] = {}
    for run in runs:
        # A round takes as long as its largest batch.
        sizes = (run.batch_size, run.direction_batch_size, run.sampling)
        families.setdefault((key(run), sizes), []).append(run)
    parts: list[tuple[Run, ...]] = []
    for family in families.values():
        rows = max(1, min(MOST_ROWS, MOST_BYTES // row_bytes(family[0].problem)))
        # Ordered by seed: each part gets all methods, and so about the same work.
        family.sort(key=lambda run: (run.seed, run.method.name))
        parts += _divided(tuple(family), -(-len(family) // rows))
    prices = {run.key: cost(run) for run in runs}

    def price(part: Sequence[Run]) -> float:
        return sum(prices[run.key] for run in part)

    fair = sum(prices.values()) / workers
    parts.sort(key=price, reverse=True)
    while makespan([price(part) for part in parts], workers) > EVEN * fair:
        large = next((part for part in parts if len(part) >= 2 * FEWEST_ROWS), None)
        if large is None:
            break
        parts.remove(large)
        parts = sorted(parts + _divided(large, 2), key=price, reverse=True)
    return parts


def makespan(prices: Sequence[float], workers: int) -> float:
    """Return when the last worker is done, if each takes the next task as soon as it is free."""
    free = [0.0] * workers
    for price in prices:
        heapq.heapreplace(free, free[0] + price)
    return max(free)


def _divided(part: tuple[Run, ...], pieces: int) -> list[tuple[Run, ...]]:
    bounds = [round(piece * len(part) / pieces) for piece in range(pieces + 1)]
    return [part[begin:end] for begin, end in itertools.pairwise(bounds) if end > begin]
