"""One training run as a value: everything that decides what it computes, and a key made of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from gradline.lab.methods import Method, method_from_dict
from gradline.lab.problems import Problem, problem_from_dict
from gradline.searches.arguments import require


class Sampling(Enum):
    """Which samples an evaluation sees (Definitions 2.1 and 2.2)."""

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
        problem: what is trained.
        method: how.
        batch_size: samples of an evaluation.
        seed: of the run's random streams (initial weights, batches, samples to measure errors on).
        budget: evaluations, the very first gradient included. The search under way when they are spent is finished.
        sampling: which samples an evaluation sees.
        direction_batch_size: samples of the evaluation that gives the direction. It is then made anew for each search,
            and counts. `None`: `batch_size`.
        repetition: whether a sample may be drawn twice for one batch.
        diagonal: variances of slopes as if the components of the gradient were independent, as PrLS had them in the
            paper; `False`: exact ones.
        record_every: losses and errors are measured at the end of the first search after each so many evaluations.
        angle: also measure the angle between the direction and that of the full batch.
        benchmark: the run is one of a comparison of methods. It runs by itself in the ordinary engine, so that its
            times mean something; its evaluations are counted where the loss is computed, whatever the method says of
            itself, a forward pass alone as a third; and an error of the method is the run's result.
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
        for name, reason in (
            ("batch_size", "it counts samples"),
            ("budget", "it counts evaluations"),
            ("record_every", "it counts evaluations"),
        ):
            value = getattr(self, name)
            require(type(value) is int and value > 0, name, "a whole number above 0", reason, value)
        require(type(self.seed) is int and self.seed >= 0, "seed", "a whole number of 0 or more", "it seeds", self.seed)
        size = self.direction_batch_size
        require(
            size is None or (type(size) is int and size > 0),
            "direction_batch_size",
            "a whole number above 0, or None",
            "it counts samples",
            size,
        )

    @property
    def setting(self) -> str:
        """What methods are compared on: the problem and the batch size."""
        return f"{self.problem.name}/{self.batch_size}"

    @cached_property
    def key(self) -> str:
        """What the run is called in a store: readable, and unique by a hash of everything it consists of."""
        values = self.to_dict()
        for name in (
            "batch_sizes",
            "budget",
            "about",
            "error",
            "path",
        ):  # words, defaults of a study, and where a file lies
            values["problem"].pop(name, None)
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.problem.name}_{self.method.name}_b{self.batch_size}_s{self.seed}_{digest}"

    def to_dict(self) -> dict[str, Any]:
        """The run as plain values, for JSON."""
        values: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("problem", "method")
        }
        values["sampling"] = self.sampling.value
        return values | {"problem": self.problem.to_dict(), "method": self.method.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """The inverse of `to_dict`. Nothing is imported for it: what this program does not have is `Absent`."""
        return cls(
            **{
                **values,
                "problem": problem_from_dict(values["problem"]),
                "method": method_from_dict(values["method"]),
                "sampling": Sampling(values["sampling"]),
            }
        )
