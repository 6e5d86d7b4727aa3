"""A collection of one-dimensional test functions, from smooth to non-finite.

Each evaluates to `Moments`: a slope, a value whose derivative is that slope, and variances. The origin is always
finite; other points may be non-finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from gradline.protocol import Moments

Curve: TypeAlias = Callable[[float], tuple[float, float]]
"""Maps a step to slope and value."""

NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Function:
    """A test function along a line.

    Observations depend only on the step and the index of the evaluation (0 is the origin, 1 the first probe): noise is
    a fixed sequence, so that equal evaluations give equal observations.

    ```python
    from gradline import solve
    from gradline.searches import GolsI
    from gradline.testing import ZOO

    (cubic,) = [function for function in ZOO if function.name == "cubic with three roots"]
    assert solve(GolsI(), cubic.phi(), norm=cubic.norm).step == 0.01048576
    ```
    """

    name: str
    at: Callable[[float, int], Moments]
    norm: float = 1.0

    def phi(self) -> Callable[[float], Moments]:
        """Return a new evaluator for [`gradline.solve`][gradline.solve], whose first call must be the origin."""
        evaluations = iter(range(2**62))
        return lambda step: self.at(step, next(evaluations))

    def __str__(self) -> str:
        return self.name


def smooth(curve: Curve, sigma: float = 0.0) -> Callable[[float, int], Moments]:
    """Return a function without noise that reports variances of sigma²."""

    def at(step: float, evaluation: int) -> Moments:
        slope, value = curve(step)
        return Moments(slope, value, sigma * sigma, sigma * sigma)

    return at


def noisy(curve: Curve, sigma: float, seed: int) -> Callable[[float, int], Moments]:
    """Return a function with a fixed sequence of errors of deviation sigma, one per evaluation."""

    def at(step: float, evaluation: int) -> Moments:
        slope, value = curve(step)
        draw = Random(1_000_003 * seed + evaluation)
        # Sums of uniform numbers: only the sequence of `random()` is guaranteed by Python.
        first, second = (sum(draw.random() for _ in range(12)) - 6.0 for _ in range(2))
        return Moments(slope + sigma * first, value + sigma * second, sigma * sigma, sigma * sigma)

    return at


def broken(
    at: Callable[[float, int], Moments], where: Callable[[float, int], bool], slope: float, value: float
) -> Callable[[float, int], Moments]:
    """Return a function with the given slope and value where `where` is true, except at the origin."""

    def seen(step: float, evaluation: int) -> Moments:
        whole = at(step, evaluation)
        if evaluation == 0 or not where(step, evaluation):
            return whole
        return Moments(slope, value, whole.value_var, whole.slope_var)

    return seen


def quadratic(optimum: float, steepness: float = 1.0) -> Curve:
    """Return a quadratic with slope -steepness at 0 and its minimum at the optimum."""
    return lambda step: (steepness * (step / optimum - 1.0), steepness * step * (step / (2.0 * optimum) - 1.0))


def kink(optimum: float, down: float, up: float) -> Curve:
    """Return a piecewise linear function with slope -down before the optimum and up after it."""
    return lambda step: (-down, -down * step) if step < optimum else (up, -down * optimum + up * (step - optimum))


def cubic_slope(a: float, b: float, c: float) -> Curve:
    """Return a quartic with slope -1 at 0, minima at a and c and a maximum at b."""
    one, two, three = a + b + c, a * b + b * c + c * a, a * b * c

    def curve(step: float) -> tuple[float, float]:
        slope = (step - a) * (step - b) * (step - c) / three
        value = step * (step * (step * (step / 4.0 - one / 3.0) + two / 2.0) - three) / three
        return slope, value

    return curve


_BOWL = smooth(quadratic(0.03), 0.01)


def _beyond(point: float) -> Callable[[float, int], bool]:
    return lambda step, evaluation: step > point


def _at(*evaluations: int) -> Callable[[float, int], bool]:
    return lambda step, evaluation: evaluation in evaluations


ZOO: tuple[Function, ...] = (
    *(Function(f"quadratic with optimum 1e{k}", smooth(quadratic(10.0**k), 0.01), 1e-7) for k in range(-9, 9)),
    *(Function(f"quadratic of steepness 1e{k}", smooth(quadratic(0.3, 10.0**k)), 1.0) for k in (-150, -12, 12, 150)),
    *(Function(f"quadratic along a direction of length 1e{k}", smooth(quadratic(0.3)), 10.0**k) for k in (-12, 3, 12)),
    Function("always downhill", smooth(lambda step: (-1.0, -step))),
    Function("always uphill after the origin", smooth(kink(5e-324, 1.0, 5.0))),
    Function("uphill from the origin on", smooth(lambda step: (1.0, step))),
    Function("flat", smooth(lambda step: (0.0, 1.0))),
    Function("flat along a direction of length zero", smooth(lambda step: (0.0, 0.0)), 0.0),
    Function("kink at a minimum", smooth(kink(0.1, 1.0, 2.0), 0.1)),
    Function("cubic with three roots", smooth(cubic_slope(0.01, 0.02, 0.3), 0.01)),
    *(
        Function(f"noisy quadratic, deviation {sigma}, seed {seed}", noisy(quadratic(0.3), sigma, seed), 0.25)
        for sigma in (0.05, 0.5, 5.0)
        for seed in (1, 2)
    ),
    Function("nothing but noise", noisy(lambda step: (0.0, 0.0), 1.0, 3), 1e-7),
    Function("NaN beyond a step", broken(_BOWL, _beyond(0.01), NAN, NAN)),
    Function("+inf beyond a step", broken(_BOWL, _beyond(0.01), INF, INF)),
    Function("-inf beyond a step", broken(_BOWL, _beyond(0.01), -INF, -INF)),
    Function("a value of NaN beyond a step", broken(_BOWL, _beyond(0.01), -1.0, NAN)),
    Function("a slope of NaN beyond a step", broken(_BOWL, _beyond(0.01), NAN, -1.0)),
    Function("NaN between two steps", broken(_BOWL, lambda step, _: 1e-4 < step < 0.02, NAN, NAN)),
    Function("NaN once, at the first probe", broken(_BOWL, _at(1), NAN, NAN)),
    Function("NaN once, at the third probe", broken(_BOWL, _at(3), NAN, NAN)),
    Function("NaN at every second probe", broken(_BOWL, lambda _, evaluation: evaluation % 2 == 0, NAN, NAN)),
    Function("NaN everywhere", broken(_BOWL, _beyond(-1.0), NAN, NAN)),
    Function("+inf everywhere", broken(_BOWL, _beyond(-1.0), INF, INF)),
    Function("-inf everywhere", broken(_BOWL, _beyond(-1.0), -INF, -INF)),
)
"""The test functions: one of each kind, and some kinds over many scales."""
