"""One run of the benchmark as a value, what came of it, and the order in which runs are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from gradline.lab.tools.names import require_name
from gradline.searches._arguments import require


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run: a problem and a method by their names.

    Args:
        problem: its name.
        batch_size: one of the problem's.
        method: its name.
        seed: of the initial weights and of the sequence of batches.
        budget: in evaluations. The step under way when they are spent is finished, but does not count.
        revision: of the problem.
    """

    problem: str
    batch_size: int
    method: str
    seed: int
    budget: int
    revision: int = 1

    def __post_init__(self) -> None:
        require_name("problem", self.problem)
        require_name("method", self.method)
        for name, reason in (("batch_size", "it counts samples"), ("budget", "it counts evaluations")):
            value = getattr(self, name)
            require(type(value) is int and value > 0, name, "a whole number above 0", reason, value)
        require(type(self.seed) is int and self.seed >= 0, "seed", "a whole number of 0 or more", "it seeds", self.seed)

    @property
    def setting(self) -> str:
        """What all methods are compared on: the problem and the batch size."""
        return f"{self.problem}/{self.batch_size}"

    @property
    def key(self) -> str:
        """What the run is called in a store."""
        return f"{self.problem}_b{self.batch_size}_{self.method}_s{self.seed}_e{self.budget}_r{self.revision}"


class Status(Enum):
    """How a run ended."""

    DONE = "done"
    DIVERGED = "diverged"
    """Its parameters are not finite any more."""
    FAILED = "failed"
    """The method raised an error: see the reason."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What was measured at the end of a step."""

    thirds: int
    """Evaluations made so far, in thirds: a forward pass is 1, a backward pass 2."""
    steps: int
    seconds: float
    """Of training so far; measuring does not count."""
    processor: float
    """Seconds that the processor worked for it: what other programs take is not in them."""
    train_loss: float
    test_error: float


@dataclass(frozen=True, kw_only=True)
class Record:
    """What came of a run."""

    run: Run
    status: Status
    reason: str
    """Why it failed, else empty."""
    points: tuple[Point, ...]
    forwards: int
    backwards: int
    versions: dict[str, str]

    @property
    def counted(self) -> tuple[Point, ...]:
        """The points within the budget."""
        return tuple(point for point in self.points if point.thirds <= 3 * self.run.budget)

    @property
    def last(self) -> Point | None:
        """The last point within the budget, if the run reached its end."""
        return self.counted[-1] if self.status is Status.DONE and self.counted else None

    @property
    def train_loss(self) -> float:
        """At the end; infinite if the run did not get there, or if it is NaN."""
        return math.inf if self.last is None or math.isnan(self.last.train_loss) else self.last.train_loss

    @property
    def test_error(self) -> float:
        """At the end; infinite if the run did not get there, or if it is NaN."""
        return math.inf if self.last is None or math.isnan(self.last.test_error) else self.last.test_error


def interleaved(
    settings: Sequence[tuple[str, int, int, int]], methods: Sequence[str], seeds: Sequence[int]
) -> list[Run]:
    """The runs in the order in which they are made.

    All methods of a seed and a setting come one after another, so that whatever else the machine does hits all of them
    alike; and each time another one of them is the first.

    Args:
        settings: the problem's name, batch size, budget and revision.
        methods: their names.
        seeds: the seeds.
    """
    runs = []
    for seed in seeds:
        for place, (problem, batch_size, budget, revision) in enumerate(settings):
            first = (seed + place) % len(methods) if methods else 0
            runs += [
                Run(
                    problem=problem,
                    batch_size=batch_size,
                    method=method,
                    seed=seed,
                    budget=budget,
                    revision=revision,
                )
                for method in (*methods[first:], *methods[:first])
            ]
    return runs
