"""The paper's two theorems of convergence, on functions that meet their assumptions.

Steepest descent by GOLS-I, in NumPy: first with the full batch, then with a new mini-batch at each evaluation.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradline.protocol import Origin, Pending, Slope
from gradline.searches import GolsI


def descend(search, gradient, x, iterations):
    """Steepest descent by a gradient that may depend on the direction of the search, too.

    The gradient at the accepted step is the next iteration's: it costs no evaluation.
    """
    memory, g = search.start(), gradient(x, np.zeros_like(x))
    for _ in range(iterations):
        norm = float(np.linalg.norm(g))
        if norm == 0.0:
            return
        pending = Pending(search, Origin(Slope(-norm * norm), norm), memory)
        while pending.outcome is None:
            g_next = gradient(x - pending.step * g, -g)
            pending.tell(Slope(float(-g @ g_next)))
        x, g, memory = x - pending.outcome.step * g, g_next, pending.outcome.memory
        yield x, g


# ---- the full batch: a smooth coercive function with one minimum

CURVATURES = np.array([1.0, 2.0, 5.0, 10.0, 30.0])
SMOOTH = {
    "quadratic": lambda x: CURVATURES * x,
    "quartic and quadratic": lambda x: CURVATURES * x + x**3,
    "almost linear far away": lambda x: CURVATURES * np.tanh(x) + 0.1 * x,
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("search", [GolsI(), GolsI(growth=1.5, overshoot=0.3), GolsI(strict=True)], ids=repr)
def test_the_full_batch_gradient_vanishes_from_anywhere(name, search):
    """Theorem 1: updates at sign changes of the slope converge to the minimum from every start."""
    gradient = SMOOTH[name]
    for seed in range(5):
        start = np.random.default_rng(seed).normal(size=5) * 10.0 ** (seed - 2)
        path = list(descend(search, lambda x, along: gradient(x), start, 1000))
        first, last = np.linalg.norm(gradient(start)), np.linalg.norm(path[-1][1])
        assert last <= 1e-6 * min(1.0, first), f"from {start}: the gradient went from {first} to {last}"
        assert np.linalg.norm(path[-1][0]) <= 1e-5


# ---- a new mini-batch at each evaluation
#
# The samples are ‖x - m_i‖²/2, so a mini-batch b has its minimum at the mean m_b of its samples, and all of these lie
# within R of their common mean x*. One iteration goes from x, with error e = x - x*, along the unit vector
# u = (m_b - x)/‖m_b - x‖ by a distance t. The slope of any mini-batch b' at t has the sign of t - u·(m_b' - x), so with
# a = -u·e it is surely positive beyond P ≤ R + a. Each way a search can end bounds t:
#
# * grown to a sign change: one factor before, the slope was negative, so t ≤ ηP;
# * accepted at once: ‖m_b - x‖ (t - u·(m_b' - x)) < c2 ‖m_b - x‖², so t < (1 + c2) P;
# * the slope at the accepted step is negative: t < P;
# * the smallest step (times at most η): next to nothing.
#
# So t ≤ κ(R + a) with κ = max(η, 1 + c2). With k = κ/(2 - κ), which needs κ < 2, ‖e + t u‖² = ‖e‖² + t (t - 2a) gives
#
# * no growth of ‖e‖ where a ≥ kR, and that is so where ‖e‖² ≥ R² (1 + k²), because a ≥ √(‖e‖² - R²);
# * growth of ‖e‖² by at most k R² anywhere (the largest over a of (κR + (κ-1)a)² - a²).
#
# Hence the ball of radius ρ = R √(1 + k + k²) is never left, whatever mini-batches are drawn; and outside of it there
# is progress in every iteration, so it is entered. With the paper's η = 2, κ = 2 and the worst case is just unbounded.

SAMPLES = np.random.default_rng(0).normal(size=(6, 3))
CENTRE = SAMPLES.mean(axis=0)
OPTIMA = np.array([SAMPLES[list(batch)].mean(axis=0) for batch in combinations(range(6), 2)])
RADIUS = float(max(np.linalg.norm(OPTIMA - CENTRE, axis=1)))


def ball(search):
    kappa = max(search.growth, 1.0 + search.overshoot)
    k = kappa / (2.0 - kappa)
    return RADIUS * (1.0 + k + k * k) ** 0.5


@settings(max_examples=40, deadline=None)
@given(
    search=st.sampled_from([GolsI(growth=1.5, overshoot=0.5), GolsI(growth=1.2, overshoot=0.2)]),
    seed=st.integers(0, 2**32),
    distance=st.sampled_from([0.0, 1.0, 30.0]),
)
def test_dynamic_mini_batches_enter_the_ball_and_stay(search, seed, distance):
    """Theorem 2: iterates converge to a ball around the expected minimum, which holds all mini-batch minima."""
    draw = np.random.default_rng(seed)
    start = CENTRE + draw.normal(size=3) * distance

    def gradient(x, along):
        return x - OPTIMA[draw.integers(len(OPTIMA))]

    errors = [float(np.linalg.norm(x - CENTRE)) for x, _ in descend(search, gradient, start, 300)]
    rho = ball(search) + 1e-6  # the smallest steps
    inside = [error <= rho for error in errors]
    assert any(inside), f"never within {rho}: the errors end at {errors[-1]}"
    entered = inside.index(True)
    assert all(inside[entered:]), f"left the ball of radius {rho}: {max(errors[entered:])}"
    for before, after in pairwise(errors):
        if before > rho:
            assert after <= before + 1e-6, f"outside the ball the error grew from {before} to {after}"


def test_an_adversary_cannot_drive_it_out_of_the_ball():
    """The bound is on the worst case, so it holds for mini-batches chosen to push the iterates outwards, too."""
    search = GolsI(growth=1.5, overshoot=0.5)

    def pushing(x, along):
        """The gradient of the mini-batch whose minimum is the farthest along the line: uphill comes last for it."""
        return x - OPTIMA[int(np.argmax(OPTIMA @ along))]

    errors = [np.linalg.norm(x - CENTRE) for x, _ in descend(search, pushing, CENTRE, 2000)]
    assert max(errors) <= ball(search) + 1e-6
    assert max(errors) > RADIUS, "an adversary that gets nowhere tests nothing"
