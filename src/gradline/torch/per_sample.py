"""Evaluate per-sample losses: backward pass, and variances of value and slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradline.torch.distributed.sharded import is_sharded
from gradline.torch.line import Line
from gradline.torch.measuring import LocalReduce
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.statistics import plain_mean_and_variance

SMALL = 2**12
"""Number of weights up to which calls take more time than arithmetic."""


@dataclass(frozen=True)
class PerSample:
    """Evaluates per-sample losses and the variances of value and slope over a mini-batch.

    `parameters` returns the parameters; `diagonal` and `allow_batch_norm` are as in [`PrLS`][gradline.PrLS].
    """

    parameters: Callable[[], list[Tensor]]
    diagonal: bool
    allow_batch_norm: bool

    def evaluate(self, losses: Any) -> Evaluated:
        """Clear the gradients and call `backward` on the mean of the losses."""
        parameters = self.parameters()
        moving = [parameter for parameter in parameters if parameter.requires_grad]
        evaluated = Evaluated(losses, moving, allow_batch_norm=self.allow_batch_norm)
        for parameter in parameters:
            parameter.grad = None
        evaluated.backward(variances=self.diagonal)
        return evaluated

    def value(self, evaluated: Evaluated, ranks: LocalReduce) -> tuple[float, float]:
        """Return the mean loss and its variance over the samples of all ranks."""
        with ranks.telling():
            mean, variance = plain_mean_and_variance(evaluated.losses)
        return ranks.pooled(len(evaluated.losses), mean, variance)

    def variance(self, evaluated: Evaluated, line: Line, *, steepest: bool = False) -> float:
        """Return the variance of the mean slope along a line; `steepest`: its direction is this negative gradient."""
        directions = line.directions_of(evaluated.parameters)
        if self.diagonal:
            return _diagonal(evaluated, directions)
        small = sum(direction.numel() for direction in directions) <= SMALL
        alone = line.ranks.size == 1 and steepest and not small and evaluated.undisturbed
        with line.ranks.telling():
            slopes = evaluated.own_slopes() if alone else evaluated.slopes(directions)
            mean, variance = plain_mean_and_variance(slopes)
        return line.ranks.pooled(len(slopes), mean, variance)[1]

    def check(self, ranks: LocalReduce) -> None:
        """Raise an error for settings that several processes do not support."""
        sharded = [parameter for parameter in self.parameters() if is_sharded(parameter)]
        if sharded:
            raise TypeError(
                f"params must be whole in each process for a search that observes variances (slopes of samples are "
                f"found from whole parameters), got a sharded one of shape {tuple(sharded[0].shape)}; use GOLSI there"
            )
        if self.diagonal and ranks.size > 1:
            raise ValueError(
                f"diagonal must be False in several processes (variances of components are of one process's samples), "
                f"got True and {ranks.size} processes"
            )


def _diagonal(evaluated: Evaluated, directions: list[Tensor]) -> float:
    """Return the diagonal variance; rescale the direction if its squares overflow or underflow."""
    variance = float(evaluated.diagonal(directions))
    if 0.0 < variance < math.inf:
        return variance
    size = max(float(direction.abs().max()) for direction in directions if direction.numel())
    if not 0.0 < size < math.inf:
        return variance
    return size * size * float(evaluated.diagonal([direction / size for direction in directions]))
