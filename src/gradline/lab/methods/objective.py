"""`Objective`: the model of a task, and its losses on mini-batches, whose evaluations are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.problems.sampling import Batches
from gradline.lab.problems.task import Task

if TYPE_CHECKING:
    from torch import Tensor, nn


class Objective:
    """The losses of a task on a sequence of mini-batches, which depends on the run's seed and on nothing else.

    A forward pass is counted when a loss is computed, and a backward pass when autograd goes back through it, so that
    the count is exact whatever an optimizer does.

    Args:
        task: what is trained.
        batches: the mini-batches.
        directions: the mini-batches of the first evaluation of each step; `None`: they are as the others.
        static: all evaluations of a step have one mini-batch.
        reuse_gradient: whether a search begins from the gradient of the accepted probe; `None`: as its class has it.
        diagonal: variances of slopes as if the components of the gradient were independent.
        counted: whether passes are counted. Searches of gradline count their own.
        budget: evaluations of the run, for learning rate schedules; `None`: not known.
    """

    def __init__(
        self,
        task: Task,
        batches: Batches,
        directions: Batches | None = None,
        *,
        static: bool = False,
        reuse_gradient: bool | None = None,
        diagonal: bool = False,
        counted: bool = True,
        budget: int | None = None,
    ) -> None:
        self.task, self.model, self.budget = task, task.model, budget
        self.reuse_gradient, self.diagonal = reuse_gradient, diagonal
        self.forwards = self.backwards = 0
        """Passes that were counted."""
        self.steps = 0
        """Steps begun."""
        self.drawn = 0
        """Mini-batches drawn, but for those of directions and of static sampling."""
        self._counted = counted
        self._batches, self._directions, self._static = batches, directions, static
        self._at_start = True
        self._batch: Tensor | slice | None = None

    @property
    def evaluations(self) -> float:
        """Evaluations so far: a forward pass is a third of one, a backward pass two thirds."""
        return (self.forwards + 2 * self.backwards) / 3

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is trained."""
        return list(self.model.parameters())

    def begin(self) -> None:
        """Begin a step; its first evaluation may have a mini-batch of its own kind."""
        self.steps += 1
        self._at_start = True

    def next_batch(self) -> None:
        """Go on to the next mini-batch."""
        source, position = self._batches, max(self.steps - 1, 0)
        if self._at_start and self._directions is not None:
            source = self._directions
        elif not self._static:
            position = self.drawn
            self.drawn += 1
        self._at_start = False
        self._batch = _chosen(source, position)

    def losses(self) -> Tensor:
        """Return the per-sample losses of the current mini-batch: one forward pass."""
        if self._batch is None:
            self.next_batch()
        assert self._batch is not None
        losses = self.task.losses(self.model, self._batch)
        if self._counted:
            self.forwards += 1
            if losses.requires_grad:
                losses.register_hook(self._count_backward)  # type: ignore[no-untyped-call]
        return losses

    def _count_backward(self, gradient: Tensor) -> None:
        self.backwards += 1

    def loss(self) -> Tensor:
        """Return the mean loss of the current mini-batch."""
        return self.losses().mean()

    def backward(self) -> Tensor:
        """Compute the gradients of the mean loss of the current mini-batch, and return the loss."""
        loss = self.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def uncounted(self, model: nn.Module, batches: int) -> None:
        """Make forward passes that are not counted, on the first mini-batches: for BatchNorm's statistics."""
        import torch

        with torch.no_grad():
            for position in range(batches):
                self.task.losses(model, _chosen(self._batches, position))


def _chosen(batches: Batches, position: int) -> Tensor | slice:
    import torch

    return slice(0, batches.samples) if batches.whole else torch.from_numpy(batches.at(position))
