"""A problem: what is trained, on batches of which sizes, for how many evaluations, and how far is far enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradline.lab.bench.objective import Task
from gradline.lab.tools.names import require_name


@dataclass(frozen=True)
class Size:
    """A batch size with its budget in evaluations, and the training loss that counts as reached.

    The target is what Adam, with the best learning rate of its grid, had after two thirds of the budget in the first
    seed (or at its end, where that is more): a loss that a user who tunes would reach.
    """

    batch_size: int
    budget: int
    target: float


@dataclass(frozen=True, eq=False)
class Problem:
    """What is trained.

    Args:
        name: what it is called on the command line, in files and figures.
        about: the model and the data.
        sizes: small, medium and large batches.
        build: makes the task with the initial weights of a seed. The data are the same for all seeds.
        held_out: whether it is kept apart while methods are designed and tuned.
        error: what is measured on data that were not trained on.
        points: how often a run is measured, about.
        revision: to be raised when the problem changes, so that old results do not count any more.
    """

    name: str
    about: str
    sizes: tuple[Size, ...]
    build: Callable[[int], Task]
    held_out: bool
    error: str
    points: int = 60
    revision: int = 1

    def __post_init__(self) -> None:
        require_name("name", self.name)

    def size(self, batch_size: int) -> Size:
        """The budget and target of a batch size."""
        for size in self.sizes:
            if size.batch_size == batch_size:
                return size
        sizes = ", ".join(str(size.batch_size) for size in self.sizes)
        raise ValueError(f"batch_size must be one of {sizes} for {self.name} (others have no target), got {batch_size}")
