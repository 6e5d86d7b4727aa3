"""The surrogate, against the plain Gram matrix, exact fractions and its own definition."""

import importlib.util
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradline.searches.normal import cdf, density, rectangle, upper_quadrant
from gradline.searches.surrogate import Belief, Surrogate, Wolfe, wolfe

spec = importlib.util.spec_from_file_location("prls_gram", Path(__file__).with_name("gram.py"))
gram = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gram)

NAN, INF = math.nan, math.inf
numbers = st.floats(-5.0, 5.0)
places = st.lists(st.integers(1, 400).map(lambda n: n / 20), min_size=0, max_size=7, unique=True)


@st.composite
def observed(draw, least=0):
    points = [0.0, *draw(places.filter(lambda points: len(points) >= least))]
    seen = [(point, draw(numbers), draw(numbers)) for point in points]
    noise = draw(st.floats(-3.0, 1.0)), draw(st.floats(-3.0, 1.0))
    return seen, 10.0 ** noise[0], 10.0 ** noise[1], draw(st.sampled_from([1.0, 10.0, 30.0]))


def build(seen, value_var, slope_var, tau=10.0):
    (_, value, slope), *rest = seen
    surrogate = Surrogate(value, slope, value_var=value_var, slope_var=slope_var, offset=tau)
    for point, value, slope in rest:
        surrogate.observe(point, value, slope)
    return surrogate


@settings(deadline=None)
@given(observed(), st.integers(0, 500).map(lambda n: n / 20 + 0.013))
def test_as_the_gram_matrix_says(problem, extra):
    surrogate, plain = build(*problem), gram.Gram(*problem)
    compare(surrogate, plain, [extra, *surrogate.points], 1e-9 + plain.rounding)


@settings(deadline=None, max_examples=20)
@given(observed(), st.integers(0, 500).map(lambda n: n / 32))
def test_as_exact_fractions_say(problem, extra):
    seen, *rest = problem
    seen = seen[:4]
    surrogate = build(seen, *rest)
    exact = gram.Gram([tuple(map(Fraction, one)) for one in seen], *map(Fraction, rest))
    compare(surrogate, exact, [extra, *surrogate.points], 1e-9)


def compare(surrogate, plain, points, atol):
    for point in points:
        belief = surrogate.at(point)
        assert belief.point == point
        t, zero = (Fraction(point), Fraction(0)) if isinstance(plain.tau, Fraction) else (point, 0.0)
        own, cross = plain.covariance(t, t), plain.covariance(zero, t)
        expected = [*plain.mean(t), own[0, 0], own[0, 1], own[1, 1], *cross.ravel()]
        np.testing.assert_allclose(belief[1:], [float(number) for number in expected], rtol=1e-9, atol=atol)


@pytest.mark.parametrize(
    "noise", [(0, 0), ("1e-24", "1e-12"), ("1e-4", "1e-12"), (1, "1e-20"), ("1e24", "1e-2"), (1, 1)]
)
@pytest.mark.parametrize(
    "points", [("1", "2", "4"), ("1", "2e-4"), ("1", "1e-6", "1e-3"), ("64", "0.01", "3", "2.999")]
)
def test_accurate_where_a_gram_matrix_is_not(noise, points):
    """Against exact fractions: variances to almost all digits, even 16 orders of magnitude below the prior's."""
    noise = [Fraction(float(number)) for number in noise]
    points = [Fraction(float(point)) for point in points]
    seen = [(Fraction(0), Fraction(0), Fraction(-1)), *((t, -t + t**2 / 3, -1 + 2 * t / 3) for t in points)]
    exact = gram.Gram(seen, *noise, Fraction(10))
    surrogate = build([tuple(map(float, one)) for one in seen], *map(float, noise))
    extra = [float(max(points)) * 1.5, float(points[0]) / 3, float(min(points)) / 7]
    for point in [*surrogate.points, *extra]:
        t = Fraction(point)
        belief, own, cross = surrogate.at(point), exact.covariance(t, t), exact.covariance(Fraction(0), t)
        assert list(belief[1:3]) == pytest.approx([float(m) for m in exact.mean(t)], rel=1e-7, abs=1e-10)
        assert belief.value_var == pytest.approx(float(own[0, 0]), rel=1e-12)
        assert belief.slope_var == pytest.approx(float(own[1, 1]), rel=1e-12)
        size = math.sqrt(belief.value_var * belief.slope_var)
        assert belief.covariance == pytest.approx(float(own[0, 1]), rel=1e-12, abs=1e-12 * size)
        zero = surrogate.at(0.0)
        for number, expected, there, here in zip(
            belief[6:],
            cross.ravel(),
            ("value_var",) * 2 + ("slope_var",) * 2,
            ("value_var", "slope_var") * 2,
            strict=True,
        ):
            size = math.sqrt(getattr(zero, there) * getattr(belief, here))
            assert number == pytest.approx(float(expected), rel=1e-9, abs=1e-9 * size)


