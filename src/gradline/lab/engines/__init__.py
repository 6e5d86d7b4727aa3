"""Engines turn runs into results: many of one network in lock-step, any other run by itself.

```python
from gradline.lab.engines import make
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS

runs = [
    Run(problem=PROBLEMS["iris"], method=METHODS["gols-i"], batch_size=10, seed=seed, budget=100) for seed in range(3)
]
running = make(runs)
while running.active:
    running.advance()
results = running.finished()
assert len(results) == 3 and results[0].columns["evaluations"][-1] >= 100
```
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

from gradline.lab.jobs.result import Engine
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import SearchMethod
from gradline.lab.problems import Network
from gradline.protocol import Moments, Record, Slope, Value, observes, observes_at_probes

__all__ = ["Engine", "group_key", "lockstep_accepts", "make"]


def make(runs: Sequence[Run], state: dict[str, Any] | None = None) -> Engine:
    """Create the engine of runs with equal `group_key`s.

    Args:
        runs: the runs. With a `state`: at least those that had not finished.
        state: what `state_dict()` returned, to continue from there bit for bit.
    """
    if not runs:
        raise ValueError("runs must have at least one run (there is nothing to do), got none")
    keys = {group_key(run) for run in runs}
    if len(keys) > 1:
        raise ValueError(f"runs must have equal group keys (they share one network and its data), got {keys}")
    # Imported here: to name engines, as planners do, needs no torch.
    if not lockstep_accepts(runs[0]):
        from gradline.lab.engines.ordinary import Ordinary

        return Ordinary(runs[0], state=state)
    from gradline.lab.engines.lockstep import Lockstep

    problem = runs[0].problem
    assert isinstance(problem, Network)
    return Lockstep(runs, problem.load(), state=state)


def lockstep_accepts(run: Run) -> bool:
    """Return whether the lock-step engine can make a run, by its problem, search, direction and average.

    It makes runs of fully connected networks, steepest descent, and searches that observe slopes, values, or moments
    (with `diagonal` variances) at their origins. The ordinary engine makes all others.
    """
    problem, method = run.problem, run.method
    return (
        not run.benchmark
        and isinstance(problem, Network)
        and problem.model is None
        and isinstance(method, SearchMethod)
        and method.direction is None
        and not method.average
        and observes(method.search) in ((Slope, Value, Moments) if run.diagonal else (Slope, Value))
        and observes_at_probes(method.search) in (Slope, Value)
    )


def group_key(run: Run) -> Hashable:
    """Return a key; runs with equal keys may share an engine: one network, loss and precision, on one data set."""
    if not lockstep_accepts(run):
        return run.key
    names = ("data", "z_score", "hidden", "activation", "loss", "dtype", "error_samples")
    return tuple(getattr(run.problem, name) for name in names)


def ends_in_stall(run: Run, samples: int) -> bool:
    """Return whether a run ends when it is `stuck`: no evaluation is random, and its directions have no memory."""
    plain = lockstep_accepts(dataclasses.replace(run, diagonal=True))
    return plain and all(source is None or source.whole for source in run.batches(samples))


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
