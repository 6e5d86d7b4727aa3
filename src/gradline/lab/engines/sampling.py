"""What both engines share: the batches of a run, when a stall ends it, and finding runs by the keys of a state."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gradline.lab.engines import lockstep_accepts
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import SearchMethod
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.protocol import Moments, Record, observes
from gradline.searches.arguments import require


def reuses(run: Run) -> bool:
    """Return whether the accepted probe's gradient begins the next search."""
    return run.sampling is not Sampling.STATIC and run.direction_batch_size is None


def probe_batches(run: Run, samples: int) -> Batches:
    """Return the batches of a run's probes."""
    whole = run.sampling is Sampling.FULL
    size, repetition = (samples, False) if whole else (run.batch_size, run.repetition)
    return Batches(seed=run.seed, purpose=Purpose.PROBES, samples=samples, size=size, repetition=repetition)


def direction_batches(run: Run, samples: int) -> Batches | None:
    """Return the batches that give a run's directions; `None`: those of its probes."""
    if (size := run.direction_batch_size) is None:
        return None
    return Batches(seed=run.seed, purpose=Purpose.DIRECTIONS, samples=samples, size=size, repetition=run.repetition)


def ends_in_stall(run: Run, samples: int) -> bool:
    """Return whether a run ends when it is `stuck`: no evaluation is random, and its directions have no memory."""
    batches = probe_batches(run, samples), direction_batches(run, samples)
    plain = lockstep_accepts(dataclasses.replace(run, diagonal=True))
    return plain and all(source is None or source.whole for source in batches)


def stuck(record: Record[Any, Any]) -> bool:
    """Return whether a search left everything as it was: no step, and nothing new in its memory.

    On full batches every search after it would do the same, so the rest of the budget would change nothing.
    """
    return record.outcome.step == 0.0 and bool(record.outcome.memory == record.memory)


def runs_of_state(state: dict[str, Any], engine: str, version: int, runs: Sequence[Run]) -> dict[str, Run]:
    """Return the runs by their keys, or raise a `ValueError` for the state of another engine."""
    if (state["engine"], state["version"]) != (engine, version):
        raise ValueError(
            f"state must be of {engine} runs, version {version} (what this gradline reads), "
            f"got {state['engine']!r}, version {state['version']!r}"
        )
    return {run.key: run for run in runs}


def check_variances(run: Run, samples: int) -> None:
    """Raise a `ValueError` for a run whose search needs variances and whose batches have none."""
    if isinstance(run.method, SearchMethod) and observes(run.method.search) is Moments:
        size = (direction_batches(run, samples) or probe_batches(run, samples)).size
        rule, reason = f"at least 2 with {run.method.name}", "a variance is estimated from how samples differ"
        require(size > 1, "batch_size", rule, reason, size)
