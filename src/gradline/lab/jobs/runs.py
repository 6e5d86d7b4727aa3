"""A training run as a value: everything that decides its numbers, and a key computed from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from gradline.lab.methods import Method, SearchMethod, method_from_dict
from gradline.lab.problems import Problem, problem_from_dict
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.tools.arguments import require_count
from gradline.protocol import Moments, observes
from gradline.searches.arguments import require


class Sampling(Enum):
    """Which samples an evaluation uses (Definitions 2.1 and 2.2)."""

    DYNAMIC = "dynamic"
    """A new mini-batch for every evaluation; the accepted probe's gradient begins the next search."""
    STATIC = "static"
    """One mini-batch for each search: its start, which is evaluated anew, and all of its probes."""
    FULL = "full"
    """All training samples."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run.

    Args:
        problem: the problem.
        method: the method.
        batch_size: samples per evaluation.
        seed: seed of the random streams (initial weights, batches, samples to measure errors on).
        budget: number of evaluations, including the first gradient. A search in progress at the end is finished.
        sampling: which samples an evaluation uses.
        direction_batch_size: samples of a separate evaluation per search that gives the direction, and counts.
            `None`: the accepted probe's gradient gives it.
        repetition: whether a sample may be drawn twice for one batch.
        diagonal: variances of slopes as if the components of the gradient were independent, as for PrLS in the paper;
            `False`: exact variances.
        record_every: evaluations between two measurements of losses and errors, at the end of a search.
        angle: also measure the angle between the direction and that of the full batch.
        benchmark: the run belongs to a comparison of methods. It runs alone in the ordinary engine, so that its times
            are meaningful; its evaluations are counted where the loss is computed, a forward pass alone as a third; and
            an error of the method is its result.
    """

    problem: Problem
    method: Method
    batch_size: int
    seed: int
    budget: int
    sampling: Sampling = Sampling.DYNAMIC
    direction_batch_size: int | None = None
    repetition: bool = False
    diagonal: bool = True
    record_every: int = 10
    angle: bool = False
    benchmark: bool = False

    def __post_init__(self) -> None:
        require_count("batch_size", self.batch_size, "samples")
        require_count("budget", self.budget, "evaluations")
        require_count("record_every", self.record_every, "evaluations")
        require_count("direction_batch_size", self.direction_batch_size, "samples", optional=True)
        require(type(self.seed) is int and self.seed >= 0, "seed", "a whole number of 0 or more", "it seeds", self.seed)

    @property
    def setting(self) -> str:
        """Problem and batch size, on which methods are compared."""
        return f"{self.problem.name}/{self.batch_size}"

    @cached_property
    def key(self) -> str:
        """The name of the run in a store: readable, and unique by a hash of all its fields."""
        values = self.to_dict()
        for name in ("batch_sizes", "budget", "about", "error", "path"):  # they do not change the numbers
            values["problem"].pop(name, None)
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.problem.name}_{self.method.name}_b{self.batch_size}_s{self.seed}_{digest}"

    @property
    def reuses_gradient(self) -> bool:
        """Whether the accepted probe's gradient begins the next search."""
        return self.sampling is not Sampling.STATIC and self.direction_batch_size is None

    def batches(self, samples: int) -> tuple[Batches, Batches | None]:
        """Return the batches of probes, and those that give directions; `None`: those of probes do."""

        def drawn(purpose: Purpose, size: int, *, repetition: bool) -> Batches:
            return Batches(seed=self.seed, purpose=purpose, samples=samples, size=size, repetition=repetition)

        whole, size = self.sampling is Sampling.FULL, self.direction_batch_size
        repetition = self.repetition and not whole
        probes = drawn(Purpose.PROBES, samples if whole else self.batch_size, repetition=repetition)
        directions = None if size is None else drawn(Purpose.DIRECTIONS, size, repetition=self.repetition)
        return probes, directions

    def check_variances(self, samples: int) -> None:
        """Raise a `ValueError` if the search needs variances and the batches that give directions have none."""
        if isinstance(self.method, SearchMethod) and observes(self.method.search) is Moments:
            probes, directions = self.batches(samples)
            size = (directions or probes).size
            rule, reason = f"at least 2 with {self.method.name}", "a variance is estimated from how samples differ"
            require(size > 1, "batch_size", rule, reason, size)

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain values for JSON."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        parts = {"problem": self.problem.to_dict(), "method": self.method.to_dict()}
        return values | parts | {"sampling": self.sampling.value}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Return the run of a `to_dict`. Nothing is imported: a method this program does not have becomes `Absent`."""
        problem, method = problem_from_dict(values["problem"]), method_from_dict(values["method"])
        return cls(**values | {"problem": problem, "method": method, "sampling": Sampling(values["sampling"])})
