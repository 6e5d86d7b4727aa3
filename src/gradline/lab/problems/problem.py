"""A problem: what is trained. It has a name and a revision, and builds a task from a seed.

There are two kinds. A `Network` is a plain value that describes a fully connected network on a data set, which the
lock-step engine understands. A `Built` problem names a function that builds its task: any model, any loss.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradline.lab.tools.names import require_name
from gradline.searches.arguments import require

if TYPE_CHECKING:
    from gradline.lab.problems.task import Task


class Problem(ABC):
    """What is trained."""

    name: str
    """What it is called in studies, files and figures."""
    revision: int
    """Raised when the problem changes, so that results of before are not taken for results of now."""
    data: str | None
    """The data set it needs, one of `gradline.lab.problems.data`; `None`: none."""
    budget: int
    """Evaluations of one run, where a study says nothing else."""
    batch_sizes: tuple[int, ...]
    """Batch sizes, where a study says nothing else."""

    @abstractmethod
    def build(self, seed: int) -> Task:
        """Build the task with the initial weights of a seed. The data are the same for all seeds."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain values, for JSON."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of training samples."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Number of parameters that are trained."""

    @property
    @abstractmethod
    def described(self) -> str:
        """What is trained, in a line."""


def check_plan(budget: int, batch_sizes: tuple[int, ...]) -> None:
    """Refuse a budget or batch sizes that are no counts."""
    require(type(budget) is int and budget > 0, "budget", "above 0", "it counts evaluations", budget)
    require(
        bool(batch_sizes) and all(type(size) is int and size > 0 for size in batch_sizes),
        "batch_sizes",
        "whole numbers above 0",
        "they count samples",
        batch_sizes,
    )


@dataclass(frozen=True, kw_only=True)
class Built(Problem):
    """A problem whose task is built by a function: any model and any loss. It runs in the ordinary engine.

    Args:
        name: what it is called in studies, files and figures.
        builder: "package.module:function"; the function takes a seed and returns a `Task`.
        about: the model and the data, in a line.
        data: the data set it needs, or `None`.
        budget: evaluations of one run, where a study says nothing else.
        batch_sizes: those of a study that names none.
        error: what `test_error` (or else `test_loss`) of its task means.
        revision: raised when the builder changes what it builds.
    """

    name: str
    builder: str
    about: str = ""
    data: str | None = None
    budget: int = 1000
    batch_sizes: tuple[int, ...] = (10, 100)
    error: str = "test error"
    revision: int = 1

    def __post_init__(self) -> None:
        require_name("name", self.name)
        good = isinstance(self.builder, str) and all(self.builder.partition(":"))
        require(good, "builder", "'package.module:function'", "it is imported and called", self.builder)
        check_plan(self.budget, self.batch_sizes)

    def build(self, seed: int) -> Task:
        """Import the builder, and call it."""
        from gradline.lab.problems.task import Task

        task = imported("builder", self.builder, "it builds the task")(seed)
        if not isinstance(task, Task):
            raise TypeError(f"builder must return a Task (it is trained), but {self.builder} returned {task!r}")
        return task

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain values, for JSON."""
        return {"kind": "built", **dataclasses.asdict(self), "batch_sizes": list(self.batch_sizes)}

    @property
    def samples(self) -> int:
        """Number of training samples; builds the task once to see."""
        return sizes(self)[0]

    @property
    def parameters(self) -> int:
        """Number of parameters that are trained; builds the task once to see."""
        return sizes(self)[1]

    @property
    def described(self) -> str:
        """What is trained, in a line."""
        return self.about or self.builder


def imported(argument: str, name: str, reason: str) -> Any:
    """Import and return "package.module:function"; an error names the argument and why it must be one."""
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{argument} must be 'package.module:function' that can be imported ({reason}), got {name!r}: {error}"
        ) from error


@cache
def sizes(problem: Problem) -> tuple[int, int]:
    """Return the numbers of training samples and of parameters of a problem; builds its task, once."""
    task = problem.build(0)
    return task.samples, sum(parameter.numel() for parameter in task.model.parameters())
