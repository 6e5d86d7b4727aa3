"""Scaling of one probabilistic line search, which makes it independent of the units of the function.

Steps are measured in α_0, slopes in β = |F'(0)| and values in α_0 β from F(0) on:

    t = α/α_0,   y = (F - F(0))/(α_0 β),   y' = F'/β,
    σ_f = √var F(0) / (α_0 β),   σ_f' = √var F'(0) / β.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gradline.protocol import Moments, Value
from gradline.searches.surrogate import Surrogate, require_variance

WALL = 1e3
"""Factor by which a non-finite value exceeds the value at the origin."""
HUGE = 1e100
"""Bound of scaled values and slopes, which keeps their squares and products finite."""


class Units(NamedTuple):
    """Units of step, value and slope of one search, and its variances in these units."""

    step: float
    """α_0."""
    value: float
    """α_0 β."""
    slope: float
    """β."""
    zero: Moments
    """The observation at the origin."""
    value_var: float
    """σ_f²."""
    slope_var: float
    """σ_f'²."""

    @classmethod
    def of(cls, zero: Moments, guess: float) -> Units | None:
        """Return the units of a search from this origin; `None` if its slope is too small to be a unit."""
        _require_variances(zero, "origin.at_zero")
        beta = abs(zero.slope)
        unit = guess * beta
        if not (unit > 0.0 and 1.0 / unit < math.inf):
            return None
        value_sigma, slope_sigma = math.sqrt(zero.value_var) / unit, math.sqrt(zero.slope_var) / beta
        value_var, slope_var = value_sigma * value_sigma, slope_sigma * slope_sigma
        if not (value_var < math.inf and slope_var < math.inf):
            return None
        return cls(guess, unit, beta, zero, value_var, slope_var)

    def surrogate(self, offset: float) -> Surrogate:
        """Return a surrogate that contains only the origin."""
        slope = math.copysign(1.0, self.zero.slope)
        return Surrogate(0.0, slope, value_var=self.value_var, slope_var=self.slope_var, offset=offset)

    def scaled(self, seen: Value) -> tuple[float, float] | None:
        """Return value and slope of a probe in these units; `None` if the surrogate cannot use them.

        A non-finite value counts as 1000 F(0) if F(0) is positive and the slope is finite. This is the published rule.
        """
        if seen.finite:
            if isinstance(seen, Moments):
                _require_variances(seen, "seen")
            return _within((seen.value - self.zero.value) / self.value), _within(seen.slope / self.slope)
        if self.zero.value > 0.0 and math.isfinite(seen.slope):
            wall = WALL * self.zero.value - self.zero.value
            return _within(wall / self.value), _within(seen.slope / self.slope)
        return None


def _within(number: float) -> float:
    return number if -HUGE < number < HUGE else math.copysign(HUGE, number)


def _require_variances(seen: Moments, name: str) -> None:
    if not (seen.value_var >= 0.0 and seen.slope_var >= 0.0):
        require_variance(f"{name}.value_var", seen.value_var)
        require_variance(f"{name}.slope_var", seen.slope_var)
