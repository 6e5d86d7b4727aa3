"""A problem: what is trained. It has a name and a revision, and builds a task from a seed.

A `Network` is a plain value that describes a fully connected network on a data set, which the lock-step engine
understands. A `Built` problem names a function that builds its task, and a `Script` a function of a user's file: any
model, any loss.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Self

from gradline.lab.problems.task import Task
from gradline.lab.tools.arguments import require_count, require_counts, require_name
from gradline.lab.tools.imports import import_named
from gradline.searches.arguments import require


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """What is trained.

    Args:
        name: its name in studies, files and figures.
        data: the data set it needs, one of `gradline.lab.problems.data`; `None`: none.
        budget: evaluations of one run, where a study gives no other number.
        batch_sizes: batch sizes, where a study gives no others.
        revision: raised when the problem computes other numbers, so that earlier results are not taken for its own.
    """

    kind: ClassVar[str]
    """Name of the class in files."""

    name: str
    data: str | None = None
    budget: int = 1000
    batch_sizes: tuple[int, ...] = (10, 100)
    revision: int = 1

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require_count("budget", self.budget, "evaluations")
        require(bool(self.batch_sizes), "batch_sizes", "at least one", "runs have a batch size", self.batch_sizes)
        require_counts("batch_sizes", self.batch_sizes, "samples")

    @abstractmethod
    def build(self, seed: int) -> Task:
        """Build the task with the initial weights of a seed. The data are the same for all seeds."""

    @property
    @abstractmethod
    def described(self) -> str:
        """What is trained, in a line."""

    @property
    def samples(self) -> int:
        """Number of training samples; builds the task once."""
        return _sizes(self)[0]

    @property
    def parameters(self) -> int:
        """Number of parameters that are trained; builds the task once."""
        return _sizes(self)[1]

    def seconds(self, samples: int) -> float:
        """Return about how long an evaluation of so many samples takes on one core; the first time measures it."""
        return samples / PROBED * _seconds(self, PROBED) if samples > PROBED else _seconds(self, samples)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain values, for JSON."""
        return {"kind": self.kind} | {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the problem that `to_dict` described."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        del given["kind"]
        return cls(**given)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else list(value) if isinstance(value, tuple) else value


PROBED = 256
"""Most samples of an evaluation that is timed: one of more samples takes longer in proportion."""


@cache
def _seconds(problem: Problem, samples: int) -> float:
    import torch

    with torch.random.fork_rng(devices=[]):
        task = problem.build(0)
        parameters = [parameter for parameter in task.model.parameters() if parameter.requires_grad]
        begun = time.perf_counter()
        try:
            for _ in range(2):  # the first one also allocates memory
                begun = time.perf_counter()
                loss = task.losses(task.model, slice(0, samples)).mean()
                torch.autograd.grad(loss, parameters, allow_unused=True)
        except Exception:  # runs of this problem will fail, and say why
            pass
        return time.perf_counter() - begun


@cache
def _sizes(problem: Problem) -> tuple[int, int]:
    task = problem.build(0)
    return task.samples, sum(parameter.numel() for parameter in task.model.parameters())


@dataclass(frozen=True, kw_only=True)
class Built(Problem):
    """A problem whose task is built by a function: any model and any loss. It runs in the ordinary engine.

    It has the arguments of `Problem` and these.

    Args:
        builder: "package.module:function"; the function takes a seed and returns a `Task`.
        about: the model and the data, in a line.
        error: what `test_error` (or else `test_loss`) of its task means.
    """

    kind = "built"

    builder: str
    about: str = ""
    error: str = "test error"

    def __post_init__(self) -> None:
        super().__post_init__()
        good = isinstance(self.builder, str) and all(self.builder.partition(":"))
        require(good, "builder", "'package.module:function'", "it is imported and called", self.builder)

    def build(self, seed: int) -> Task:
        task = import_named("builder", self.builder, "function", "it builds the task")(seed)
        if not isinstance(task, Task):
            raise TypeError(f"builder must return a Task (it is trained), but {self.builder} returned {task!r}")
        return task

    @property
    def described(self) -> str:
        return self.about or self.builder
