"""Evaluations that show variances too: the closure returns per-sample losses, and the backward pass is made here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradline.torch.line import Line
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.statistics import mean_and_variance


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
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        evaluated = Evaluated(losses, parameters, allow_batch_norm=self.allow_batch_norm)
        for parameter in parameters:
            parameter.grad = None
        evaluated.backward(variances=self.diagonal)
        return evaluated

    def variance(self, evaluated: Evaluated, line: Line, *, steepest: bool = False) -> float:
        """The variance of the mean slope along a line; `steepest`: which goes along the gradient of this evaluation."""
        directions = line.directions_of(evaluated.parameters)
        if self.diagonal:
            return float(evaluated.diagonal(directions))
        alone = steepest and evaluated.undisturbed
        slopes = evaluated.own_slopes() if alone else evaluated.slopes(directions)
        return float(mean_and_variance(slopes)[1])
