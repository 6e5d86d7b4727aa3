"""The surrogate of the probabilistic line search: a Gaussian process along the line (Mahsereci and Hennig 2017).

The prior is a once-integrated Wiener process that started τ before the origin with value and slope 0: with a' = a + τ,
b' = b + τ and m = min(a', b') its covariance is k(a, b) = m³/3 + |a - b| m²/2. Values and slopes are observed with
independent normal errors. The posterior mean is then a cubic spline: in each cell between two observed points it is the
Hermite cubic through mean and slope at both ends, and beyond the last point it is linear.

All numbers are in the units of the search (`Units`): with β = |F'(0)|, points t = α/α_0, values (F - F(0))/(α_0 β),
slopes F'/β.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from gradline.protocol import Moments, Value
from gradline.searches.arguments import require
from gradline.searches.normal import cdf, density, rectangle
from gradline.searches.wiener import (
    Past,
    Seen,
    first_past,
    last_future,
    mirrored,
    predict,
    smooth,
    update,
)

_NOTHING = 1e60
"""Upper bound of variances: such an observation has no effect, and the square does not overflow."""

WALL = 1e3
"""Factor by which a non-finite value exceeds the value at the origin."""

HUGE = 1e100
"""Bound of scaled values and slopes, which keeps their squares and products finite."""

_EXACT = 1e-9
"""Bound below which both variances of the Wolfe conditions count as zero."""


class Belief(NamedTuple):
    """Posterior means and covariances of value and slope at one point."""

    point: float
    mean: float
    """m(t), the expected value."""
    slope: float
    """m'(t), the expected slope."""
    value_var: float
    """V_tt, the variance of the value."""
    covariance: float
    """V_tt', the covariance of value and slope."""
    slope_var: float
    """V_t't', the variance of the slope."""
    v00: float
    """V_0t, the covariance of the value at the origin with the value here."""
    v01: float
    """V_0t', the covariance of the value at the origin with the slope here."""
    v10: float
    """V_0't, the covariance of the slope at the origin with the value here."""
    v11: float
    """V_0't', the covariance of the slope at the origin with the slope here."""

    def improvement(self, best: float) -> float:
        """Return the expected improvement E[max(h - f(t), 0)] over the value h = `best`.

        It is (h - m) Φ(z) + s φ(z) with s = √V_tt and z = (h - m)/s.
        """
        gain = best - self.mean
        if self.value_var <= 0.0:
            return max(gain, 0.0)
        deviation = math.sqrt(self.value_var)
        z = gain / deviation
        return gain * cdf(z) + deviation * density(z)


class Wolfe(NamedTuple):
    """The Wolfe conditions at one point as two normal variables A and B: they hold if A ≥ 0 and 0 ≤ B ≤ b̄.

    A = f(0) - f(t) + c1 t f'(0) and B = f'(t) - c2 f'(0). The bound b̄ = 2 c2 (|m'(0)| + 2 √V_0'0') makes them the
    strong Wolfe conditions.
    """

    a: float
    b: float
    a_var: float
    b_var: float
    covariance: float
    bound: float

    @property
    def probability(self) -> float:
        """P(A ≥ 0, 0 ≤ B ≤ b̄); 1 or 0 by the signs of the means if both variances are below 1e-9."""
        a, b, a_var, b_var, covariance, bound = self
        if a_var < _EXACT and b_var < _EXACT:
            return 1.0 if a >= 0.0 and b >= 0.0 else 0.0
        if not (a_var > 0.0 and b_var > 0.0):
            return 0.0
        x, y = math.sqrt(a_var), math.sqrt(b_var)
        return rectangle(-a / x, math.inf, -b / y, (bound - b) / y, covariance / (x * y))

    def exceeds(self, threshold: float) -> bool:
        """Return whether the probability is above the threshold; cheaper than computing `probability`.

        The bounds P(A) + P(B) - 1 ≤ P(A and B) ≤ min(P(A), P(B)) mostly decide.
        """
        a, b, a_var, b_var, _, bound = self
        if a_var > 0.0 and b_var > 0.0 and (a_var >= _EXACT or b_var >= _EXACT):
            of_a = cdf(a / math.sqrt(a_var))
            if of_a < threshold - 1e-9:
                return False
            y = math.sqrt(b_var)
            of_b = cdf(b / y) - cdf((b - bound) / y)
            if of_b < threshold - 1e-9:
                return False
            if of_a + of_b - 1.0 > threshold + 1e-9:
                return True
        return self.probability > threshold


