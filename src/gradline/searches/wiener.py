"""Filters, in 2×2 blocks, of the once-integrated Wiener process observed through noisy values and slopes.

The state is x = (f, f'). Over a distance h it changes by

    x(t + h) = A x(t) + w,   A = [1 h; 0 1],   w ~ N(0, Q),   Q = [h³/3 h²/2; h²/2 h],

so it is Markov: the posterior at t combines the observations up to t (past) and those after t (future), each as two
means and a 2×2 covariance. The past is the distribution of x(t) given the observations up to t. The future is one
equivalent observation of x(t): mean u, covariance U. In reversed time (t and f' with the opposite sign) it follows the
same equations as the past, and is stored so. Both are stored with their determinants, because of

    (P⁻¹ + U⁻¹)⁻¹ = (|U| P + |P| U) / |P + U|,
    |P + U| = |P| + |U| + P₁₁U₂₂ + P₂₂U₁₁ - 2 P₁₂U₁₂,
    |A P Aᵀ + Q| = |P| + h⁴/12 + h (P₁₁ + h P₁₂ + h² P₂₂/3).

P₁₂ is never negative, and U₁₂ never positive, so that no cancellation occurs: variances have almost full relative
accuracy, even for observations without noise, where a Gram matrix is numerically singular.

The functions take and return tuples of floats for speed: a call takes about a microsecond.
"""

from __future__ import annotations

from typing import TypeAlias

Past: TypeAlias = tuple[float, float, float, float, float, float, float, float, float, float, float]
"""t, mean of f and f', P₁₁, P₁₂, P₂₂, |P|, and the covariances of (f, f') at 0 with (f, f') at t, row by row.

A future has its own numbers in reversed time in these places, and covariances of 0."""

Seen: TypeAlias = tuple[float, float, float, float, float]
"""t, value, slope, and the variances of these two."""

Joint: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]
"""Mean of f and f', their V_tt, V_tt', V_t't', and V_0t, V_0t', V_0't, V_0't'."""


def first_past(offset: float, seen: Seen) -> Past:
    """Return the past at 0 with the observation there; the process started at -offset with f = f' = 0."""
    p11, p12 = offset**3 / 3.0, offset**2 / 2.0
    return update((0.0, 0.0, 0.0, p11, p12, offset, offset**4 / 12.0, p11, p12, p12, offset), seen)


def predict(past: Past, t: float) -> Past:
    """Propagate the past to a later t, without an observation there."""
    at, m, d, p11, p12, p22, det, x11, x12, x21, x22 = past
    h = t - at
    hh = h * h
    hp = h * p22
    return (
        t,
        m + h * d,
        d,
        p11 + h * (2.0 * p12 + hp) + h * hh / 3.0,
        p12 + hp + 0.5 * hh,
        p22 + h,
        det + hh * hh / 12.0 + h * (p11 + h * (p12 + hp / 3.0)),
        x11 + h * x12,
        x12,
        x21 + h * x22,
        x22,
    )


def update(past: Past, seen: Seen) -> Past:
    """Update the past with an observation at its t."""
    t, m, d, p11, p12, p22, det, x11, x12, x21, x22 = past
    _, value, slope, r1, r2 = seen
    r12 = r1 * r2
    g1, g2 = det + p11 * r2, det + p22 * r1
    total = g1 + p22 * r1 + r12
    value -= m
    slope -= d
    # X S⁻¹ R, where S = P + R
    w11, w12, w21, w22 = r12 + p22 * r1, p12 * r2, p12 * r1, r12 + p11 * r2
    return (
        t,
        m + (g1 * value + w21 * slope) / total,
        d + (w12 * value + g2 * slope) / total,
        r1 * g1 / total,
        r12 * p12 / total,
        r2 * g2 / total,
        det * r12 / total,
        (x11 * w11 - x12 * w21) / total,
        (x12 * w22 - x11 * w12) / total,
        (x21 * w11 - x22 * w21) / total,
        (x22 * w22 - x21 * w12) / total,
    )


def mirrored(seen: Seen) -> Seen:
    """Return an observation as it is in reversed time, where slopes have the opposite sign."""
    t, value, slope, r1, r2 = seen
    return (-t, value, -slope, r1, r2)


def last_future(seen: Seen) -> Past:
    """Return the future at the last point, which is the observation there."""
    t, value, slope, r1, r2 = mirrored(seen)
    return (t, value, slope, r1, 0.0, r2, r1 * r2, 0.0, 0.0, 0.0, 0.0)


def smooth(past: Past, future: Past) -> Joint:
    """Return the posterior at one t from its past and its future."""
    _, m, d, p11, p12, p22, p_det, x11, x12, x21, x22 = past
    _, u, v, u11, u12, u22, u_det, _, _, _, _ = future
    u12 = -u12
    a, b, c = p11 * u22, p22 * u11, p12 * u12
    total = p_det + u_det + a + b - c - c
    u -= m
    v = -v - d
    # X S⁻¹ U, where S = P + U
    w11, w12, w21, w22 = u_det + b - c, p22 * u12 - p12 * u22, p11 * u12 - p12 * u11, u_det + a - c
    return (
        m + ((p_det + a - c) * u - w21 * v) / total,
        d + ((p_det + b - c) * v - w12 * u) / total,
        (u_det * p11 + p_det * u11) / total,
        (u_det * p12 + p_det * u12) / total,
        (u_det * p22 + p_det * u22) / total,
        (x11 * w11 + x12 * w21) / total,
        (x11 * w12 + x12 * w22) / total,
        (x21 * w11 + x22 * w21) / total,
        (x21 * w12 + x22 * w22) / total,
    )
