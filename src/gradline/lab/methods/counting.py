"""Counting evaluations where they happen: at the loss.

A forward pass is counted when a loss is computed, and a backward pass when autograd goes back through it. So nothing an
optimizer does goes uncounted, and nothing is counted that it does not do. In thirds of an evaluation a forward pass is
1 and a backward pass 2: whole numbers, hence exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

FORWARD = 1
"""Thirds of an evaluation that a forward pass counts."""
BACKWARD = 2
"""Thirds of an evaluation that a backward pass counts."""


class Counter:
    """How many forward and backward passes were made.

    ```python
    import torch
    from gradline.lab.methods.counting import Counter

    counter = Counter()
    x = torch.ones(3, requires_grad=True)
    counter.watch(x.square().sum()).backward()
    counter.watch(x.sum())  # forward only
    assert (counter.forwards, counter.backwards, counter.thirds) == (2, 1, 4)
    ```
    """

    def __init__(self) -> None:
        self.forwards = 0
        self.backwards = 0

    def watch(self, loss: Tensor) -> Tensor:
        """Count a loss that was just computed, and each pass back through it."""
        self.forwards += 1
        if loss.requires_grad:
            loss.register_hook(self._went_back)  # type: ignore[no-untyped-call]
        return loss

    def _went_back(self, gradient: Tensor) -> None:
        self.backwards += 1

    @property
    def thirds(self) -> int:
        """Evaluations so far, in thirds."""
        return FORWARD * self.forwards + BACKWARD * self.backwards

    @property
    def evaluations(self) -> float:
        """Evaluations so far: a forward and a backward pass are one."""
        return self.thirds / 3
