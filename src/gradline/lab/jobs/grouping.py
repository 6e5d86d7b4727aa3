"""Which runs go into one task.

Runs that share an engine are cheaper together (one batched evaluation serves them all), so tasks are large; but all
workers should have work to the end, so a task that would be the last one running is cut in two. How runs are grouped
changes their results by rounding alone: batched arithmetic adds up in another order when there are more rows.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Sequence

from gradline.lab.jobs.cost import cost, row_bytes
from gradline.lab.jobs.runs import Run

MOST_ROWS = 128
"""Of one task. Each run of it is a lock held."""
FEWEST_ROWS = 4
"""Smaller tasks are not made to even out the workers' load: an engine with few rows wastes its overhead."""
MOST_BYTES = 1 << 30
"""Of the parameters and gradients of one task."""
EVEN = 1.1
"""The last worker should finish at most this factor after the average one."""


def groups(runs: Sequence[Run], workers: int, key: Callable[[Run], Hashable]) -> list[tuple[Run, ...]]:
    """Runs in groups that workers can work on at once, the most expensive first.

    Args:
        runs: what is to be run.
        workers: how many work at once.
        key: runs with equal keys may share an engine.
    """
    families: dict[Hashable, list[Run]] = {}
    for run in runs:
        # A round takes as long as its largest batch.
        sizes = (run.batch_size, run.direction_batch_size, run.sampling)
        families.setdefault((key(run), sizes), []).append(run)
    parts: list[tuple[Run, ...]] = []
    for family in families.values():
        rows = max(1, min(MOST_ROWS, MOST_BYTES // row_bytes(family[0].problem)))
        # Seeds side by side: each part gets all methods, and so about the same work.
        family.sort(key=lambda run: (run.seed, run.method.name))
        parts += _cut(tuple(family), -(-len(family) // rows))
    return _evened(parts, workers)


def _evened(parts: list[tuple[Run, ...]], workers: int) -> list[tuple[Run, ...]]:
    prices = {run.key: cost(run) for part in parts for run in part}

    def price(part: Sequence[Run]) -> float:
        return sum(prices[run.key] for run in part)

    fair = sum(prices.values()) / workers
    parts = sorted(parts, key=price, reverse=True)
    while makespan([price(part) for part in parts], workers) > EVEN * fair:
        large = next((part for part in parts if len(part) >= 2 * FEWEST_ROWS), None)
        if large is None:
            break
        parts.remove(large)
        parts = sorted(parts + _cut(large, 2), key=price, reverse=True)
    return parts


def makespan(prices: Sequence[float], workers: int) -> float:
    """When the last of some workers is done, each of them taking the next task when it is free."""
    free = [0.0] * workers
    for price in prices:
        heapq.heapreplace(free, free[0] + price)
    return max(free)


def _cut(part: tuple[Run, ...], pieces: int) -> list[tuple[Run, ...]]:
    bounds = [round(piece * len(part) / pieces) for piece in range(pieces + 1)]
    return [part[begin:end] for begin, end in itertools.pairwise(bounds) if end > begin]
