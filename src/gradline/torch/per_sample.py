"""Evaluations that show variances too: the closure returns per-sample losses, and the backward pass is made here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, distributed

from gradline.torch.line import Line
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.statistics import plain_mean_and_variance

SMALL = 2**12
"""Up to so many parameters it is calls that cost, not arithmetic."""


@dataclass(frozen=True)
class PerSample:
    """How the variance of a slope over a mini-batch is found.

    `parameters` tells which there are; `diagonal` and `allow_batch_norm` are those of
    [`Evaluated`][gradline.torch.moments.Evaluated].
    """

    parameters: Callable[[], list[Tensor]]
    diagonal: bool
    allow_batch_norm: bool

    def evaluate(self, losses: Any) -> Evaluated:
        """Go backward from the mean of the losses, whatever gradients there were before."""
        _alone()
        parameters = self.parameters()
        moving = [parameter for parameter in parameters if parameter.requires_grad]
        evaluated = Evaluated(losses, moving, allow_batch_norm=self.allow_batch_norm)
        for parameter in parameters:
            parameter.grad = None
        evaluated.backward(variances=self.diagonal)
        return evaluated

    def variance(self, evaluated: Evaluated, line: Line, *, steepest: bool = False) -> float:
        """The variance of the mean slope along a line; `steepest`: which goes along the gradient of this evaluation."""
        directions = line.directions_of(evaluated.parameters)
        if self.diagonal:
            return _diagonal(evaluated, directions)
        small = sum(direction.numel() for direction in directions) <= SMALL
        alone = steepest and not small and evaluated.undisturbed
        slopes = evaluated.own_slopes() if alone else evaluated.slopes(directions)
        return plain_mean_and_variance(slopes)[1]


def _diagonal(evaluated: Evaluated, directions: list[Tensor]) -> float:
    """The diagonal variance; along a direction of moderate size where its squares overflow or vanish."""
    variance = float(evaluated.diagonal(directions))
    if 0.0 < variance < math.inf:
        return variance
    size = max(float(direction.abs().max()) for direction in directions if direction.numel())
    if not 0.0 < size < math.inf:
        return variance
    return size * size * float(evaluated.diagonal([direction / size for direction in directions]))


def _alone() -> None:
    """Values and variances are of this process's samples: where gradients are averaged, they do not belong together."""
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise RuntimeError(
            f"a search that looks at variances must run in one process (values and variances are of this process's "
            f"samples alone, so processes would take different steps), but the process group has "
            f"{distributed.get_world_size()}; use GOLSI there"
        )