def wolfe(origin: Belief, there: Belief, decrease: float, curvature: float) -> Wolfe:
    """Return the Wolfe conditions at a point, from the beliefs there and at the origin.

    With c1 = `decrease`, c2 = `curvature`, and V of a point with the origin as in `Belief`:

        V_aa = V_00 + (c1 t)² V_0'0' + V_tt + 2 [c1 t (V_00' - V_0't) - V_0t]
        V_bb = c2² V_0'0' - 2 c2 V_0't' + V_t't'
        V_ab = -c2 (V_00' + c1 t V_0'0') + V_0t' + c2 V_0't + c1 t V_0't' - V_tt'
    """
    _, m0, d0, v0, c0, w0, _, _, _, _ = origin
    t, m, d, v, c, w, v00, v01, v10, v11 = there
    reach = decrease * t
    return Wolfe(
        m0 - m + reach * d0,
        d - curvature * d0,
        v0 + reach * reach * w0 + v + 2.0 * (reach * (c0 - v10) - v00),
        curvature * (curvature * w0 - 2.0 * v11) + w,
        curvature * (v10 - c0 - reach * w0) + v01 + reach * v11 - c,
        2.0 * curvature * (abs(d0) + 2.0 * math.sqrt(w0)),
    )


class Surrogate:
    """Gaussian-process posterior of a function along a line, given noisy values and slopes.

    ```python
    from gradline.searches.surrogate import Surrogate

    surrogate = Surrogate(0.0, -1.0, value_var=1e-4, slope_var=1e-4)
    surrogate.observe(1.0, -0.4, 0.2)
    (bottom,) = surrogate.minima()
    assert 0.7 < bottom < 0.9
    assert abs(surrogate.at(bottom).slope) < 1e-12
    assert surrogate.wolfe_probability(bottom) > 0.9
    ```

    Args:
        value: the value observed at the origin.
        slope: the slope observed at the origin.
        value_var: the variance of every observed value.
        slope_var: the variance of every observed slope.
        offset: τ, distance from the start of the process to the origin.
    """

    def __init__(
        self, value: float = 0.0, slope: float = -1.0, *, value_var: float, slope_var: float, offset: float = 10.0
    ) -> None:
        _require_variances(value_var, slope_var)
        require(0.0 < offset <= 1e6, "offset", "above 0 and at most 1e6", "the process starts this far back", offset)
        self._value_var = min(value_var, _NOTHING)
        self._slope_var = min(slope_var, _NOTHING)
        origin = (0.0, value, slope, self._value_var, self._slope_var)
        self._points = [0.0]
        self._seen: list[Seen] = [origin]
        self._pasts: list[Past] = [first_past(offset, origin)]  # including the observation at the point itself
        self._futures: list[Past] = [last_future(origin)]  # likewise; the origin's is never used
        self._beliefs: list[Belief | None] = [None]

    @property
    def points(self) -> tuple[float, ...]:
        """The observed points in ascending order, beginning with the origin."""
        return tuple(self._points)

    def observe(self, point: float, value: float, slope: float) -> None:
        """Add the observation at a new point beyond the origin."""
        where = bisect_left(self._points, point)
        if not 0.0 < point < math.inf or (where < len(self._points) and self._points[where] == point):
            raise ValueError(f"point must be finite, after the origin and new (each is seen once), got {point!r}")
        seen = (point, value, slope, self._value_var, self._slope_var)
        points, observations, pasts, futures = self._points, self._seen, self._pasts, self._futures
        points.insert(where, point)
        observations.insert(where, seen)
        # Pasts before the new point and futures after it do not change.
        past = pasts[where - 1]
        del pasts[where:]
        for seen in observations[where:]:
            past = update(predict(past, seen[0]), seen)
            pasts.append(past)
        future = last_future(observations[-1]) if where == len(points) - 1 else futures[where]
        futures.insert(where, future)
        for index in range(min(where, len(points) - 2), 0, -1):
            seen = observations[index]
            futures[index] = future = update(predict(future, -seen[0]), mirrored(seen))
        self._beliefs = [None] * len(points)

    def at(self, point: float) -> Belief:
        """Return the posterior of value and slope at any point from the origin on."""
        where = bisect_left(self._points, point)
        if where < len(self._points) and self._points[where] == point:
            return self.at_seen(where)
        if not 0.0 < point < math.inf:
            raise ValueError(f"point must be finite and not before the origin (nothing is known there), got {point!r}")
        past = predict(self._pasts[where - 1], point)
        if where == len(self._points):
            return _alone(past)
        return Belief(point, *smooth(past, predict(self._futures[where], -point)))

    def at_seen(self, index: int) -> Belief:
        """Return the posterior at `points[index]`."""
        belief = self._beliefs[index]
        if belief is None:
            past = self._pasts[index]
            if index == len(self._points) - 1:
                belief = _alone(past)
            else:
                belief = Belief(past[0], *smooth(past, predict(self._futures[index + 1], -past[0])))
            self._beliefs[index] = belief
        return belief

    def beliefs(self) -> list[Belief]:
        """Return the posterior at each of `points`."""
        return [self.at_seen(index) for index in range(len(self._points))]

    def mean(self, point: float, derivative: int = 0) -> float:
        """Return the posterior mean at a point, or its first, second or third derivative.

        The third derivative is constant in each cell; at a point between two cells it is that of the left one.
        """
        if derivative not in (0, 1, 2, 3):
            raise ValueError(f"derivative must be 0, 1, 2 or 3 (the mean is a cubic in each cell), got {derivative!r}")
        if derivative < 2:
            return self.at(point)[1 + derivative]
        cell = max(bisect_left(self._points, point), 1) - 1
        if cell == len(self._points) - 1:
            return 0.0
        left, right = self.at_seen(cell), self.at_seen(cell + 1)
        second, third = _bend(left, right)
        return second + third * (point - left.point) if derivative == 2 else third

    def minima(self) -> list[float | None]:
        """Return for each cell, from left to right, the minimum of its cubic if it is strictly inside, else `None`."""
        beliefs = self.beliefs()
        return [_minimum(left, right) for left, right in pairwise(beliefs)]

    def expected_improvement(self, point: float) -> float:
        """Return the expected improvement at a point over the lowest mean at `points`."""
        return self.at(point).improvement(min(belief.mean for belief in self.beliefs()))

    def wolfe_probability(self, point: float, *, decrease: float = 0.05, curvature: float = 0.5) -> float:
        """Return the probability that a point satisfies the Wolfe conditions."""
        return wolfe(self.at_seen(0), self.at(point), decrease, curvature).probability


