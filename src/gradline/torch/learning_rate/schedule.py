"""A recorded schedule as an ordinary learning-rate scheduler."""

from __future__ import annotations

import numpy as np
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

__all__ = ["RecordedSchedule"]


class RecordedSchedule(LRScheduler):
    """Goes through recorded learning rates; made by [`StepRecorder.schedule`][gradline.StepRecorder.schedule].

    Each knot is the rate in the middle of its part of the way. Between two of them the logarithm of the rate is linear;
    before the first and after the last, the end of the way included, the rate is held. The state holds the knots, so
    that training resumes without the recording.

    Args:
        optimizer: whose learning rate is set. The `lr` of its groups counts only in proportion to the first group's.
        knots: learning rates of parts of equal length.
        total: calls of `step()` on the whole way.
        last_epoch: as for torch's schedulers.
    """

    def __init__(self, optimizer: Optimizer, knots: list[float], total: int, last_epoch: int = -1) -> None:
        self.knots = knots
        self.total = total
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The learning rate of each group now."""
        rate = rate_at(self.knots, self.last_epoch / self.total)
        first = float(self.base_lrs[0])
        return [rate * float(base) / first for base in self.base_lrs]


def rate_at(knots: list[float], part: float) -> float:
    """The learning rate when this part of the way is done."""
    middles = (np.arange(len(knots)) + 0.5) / len(knots)
    return float(np.exp(np.interp(part, middles, np.log(knots))))
