"""Probabilities of the normal distribution in one and two dimensions, computed on Python floats.

The bivariate normal comes from Owen's function T (Owen 1956): with a_h = (k - r h)/(h √(1-r²)) and a_k likewise,

    P(X ≤ h, Y ≤ k) = Φ(h)/2 + Φ(k)/2 - T(h, a_h) - T(k, a_k) - δ,

where δ = 0 if h and k have the same sign, else 1/2. The absolute error is about 1e-15, so that a much smaller
probability may be returned as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import cast

from gradline.installing import needs

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


def cdf(x: float) -> float:
    """Return Φ(x), with full relative accuracy in the left tail."""
    return 0.5 * math.erfc(-_ROOT_HALF * x)


def density(x: float) -> float:
    """Return the density φ(x)."""
    return _DENSITY * math.exp(-0.5 * x * x)


@cache
def _owens_t() -> Callable[[float, float], float]:
    # Imported at first use: SciPy takes longer to import than gradline. The Cython function takes and returns floats
    # and is eight times faster than the ufunc of the same name.
    with needs("the search Prls", "scipy"):
        from scipy.special.cython_special import owens_t

    return cast("Callable[[float, float], float]", owens_t)


def upper_quadrant(h: float, k: float, r: float) -> float:
    """Return P(X ≥ h, Y ≥ k) of two standard normal variables with correlation r.

    A correlation beyond ±1 counts as ±1. A NaN gives 1, as in the program of the published study, unless an
    infinite limit makes it irrelevant.
    """
    if h == math.inf or k == math.inf:
        return 0.0
    if h == -math.inf:
        return 1.0 if k == -math.inf else _or_one(cdf(-k))
    if k == -math.inf:
        return _or_one(cdf(-h))
    if not (h == h and k == k and r == r):
        return 1.0
    if r >= 1.0:
        return cdf(-max(h, k))
    if r <= -1.0:
        return max(0.0, cdf(-h) - cdf(k))
    owens_t = _owens_t()
    root = math.sqrt((1.0 - r) * (1.0 + r))
    if h == 0.0 or k == 0.0:  # where a_h or a_k is infinite, T and δ add up to this
        if h == k:
            return 0.25 + math.asin(r) / (2.0 * math.pi)
        other = h + k
        return 0.5 * cdf(-other) - owens_t(other, -r / root)
    # k - r h and h - r k without the cancellation that r near ±1 would bring.
    if r > 0.0:
        gap, rest = k - h, 1.0 - r
        k_given_h, h_given_k = gap + rest * h, rest * k - gap
    else:
        gap, rest = k + h, 1.0 + r
        k_given_h, h_given_k = gap - rest * h, gap - rest * k
    # P(X ≥ h, Y ≥ k) = P(X ≤ -h, Y ≤ -k), and neither T nor a ratio changes with both signs.
    total = 0.5 * (cdf(-h) + cdf(-k)) - owens_t(h, k_given_h / h / root) - owens_t(k, h_given_k / k / root)
    if (h < 0.0) != (k < 0.0):
        total -= 0.5
    return min(1.0, max(0.0, total))


def rectangle(xl: float, xu: float, yl: float, yu: float, r: float) -> float:
    """Return P(xl ≤ X ≤ xu, yl ≤ Y ≤ yu) of two standard normal variables with correlation r.

    Limits may be infinite. Limits in the wrong order give 0.

    ```python
    from gradline.searches.normal import rectangle

    assert abs(rectangle(0.0, float("inf"), 0.0, float("inf"), 0.5) - 1 / 3) < 1e-15
    ```
    """
    total = upper_quadrant(xl, yl, r) - upper_quadrant(xl, yu, r)
    if xu != math.inf:
        total += upper_quadrant(xu, yu, r) - upper_quadrant(xu, yl, r)
    return min(1.0, max(0.0, total))


def _or_one(p: float) -> float:
    return p if p == p else 1.0
