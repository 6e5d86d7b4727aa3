"""A zoo of one-dimensional functions: what a search may meet, from well-behaved to hopeless.

Each is seen as `Moments`, which drive every search: a slope, a value whose derivative is that slope, and variances.
The origin is always finite, because a search starts from a known slope; everything else may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from gradline.protocol import Moments

Curve: TypeAlias = Callable[[float], tuple[float, float]]
"""Step → slope and value."""

NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Function:
    """A function along a line, as a line search sees it.

    What is seen depends on the step and on the number of the evaluation (0 is the origin, 1 the first probe), and on
    nothing else: noise is a fixed sequence, so that the same questions always get the same answers.

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
        """A new evaluator for [`gradline.solve`][gradline.solve]: it counts its evaluations from the origin on."""
        evaluations = iter(range(2**62))
        return lambda step: self.at(step, next(evaluations))

    def __str__(self) -> str:
        return self.name


def smooth(curve: Curve, sigma: float = 0.0) -> Callable[[float, int], Moments]:
    """A function without noise, though its mini-batches may have variance."""

    def at(step: float, evaluation: int) -> Moments:
        slope, value = curve(step)
        return Moments(slope, value, sigma * sigma, sigma * sigma)

    return at


def noisy(curve: Curve, sigma: float, seed: int) -> Callable[[float, int], Moments]:
    """A function with another error at each evaluation, the origin included, always the same sequence of them."""

    def at(step: float, evaluation: int) -> Moments:
        slope, value = curve(step)
        draw = Random(1_000_003 * seed + evaluation)
        # Sums of uniform numbers: `random()` is the one generator whose sequence Python promises to keep.
        first, second = (sum(draw.random() for _ in range(12)) - 6.0 for _ in range(2))
        return Moments(slope + sigma * first, value + sigma * second, sigma * sigma, sigma * sigma)

    return at


def broken(
    at: Callable[[float, int], Moments], where: Callable[[float, int], bool], slope: float, value: float
) -> Callable[[float, int], Moments]:
    """A function that shows the given slope and value in some places, never at the origin."""

    def seen(step: float, evaluation: int) -> Moments:
        whole = at(step, evaluation)
        if evaluation == 0 or not where(step, evaluation):
            return whole
        return Moments(slope, value, whole.value_var, whole.slope_var)

    return seen


def quadratic(optimum: float, steepness: float = 1.0) -> Curve:
    """Slope -steepness at 0, and a minimum at the optimum."""
    return lambda step: (steepness * (step / optimum - 1.0), steepness * step * (step / (2.0 * optimum) - 1.0))


def kink(optimum: float, down: float, up: float) -> Curve:
    """Straight down to the optimum, straight up from there on."""
    return lambda step: (-down, -down * step) if step < optimum else (up, -down * optimum + up * (step - optimum))


def cubic_slope(a: float, b: float, c: float) -> Curve:
    """A slope that is -1 at 0 and changes its sign at three steps: two minima and a maximum between them."""
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
"""One of each kind, and some kinds over many scales."""
