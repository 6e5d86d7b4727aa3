"""Learning-rate schedulers: one that follows recorded steps, and one that does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class RecordedSchedule(LRScheduler):
    """Scheduler of recorded learning rates, made by [`StepRecorder.schedule`][gradline.StepRecorder.schedule].

    Training is divided into parts of equal length. Each knot is the rate at the middle of its part; between knots the
    logarithm of the rate is interpolated linearly, and before the first and after the last knot the rate is constant.
    `state_dict()` contains the knots, so that training can resume without the recording.

    Args:
        optimizer: the optimizer whose learning rate is set. Of the `lr` of its groups only the ratio to the first
            group's is used.
        knots: learning rates of parts of equal length.
        total: number of calls of `step()` in the whole schedule.
        last_epoch: as for torch's schedulers.
    """

    def __init__(self, optimizer: Optimizer, knots: list[float], total: int, last_epoch: int = -1) -> None:
        self.knots = knots
        self.total = total
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the current learning rate of each group."""
        rate = rate_at(self.knots, self.last_epoch / self.total)
        first = float(self.base_lrs[0])
        return [rate * float(base) / first for base in self.base_lrs]


class NoSchedule(LRScheduler):
    """Scheduler that changes nothing and reports the last step as the learning rate, for trainers that require one.

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


def rate_at(knots: list[float], part: float) -> float:
    """Return the learning rate after this fraction of the schedule."""
    middles = (np.arange(len(knots)) + 0.5) / len(knots)
    return float(np.exp(np.interp(part, middles, np.log(knots))))
