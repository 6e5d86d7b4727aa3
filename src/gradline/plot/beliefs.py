"""The posterior of PrLS along the line, in the units of the function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradline.protocol import Moments, Origin, Transcript, Value
from gradline.searches import Prls, PrlsMemory
from gradline.searches.surrogate import Belief, Surrogate, wolfe

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior of PrLS's surrogate at some steps, after all probes."""

    steps: Array
    mean: Array
    """The expected value F(α)."""
    deviation: Array
    """The standard deviation of the value."""
    slope: Array
    """The expected slope F'(α)."""
    slope_deviation: Array
    """The standard deviation of the slope."""
    probability: Array
    """The probability of the Wolfe conditions."""

    def __getitem__(self, step: float) -> tuple[float, float, float]:
        """Return expected value, expected slope and Wolfe probability at one of the steps."""
        where = int(np.argmin(np.abs(self.steps - step)))
        return float(self.mean[where]), float(self.slope[where]), float(self.probability[where])


def beliefs_at(
    steps: Sequence[float], search: Prls, origin: Origin[Moments], memory: PrlsMemory, transcript: Transcript[Value]
) -> Beliefs | None:
    """Return the posterior of a search after the probes of a transcript; `None` if it has no surrogate."""
    try:
        surrogate = search.surrogate(origin, memory, transcript)
        if surrogate is None:
            return None
        zero = surrogate.at_seen(0)
        there = [_at(surrogate, step / memory[0]) for step in steps]
        chances = [wolfe(zero, one, search.decrease, search.curvature).probability for one in there]
    except (ZeroDivisionError, OverflowError):  # the surrogate is lost to rounding
        return None
    slope_unit = abs(origin.at_zero.slope)
    value_unit = slope_unit * memory[0]
    columns = np.array(
        [
            (
                step,
                origin.at_zero.value + value_unit * one.mean,
                value_unit * math.sqrt(max(one.value_var, 0.0)),
                slope_unit * one.slope,
                slope_unit * math.sqrt(max(one.slope_var, 0.0)),
                chance,
            )
            for step, one, chance in zip(steps, there, chances, strict=True)
        ]
    )
    return Beliefs(*columns.T) if np.isfinite(columns).all() else None


def _at(surrogate: Surrogate, point: float) -> Belief:
    """Return the posterior at a point, which is snapped to an observed point within rounding."""
    near = min(surrogate.points, key=lambda seen: abs(seen - point))
    return surrogate.at(near if abs(near - point) <= 1e-12 * point else point)
