"""Engines turn runs into results: in lock-step where the network allows it, else one after another.

```python
from types import SimpleNamespace
import numpy as np
from gradline.lab.engines import engine
from gradline.lab.methods.method import METHODS
from gradline.lab.problems.network import Problem
from gradline.lab.jobs.runs import Run

random = np.random.default_rng(0)
inputs, targets = random.normal(size=(60, 4)), np.eye(3)[random.integers(3, size=60)]
data = SimpleNamespace(train_inputs=inputs, train_targets=targets, test_inputs=inputs[:0], test_targets=targets[:0])
problem = Problem(name="small", data="mine", hidden=(5,))
runs = [
    Run(problem=problem, method=METHODS["gols-i"], batch_size=10, seed=seed, budget=100) for seed in range(3)
]
running = engine(runs, data)
while running.active:
    running.advance()
results = running.finished()
assert len(results) == 3 and results[0].columns["evaluations"][-1] >= 100
```
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gradline.lab.jobs.result import Result
from gradline.lab.jobs.runs import Run
from gradline.lab.problems.network import Problem

if TYPE_CHECKING:
    from gradline.lab.jobs.partial import Growth
    from gradline.lab.problems.modules import Data


class Engine(Protocol):
    """Some runs under way."""

    @property
    def active(self) -> int:
        """Runs not finished."""

    @property
    def evaluations(self) -> int:
        """Evaluations made so far, as they count for budgets."""

    def advance(self) -> None:
        """Go on a little: one evaluation of each run in lock-step, or one iteration of one run."""

    def finished(self) -> list[Result]:
        """The results of runs that have finished since the last call."""

    def growing(self) -> dict[str, Growth]:
        """What has been measured of the runs under way, by their keys. Asked only where somebody follows a study."""

    def state_dict(self) -> dict[str, Any]:
        """All there is to go on from, exactly: tensors, numbers, strings, lists and dicts."""


def engine(runs: Sequence[Run], data: Data, *, state: dict[str, Any] | None = None) -> Engine:
    """The engine for some runs with equal `group_key`s.

    Args:
        runs: what to run. With a `state`: at least those that had not finished.
        data: the data set of their problem.
        state: what `state_dict()` gave, to go on from there bit for bit.
    """
    if not runs:
        raise ValueError("runs must have at least one run (there is nothing to do), got none")
    if len({run.key for run in runs}) < len(runs):
        raise ValueError("runs must differ (results and states are told apart by their keys), but some are equal")
    keys = {group_key(run) for run in runs}
    if len(keys) > 1:
        raise ValueError(f"runs must have equal group keys (they share one network and its data), got {keys}")
    # Imported here: to name engines, as planners do, needs no torch.
    if can_lockstep(runs[0].problem):
        from gradline.lab.engines.lockstep import Lockstep

        return Lockstep(runs, data, state=state)
    from gradline.lab.engines.ordinary import Ordinary

    return Ordinary(runs, data, state=state)


def can_lockstep(problem: Problem) -> bool:
    """Whether runs of a problem go in lock-step: its network must be one of ours, fully connected."""
    return problem.model is None


def group_key(run: Run) -> Hashable:
    """Runs with equal keys may share an engine: one network, loss and precision, on one data set."""
    problem = run.problem
    return (
        problem.data,
        problem.z_score,
        problem.hidden,
        problem.activation.value,
        problem.loss.value,
        problem.dtype,
        problem.error_samples,
        problem.model,
    )