@settings(deadline=None)
@given(observed(least=2), st.randoms(use_true_random=False))
def test_the_order_of_observations_does_not_matter(problem, random):
    seen, *rest = problem
    first, *others = seen
    shuffled = random.sample(others, len(others))
    one, two = build(seen, *rest), build([first, *shuffled], *rest)
    assert one.points == two.points == tuple(sorted(point for point, _, _ in seen))
    for left, right in zip(one.beliefs(), two.beliefs(), strict=True):
        assert left == pytest.approx(right, rel=1e-12, abs=1e-12)


@settings(deadline=None)
@given(observed(least=1))
def test_derivatives_belong_together(problem):
    surrogate = build(*problem)
    points = surrogate.points
    for left, right in pairwise(points):
        width = right - left
        for part in (0.3, 0.8):
            point, h = left + part * width, 1e-3 * width
            for order in (0, 1, 2):
                ahead, behind = surrogate.mean(point + h, order), surrogate.mean(point - h, order)
                scale = max(abs(surrogate.mean(point, k)) * width**k for k in range(4)) / width ** (order + 1)
                derivative = surrogate.mean(point, order + 1)
                assert (ahead - behind) / (2 * h) == pytest.approx(derivative, rel=1e-4, abs=1e-4 * scale + 1e-9)
    beyond = points[-1] + 3.0
    assert surrogate.mean(beyond, 2) == surrogate.mean(beyond, 3) == 0.0
    assert surrogate.mean(beyond, 1) == surrogate.mean(points[-1], 1)


@settings(deadline=None)
@given(observed(least=1))
def test_minima_are_minima(problem):
    surrogate = build(*problem)
    cells = list(pairwise(surrogate.points))
    minima = surrogate.minima()
    assert len(minima) == len(cells)
    for (left, right), minimum in zip(cells, minima, strict=True):
        scale = max(abs(surrogate.mean(left, k)) * (right - left) ** (k - 1) for k in (1, 2))
        slopes = [surrogate.mean(point, 1) for point in np.linspace(left, right, 41)]
        if minimum is None:
            changes = [a < -1e-9 * scale and b > 1e-9 * scale for a, b in pairwise(slopes)]
            assert not any(changes)
        else:
            assert left < minimum < right
            assert surrogate.mean(minimum, 1) == pytest.approx(0.0, abs=1e-6 * scale + 1e-9)
            assert surrogate.mean(minimum, 2) * (right - left) >= -1e-6 * scale


def test_a_cell_with_a_maximum_only_has_no_minimum():
    surrogate = build([(0.0, 0.0, 1.0), (2.0, 0.0, -1.0)], 1e-12, 1e-12)
    assert surrogate.minima() == [None]


def test_a_flat_cell_has_no_minimum():
    assert build([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], 1.0, 1.0).minima() == [None]


def test_a_parabola_has_its_minimum_where_it_should():
    (minimum,) = build([(0.0, 0.0, -1.0), (2.0, -0.0, 1.0)], 0.0, 0.0).minima()
    assert minimum == pytest.approx(1.0, abs=1e-12)


# ---- Wolfe probability and expected improvement


@settings(deadline=None, max_examples=30)
@given(observed(least=1), st.floats(0.05, 25.0))
def test_the_wolfe_conditions_are_those_of_the_joint_distribution(problem, point):
    """A and B as linear functions of (f_0, f'_0, f_t, f'_t), whose covariance comes from the Gram matrix."""
    surrogate, plain = build(*problem), gram.Gram(*problem)
    conditions = wolfe(surrogate.at(0.0), surrogate.at(point), 0.05, 0.5)
    linear = np.array([[1.0, 0.05 * point, -1.0, 0.0], [0.0, -0.5, 0.0, 1.0]])
    mean = linear @ np.concatenate([plain.mean(0.0), plain.mean(point)])
    blocks = [[plain.covariance(a, b) for b in (0.0, point)] for a in (0.0, point)]
    covariance = linear @ np.block(blocks) @ linear.T
    atol = 1e-9 + 30.0 * plain.rounding
    assert [conditions.a, conditions.b] == pytest.approx(list(mean), rel=1e-9, abs=atol)
    expected = [covariance[0, 0], covariance[1, 1], covariance[0, 1]]
    assert list(conditions[2:5]) == pytest.approx(expected, rel=1e-9, abs=atol)
    assert surrogate.wolfe_probability(point) == conditions.probability
    bound = abs(plain.mean(0.0)[1]) + 2.0 * math.sqrt(plain.covariance(0.0, 0.0)[1, 1])
    assert conditions.bound == pytest.approx(bound, rel=1e-6, abs=atol)


conditions = st.builds(
    Wolfe,
    *[st.floats(-3.0, 3.0)] * 2,
    *[st.sampled_from([-1.0, 0.0, 1e-12, 0.3, 2.0])] * 2,
    st.floats(-1.0, 1.0),
    st.floats(0.0, 5.0),
)


@given(conditions, st.floats(0.01, 0.99))
def test_exceeds_is_the_probability_compared(one, threshold):
    if one.a_var > 0.0 and one.b_var > 0.0:
        one = one._replace(covariance=one.covariance * 0.99 * math.sqrt(one.a_var * one.b_var))
    assert one.exceeds(threshold) == (one.probability > threshold)


