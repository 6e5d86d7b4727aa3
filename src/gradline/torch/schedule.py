"""A learning-rate scheduler that does nothing, for trainers that insist on having one."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

__all__ = ["NoSchedule"]


class NoSchedule(LRScheduler):
    """Leaves the steps to the search. Its "learning rate" is the last step, so that trainers log it.

    ```python
    import torch, gradline

    optimizer = gradline.GOLSI(torch.nn.Linear(3, 1).parameters())
    scheduler = gradline.NoSchedule(optimizer)
    ```
    """

    def get_lr(self) -> list[float | Tensor]:
        """What each group shows: the last step."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float | Tensor]:
        """The same: there is no other."""
        return self.get_lr()

    def step(self, epoch: Any = None) -> None:
        """Take note of the last step, and do nothing."""
        self.last_epoch += 1
        self._step_count += 1
        self._last_lr = self.get_lr()
