"""What an optimizer sees of a problem: a model, and losses on mini-batches that are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradline.lab.bench.counting import Counter
from gradline.lab.problems.sampling import Batches, Purpose

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with the initial weights of a seed."""

    model: nn.Module
    samples: int
    """Training samples there are to draw from."""
    losses: Callable[[nn.Module, Tensor], Tensor]
    """The loss of each of the training samples with the given numbers."""
    measure: Callable[[nn.Module], tuple[float, float]]
    """The training loss and the test error of a model in evaluation mode."""


class Objective:
    """The losses of a task on a sequence of mini-batches, which depends on the seed and on nothing else.

    Args:
        task: the problem.
        batch_size: samples of a mini-batch, none twice; all samples if there are no more.
        seed: of the sequence.
    """

    def __init__(self, task: Task, batch_size: int, seed: int) -> None:
        self.task = task
        self.model = task.model
        self.counter = Counter()
        size = min(batch_size, task.samples)
        self._batches = Batches(seed=seed, purpose=Purpose.PROBES, samples=task.samples, size=size)
        self._position = 0
        self._batch: Tensor | None = None

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is trained."""
        return list(self.model.parameters())

    def next_batch(self) -> None:
        """Go on to the next mini-batch."""
        import torch

        self._batch = torch.from_numpy(self._batches.at(self._position)).long()
        self._position += 1

    def losses(self) -> Tensor:
        """The losses of the samples of the current mini-batch: one evaluation, forward."""
        if self._batch is None:
            self.next_batch()
        assert self._batch is not None
        return self.counter.watch(self.task.losses(self.model, self._batch))

    def loss(self) -> Tensor:
        """Their mean."""
        return self.losses().mean()

    def uncounted(self, model: nn.Module, batches: int) -> None:
        """Forward passes that are no part of training, on the first mini-batches: for BatchNorm's statistics."""
        import torch

        with torch.no_grad():
            for position in range(batches):
                self.task.losses(model, torch.from_numpy(self._batches.at(position)).long())
