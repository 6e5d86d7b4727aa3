"""Learning-rate scheduler that does nothing, for trainers that require one."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

__all__ = ["NoSchedule"]


class NoSchedule(LRScheduler):
    """Scheduler that changes nothing and reports the last step as the learning rate, so that trainers log it.

    ```python
    import torch, gradline

    optimizer = gradline.GOLSI(torch.nn.Linear(3, 1).parameters())
    scheduler = gradline.NoSchedule(optimizer)
    ```
    """

    def get_lr(self) -> list[float | Tensor]:
        """Return the `lr` of each group, which is the last step."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float | Tensor]:
        """Return the same as `get_lr()`."""
        return self.get_lr()

    def step(self, epoch: Any = None) -> None:
        """Count the call and note the last step; change nothing."""
        self.last_epoch += 1
        self._step_count += 1
        self._last_lr = self.get_lr()