def test_without_variance_the_means_decide():
    assert Wolfe(0.0, 0.0, 0.0, 1e-10, 0.0, 1.0).probability == 1.0
    assert Wolfe(0.1, 5.0, -1e-18, 1e-10, 0.0, 1.0).probability == 1.0, "as published: without the upper bound"
    assert Wolfe(-0.1, 0.5, 1e-10, 1e-10, 0.0, 1.0).probability == 0.0
    assert Wolfe(0.1, 0.5, 0.0, 1.0, 0.0, 1.0).probability == 0.0, "one without variance, one with: as published"


def test_expected_improvement_by_sampling():
    surrogate = build([(0.0, 0.0, -1.0), (1.0, -0.4, 0.3)], 0.01, 0.04)
    best = min(belief.mean for belief in surrogate.beliefs())
    for point in (0.4, 0.8, 2.0):
        belief = surrogate.at(point)
        draws = np.random.default_rng(0).normal(belief.mean, math.sqrt(belief.value_var), 400_000)
        gains = np.maximum(best - draws, 0.0)
        assert surrogate.expected_improvement(point) == pytest.approx(gains.mean(), abs=5 * gains.std() / 600)


def test_improvement_without_variance():
    belief = Belief(1.0, 2.0, *[0.0] * 8)
    assert belief.improvement(5.0) == 3.0
    assert belief.improvement(1.0) == 0.0


# ---- the normal distribution


def test_one_dimension():
    assert cdf(0.0) == 0.5
    assert cdf(-30.0) > 0.0
    assert density(0.0) == pytest.approx(1.0 / math.sqrt(2.0 * math.pi))


limits = st.one_of(st.floats(-6.0, 6.0), st.sampled_from([0.0, -0.0, INF, -INF, 1e-320]))
correlations = st.one_of(st.floats(-1.0, 1.0), st.sampled_from([1 - 1e-12, -1 + 1e-12, 1 - 1e-16, 0.0]))


@given(limits, limits, correlations)
def test_the_quadrants_add_up(h, k, r):
    assert upper_quadrant(h, k, r) + upper_quadrant(h, -k, -r) == pytest.approx(cdf(-h), abs=1e-14)
    assert upper_quadrant(h, k, r) == pytest.approx(upper_quadrant(k, h, r), abs=1e-15)


@settings(deadline=None, max_examples=40)
@given(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(1e-6, 4.0), st.floats(-0.99, 0.99))
def test_as_the_integral(xl, yl, width, r):
    from scipy.integrate import quad

    root = math.sqrt(1.0 - r * r)
    inner = lambda y: density(y) * cdf((r * y - xl) / root)
    expected, _ = quad(inner, yl, yl + width, epsabs=1e-13, epsrel=1e-12, limit=200)
    assert rectangle(xl, INF, yl, yl + width, r) == pytest.approx(expected, abs=1e-11)


# ---- what is refused


@pytest.mark.parametrize("name", ["value_var", "slope_var"])
@pytest.mark.parametrize("value", [-1e-300, NAN, -INF])
def test_a_variance_is_not_negative(name, value):
    with pytest.raises(ValueError) as caught:
        Surrogate(**{"value_var": 1.0, "slope_var": 1.0, name: value})
    assert str(caught.value) == f"{name} must be a number that is not negative (it is a variance), got {value!r}"


@pytest.mark.parametrize("offset", [0.0, -1.0, 1e7, NAN])
def test_an_offset_is_positive(offset):
    with pytest.raises(
        ValueError, match=r"offset must be above 0 and at most 1e6 \(the process starts this far back\)"
    ):
        Surrogate(value_var=1.0, slope_var=1.0, offset=offset)


@pytest.mark.parametrize("point", [0.0, -1.0, 2.0, INF, NAN])
def test_a_point_is_seen_once_and_after_the_origin(point):
    surrogate = build([(0.0, 0.0, -1.0), (2.0, 0.0, 1.0)], 1.0, 1.0)
    with pytest.raises(ValueError, match="point must be finite, after the origin and new"):
        surrogate.observe(point, 0.0, 0.0)
    assert surrogate.points == (0.0, 2.0)


@pytest.mark.parametrize("point", [-0.1, INF, NAN])
def test_nothing_is_known_before_the_origin(point):
    with pytest.raises(ValueError, match="point must be finite and not before the origin"):
        build([(0.0, 0.0, -1.0)], 1.0, 1.0).at(point)


def test_a_cubic_has_three_derivatives():
    with pytest.raises(ValueError, match="derivative must be 0, 1, 2 or 3"):
        build([(0.0, 0.0, -1.0)], 1.0, 1.0).mean(0.0, 4)


def test_infinite_noise_says_nothing():
    blind = build([(0.0, 5.0, -1.0), (1.0, 7.0, 2.0)], INF, INF)
    assert blind.at(0.0)[1:6] == pytest.approx([0.0, 0.0, 1000 / 3, 50.0, 10.0], rel=1e-15, abs=1e-50)
