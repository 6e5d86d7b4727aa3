"""The sensor of searches that need variances: it evaluates per-sample losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from gradline.protocol import Moments, Search, Slope, Value, observes_at_probes
from gradline.torch.distributed.sharded import is_sharded
from gradline.torch.line import Line
from gradline.torch.measuring import LocalReduce
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.statistics import plain_mean_and_variance
from gradline.torch.sensors import Evaluation, Sensor

SMALL = 2**12
"""Number of weights up to which calls take more time than arithmetic."""


class MomentsSensor(Sensor):
    """Measures slope and value with their variances over the samples of the mini-batch.

    The closure returns per-sample losses, and the optimizer makes the backward pass. The scalars of an evaluation are
    the mean loss and its variance. `diagonal` and `allow_batch_norm` are as in [`PrLS`][gradline.PrLS].
    """

    observation = Moments
    needs_loss = True
    per_sample = True

    def __init__(
        self,
        search: Search[Any, Any],
        parameters: Callable[[], list[Tensor]],
        *,
        diagonal: bool = False,
        allow_batch_norm: bool = False,
    ) -> None:
        super().__init__(search)
        self._parameters, self._diagonal, self._allow_batch_norm = parameters, diagonal, allow_batch_norm
        self._at_probes = observes_at_probes(search) is Moments

    def evaluate(self, losses: Any) -> Evaluated:
        parameters = self._parameters()
        moving = [parameter for parameter in parameters if parameter.requires_grad]
        evaluated = Evaluated(losses, moving, allow_batch_norm=self._allow_batch_norm)
        for parameter in parameters:
            parameter.grad = None
        evaluated.backward(variances=self._diagonal)
        return evaluated

    def value(self, samples: Evaluated, ranks: LocalReduce) -> tuple[float, ...]:
        with ranks.telling():
            mean, variance = plain_mean_and_variance(samples.losses)
        return ranks.pooled(len(samples.losses), mean, variance)

    def check(self, ranks: LocalReduce) -> None:
        sharded = [parameter for parameter in self._parameters() if is_sharded(parameter)]
        if sharded:
            raise TypeError(
                f"params must be whole in each process for a search that observes variances (slopes of samples are "
                f"found from whole parameters), got a sharded one of shape {tuple(sharded[0].shape)}; use GOLSI there"
            )
        if self._diagonal and ranks.size > 1:
            raise ValueError(
                f"diagonal must be False in several processes (variances of components are of one process's samples), "
                f"got True and {ranks.size} processes"
            )

    def at_origin(self, evaluation: Evaluation, slope: float, line: Line, *, steepest: bool) -> Slope:
        if not evaluation.scalars:  # a zero-gradient step without a closure primes checkpoints
            return Moments(slope, 0.0, 0.0, 0.0)
        value, variance = evaluation.scalars
        slope_var = math.inf
        if evaluation.finite and evaluation.samples is not None:
            slope_var = self._variance(evaluation.samples, line, steepest=steepest)
        return Moments(slope, value, variance, slope_var)

    def at_probe(self, evaluation: Evaluation, line: Line) -> Slope:
        if self._at_probes:
            return self.at_origin(evaluation, evaluation.slope, line, steepest=False)
        return Value(evaluation.slope, evaluation.scalars[0])

    def _variance(self, samples: Evaluated, line: Line, *, steepest: bool) -> float:
        """Return the variance of the mean slope along a line; `steepest`: its direction is this negative gradient."""
        directions = line.directions_of(samples.parameters)
        if self._diagonal:
            return _diagonal(samples, directions)
        small = sum(direction.numel() for direction in directions) <= SMALL
        alone = line.ranks.size == 1 and steepest and not small and samples.undisturbed
        with line.ranks.telling():
            slopes = samples.own_slopes() if alone else samples.slopes(directions)
            mean, variance = plain_mean_and_variance(slopes)
        return line.ranks.pooled(len(slopes), mean, variance)[1]


def _diagonal(evaluated: Evaluated, directions: list[Tensor]) -> float:
    """Return the diagonal variance; rescale the direction if its squares overflow or underflow."""
    variance = float(evaluated.diagonal(directions))
    if 0.0 < variance < math.inf:
        return variance
    size = max(float(direction.abs().max()) for direction in directions if direction.numel())
    if not 0.0 < size < math.inf:
        return variance
    return size * size * float(evaluated.diagonal([direction / size for direction in directions]))