class Units(NamedTuple):
    """Units of step, value and slope of one search, and its variances in these units.

    They make a search independent of the units of its function: σ_f = √var F(0)/(α_0 β) and σ_f' = √var F'(0)/β.
    """

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
        _require_variances(zero.value_var, zero.slope_var, "origin.at_zero.")
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
                _require_variances(seen.value_var, seen.slope_var, "seen.")
            return _within((seen.value - self.zero.value) / self.value), _within(seen.slope / self.slope)
        if self.zero.value > 0.0 and math.isfinite(seen.slope):
            wall = WALL * self.zero.value - self.zero.value
            return _within(wall / self.value), _within(seen.slope / self.slope)
        return None


def _within(number: float) -> float:
    return number if -HUGE < number < HUGE else math.copysign(HUGE, number)


def _require_variances(value_var: float, slope_var: float, where: str = "") -> None:
    """Require two variances; zero and infinity are allowed."""
    for name, variance in (("value_var", value_var), ("slope_var", slope_var)):
        require(variance >= 0.0, f"{where}{name}", "a number that is not negative", "it is a variance", variance)


def _alone(past: Past) -> Belief:
    """Return the belief at a point with no later observations."""
    t, m, d, p11, p12, p22, _, x11, x12, x21, x22 = past
    return Belief(t, m, d, p11, p12, p22, x11, x12, x21, x22)


def _bend(left: Belief, right: Belief) -> tuple[float, float]:
    """Return the second derivative at the left end and the third derivative of the Hermite cubic of a cell."""
    width = right.point - left.point
    chord = (right.mean - left.mean) / width
    second = (6.0 * chord - 4.0 * left.slope - 2.0 * right.slope) / width
    third = 6.0 * (left.slope + right.slope - 2.0 * chord) / (width * width)
    return second, third


def _minimum(left: Belief, right: Belief) -> float | None:
    """Return where the derivative c + b x + a x² of a cell's cubic changes from - to +, if inside the cell."""
    b, third = _bend(left, right)
    a, c = 0.5 * third, left.slope
    square = b * b - 4.0 * a * c
    if not square >= 0.0:
        return None
    # The root with m'' > 0 is (-b + √)/(2a) = -2c/(b + √); use the form without cancellation.
    root = math.sqrt(square)
    if b >= 0.0:
        if b + root == 0.0:
            return None
        point = left.point - 2.0 * c / (b + root)
    else:
        if a == 0.0:
            return None
        point = left.point + (root - b) / (2.0 * a)
    return point if left.point < point < right.point else None
