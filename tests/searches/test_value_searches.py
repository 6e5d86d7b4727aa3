"""Armijo, golden section and strong Wolfe: the searches that compare values."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize._dcsrch import DCSRCH

from gradline import solve
from gradline.protocol import Origin, Pending, Stop, Value
from gradline.searches import Armijo, GoldenSection, StrongWolfe
from gradline.testing import check_decrease, check_strong_wolfe

NAN, INF = math.nan, math.inf
anything = settings(max_examples=150, deadline=None)


def quadratic(optimum, scale=1.0):
    return lambda step: Value(scale * (step / optimum - 1.0), scale * (step / optimum - 1.0) ** 2 * optimum / 2.0)


values = st.one_of(st.floats(-5, 5), st.sampled_from([0.0, NAN, INF, -INF]))
observations = st.lists(st.builds(Value, slope=values, value=values), min_size=1, max_size=30)


def tell(search, sequence, norm=1.0, guess=None):
    zero = Value(-1.0, 0.0)
    pending = Pending(search, Origin(zero, norm), search.start() if guess is None else guess)
    while pending.outcome is None:
        pending.tell(sequence[min(len(pending.transcript), len(sequence) - 1)])
    return pending.record


# ---- Armijo


@anything
@given(
    optimum=st.floats(1e-6, 1e5),
    guess=st.floats(1e-8, 1e6),
    decrease=st.sampled_from([0.1, 0.5, 1e-4]),
    shrink=st.sampled_from([0.9, 0.5]),
)
def test_armijo_holds_at_the_accepted_step_and_at_no_earlier_one(optimum, guess, decrease, shrink):
    record = solve(Armijo(decrease=decrease, shrink=shrink), quadratic(optimum), memory=guess)
    zero = record.origin.at_zero
    assert record.stop is Stop.DECREASE
    check_decrease(record, decrease)
    assert record.transcript[0][0] == guess * 1.1
    for (step, seen), (after, _) in pairwise(record.transcript):
        assert seen.value > zero.value + decrease * step * zero.slope
        assert after == step * shrink
    assert record.outcome.memory == record.step


@anything
@given(sequence=observations, budget=st.sampled_from([None, 1, 3]), guess=st.floats(1e-9, 1e9))
def test_armijo_on_anything(sequence, budget, guess):
    search = Armijo(max_probes=budget)
    record = tell(search, sequence, guess=guess)
    last, seen = record.transcript[-1]
    assert all(search.step_min <= step <= search.step_max for step, _ in record.transcript)
    assert record.evaluations <= (budget or 400)
    if record.stop is Stop.NON_FINITE:
        assert not seen.finite
        assert (record.outcome.probe, record.outcome.memory) == (None, guess)
        return
    assert (record.step, record.outcome.memory) == (last, last)
    if record.stop is Stop.DECREASE:
        check_decrease(record, search.decrease)
    elif record.stop is Stop.STEP_MIN:
        assert last == search.step_min
    else:
        assert record.stop is Stop.BUDGET
        assert record.evaluations == budget


def test_armijo_uphill_asks_for_no_increase():
    record = solve(Armijo(), lambda step: Value(1.0, -step))  # the slope at the start was a lie
    assert (record.step, record.stop) == (1.0, Stop.DECREASE)
    assert solve(Armijo(), lambda step: Value(1.0, 0.05 * step)).stop is Stop.STEP_MIN


def test_armijo_begins_a_little_above_the_previous_step():
    assert Armijo(step_first=1.0).start() * 1.1 == 1.0
    record = solve(Armijo(growth=2.0), quadratic(100.0), memory=8.0)
    assert record.transcript[0][0] == 16.0


# ---- golden section

UNIMODAL = {
    "parabola": lambda t: (t - 1.0) ** 2,
    "kink": lambda t: abs(t - 1.0),
    "steep on the right": lambda t: (t - 1.0) ** 2 if t < 1.0 else 50.0 * (t - 1.0),
    "steep on the left": lambda t: 50.0 * (1.0 - t) if t < 1.0 else (t - 1.0) ** 2,
    "logarithmic": lambda t: math.log(t) ** 2 if t > 0.0 else 1e9,
}


@anything
@given(
    optimum=st.floats(1e-6, 1e5),
    guess=st.floats(1e-8, 1e7),
    tolerance=st.sampled_from([1e-6, 1e-3, 1e-9]),
    shape=st.sampled_from(sorted(UNIMODAL)),
)
def test_golden_section_finds_the_minimum_within_the_tolerance(optimum, guess, tolerance, shape):
    value = UNIMODAL[shape]
    search = GoldenSection(tolerance=tolerance)
    sloped = lambda step: Value(math.copysign(1.0, step - optimum), value(step / optimum))
    record = solve(search, sloped, norm=0.0, memory=guess)
    assert record.stop is Stop.TOLERANCE
    assert record.step == pytest.approx(optimum, rel=1.01 * tolerance)
    # At most the whole range to find a bracket, and then each probe makes it smaller by the golden ratio.
    assert record.evaluations <= 5 + (math.log(1e15) - math.log(tolerance)) / math.log((1 + math.sqrt(5)) / 2)
    assert record.transcript[record.outcome.probe][1].value == min(seen.value for _, seen in record.transcript)


def test_golden_section_looks_before_the_largest_step_if_it_is_uphill_there():
    parabola = lambda step: Value(2.0 * (step - 0.7), (step - 0.7) ** 2)
    assert solve(GoldenSection(), parabola, norm=1.0).step == pytest.approx(0.7, rel=1e-6)
    assert solve(GoldenSection(), parabola, norm=2.0).stop is Stop.STEP_MAX


@anything
@given(
    sequence=observations,
    budget=st.sampled_from([None, 1, 2, 10]),
    norm=st.sampled_from([0.0, 1.0, 1e9]),
    guess=st.floats(1e-9, 1e9),
)
def test_golden_section_on_anything(sequence, budget, norm, guess):
    search = GoldenSection(max_probes=budget)
    record = tell(search, sequence, norm, guess)
    top = max(min(1.0 / norm, 1e7) if norm else 1e7, 1e-8)
    assert all(0.0 < step <= top for step, _ in record.transcript)
    assert record.evaluations <= (budget or 300)
    finite = [seen.value for _, seen in record.transcript if seen.finite]
    if record.stop is Stop.NON_FINITE:
        assert not finite
        assert (record.outcome.probe, record.outcome.memory) == (None, guess)
    else:
        assert record.transcript[record.outcome.probe][1].value == min(finite)


def test_golden_section_ends_at_the_bounds():
    downhill = solve(GoldenSection(), lambda step: Value(-1.0, -step), norm=0.1)
    assert (downhill.step, downhill.stop) == (10.0, Stop.STEP_MAX)
    uphill = solve(GoldenSection(), lambda step: Value(-1.0, step))
    assert (uphill.step, uphill.stop) == (1e-8, Stop.STEP_MIN)


# ---- strong Wolfe

SMOOTH = {
    "parabola": (lambda a: (a - 3.0) ** 2 / 2.0, lambda a: a - 3.0),
    "quartic": (lambda a: (a - 3.0) ** 4, lambda a: 4.0 * (a - 3.0) ** 3),
    "Moré and Thuente 1": (lambda a: -a / (a * a + 2.0), lambda a: (a * a - 2.0) / (a * a + 2.0) ** 2),
    "Moré and Thuente 2": (
        lambda a: (a + 0.004) ** 5 - 2.0 * (a + 0.004) ** 4,
        lambda a: 5.0 * (a + 0.004) ** 4 - 8.0 * (a + 0.004) ** 3,
    ),
    "exponential": (lambda a: math.exp(min(a, 600.0)) - 20.0 * a, lambda a: math.exp(min(a, 600.0)) - 20.0),
    "waves": (lambda a: (a - 3.0) ** 2 / 2.0 + math.cos(5 * a), lambda a: a - 3.0 - 5.0 * math.sin(5 * a)),
    "always downhill": (lambda a: -a, lambda a: -1.0),
}
BOUNDED = sorted(set(SMOOTH) - {"always downhill"})
wolfe = {"decrease": st.sampled_from([1e-4, 0.01, 0.1]), "curvature": st.sampled_from([0.9, 0.4, 0.11])}


@anything
@given(name=st.sampled_from(BOUNDED), guess=st.floats(1e-5, 1e4), **wolfe)
def test_both_conditions_hold_at_the_accepted_step(name, guess, decrease, curvature):
    value, slope = SMOOTH[name]
    search = StrongWolfe(decrease=decrease, curvature=curvature)
    record = solve(search, lambda a: Value(slope(a), value(a)), memory=guess)
    if record.stop is Stop.STRONG_WOLFE:
        check_strong_wolfe(record, decrease, curvature)
        assert record.outcome.memory == record.step
    else:
        assert name == "waves", f"{name} has steps that satisfy both, but none was found: {record}"


@anything
@given(name=st.sampled_from(sorted(SMOOTH)), guess=st.floats(1e-5, 1e4), **wolfe)
def test_it_asks_for_the_same_steps_as_scipy(name, guess, decrease, curvature):
    value, slope = SMOOTH[name]
    asked = []
    scipy_search = DCSRCH(lambda a: asked.append(float(a)) or value(a), slope, decrease, curvature, 1e-14, 1e-8, 1e7)
    with np.errstate(all="ignore"):
        step, *_, task = scipy_search(guess, phi0=value(0.0), derphi0=slope(0.0), maxiter=1000)
    search = StrongWolfe(decrease=decrease, curvature=curvature, max_probes=None)
    record = solve(search, lambda a: Value(slope(a), value(a)), memory=guess)
    assert [step for step, _ in record.transcript] == asked
    assert (record.stop is Stop.STRONG_WOLFE) == (task[:4] == b"CONV")
    if step is not None:
        assert record.step == step


@anything
@given(sequence=observations, budget=st.sampled_from([None, 1, 4, 100]), guess=st.floats(1e-9, 1e9))
def test_strong_wolfe_on_anything(sequence, budget, guess):
    search = StrongWolfe(max_probes=budget)
    record = tell(search, sequence, guess=guess)
    assert all(search.step_min <= step <= search.step_max for step, _ in record.transcript)
    assert record.evaluations <= (budget or 500)
    for probe, (step, seen) in enumerate(record.transcript):
        if not seen.finite:
            assert all(later <= step / 2.0 for later, _ in record.transcript[probe + 1 :])
    if record.outcome.probe is None:
        assert record.outcome.memory == guess
        assert record.stop in (Stop.NON_FINITE, Stop.NO_PROGRESS)
    else:
        assert record.outcome.memory == record.step
        if record.stop is Stop.STRONG_WOLFE:
            check_strong_wolfe(record, search.decrease, search.curvature)
        else:  # the best there was, better than the origin
            accepted = record.transcript[record.outcome.probe][1].value
            assert accepted == min(seen.value for _, seen in record.transcript if seen.finite)
            assert accepted < 0.0


def test_uphill_nothing_is_probed():
    for slope in (0.0, 1.0):
        record = solve(StrongWolfe(), lambda step: Value(slope, 0.0), memory=0.5)
        assert (record.step, record.stop, record.evaluations) == (0.0, Stop.UPHILL, 0)
        assert record.outcome.memory == 0.5


def test_it_backs_off_from_non_finite_steps():
    record = solve(StrongWolfe(), lambda a: Value(a - 3.0, (a - 3.0) ** 2 / 2.0 if a < 5.0 else INF), memory=1000.0)
    assert record.stop is Stop.STRONG_WOLFE
    assert record.step < 5.0
    cliff = solve(StrongWolfe(), lambda a: Value(-1.0, -a if a <= 0.6 else NAN), memory=1.0)
    assert [step for step, _ in cliff.transcript] == [1.0, 0.5], "half the step to nowhere is the largest from then on"
    assert (cliff.step, cliff.stop) == (0.5, Stop.STEP_MAX)
    nowhere = solve(StrongWolfe(), lambda a: Value(-1.0, NAN if a else 0.0))
    assert (nowhere.step, nowhere.outcome.probe, nowhere.stop) == (0.0, None, Stop.NON_FINITE)


def test_strong_wolfe_takes_its_best_step_where_no_further_one_is_finite():
    seen = {0.0: Value(-1.0, 0.0), 1.0: Value(5.0, -1e-5)}
    outcome, _ = solve(StrongWolfe(), lambda step: seen.get(step, Value(math.nan, math.nan)))
    assert (outcome.step, outcome.probe, outcome.stop) == (1.0, 0, Stop.NO_PROGRESS)


def test_strong_wolfe_judges_its_last_probe():
    record = solve(StrongWolfe(max_probes=1), lambda step: Value(step - 1.0, (step - 1.0) ** 2 / 2))
    assert (record.stop, record.evaluations) == (Stop.STRONG_WOLFE, 1)


@pytest.mark.parametrize("budget", [3, None])
def test_strong_wolfe_says_that_nothing_was_finite_when_its_budget_is_spent_too(budget):
    record = solve(StrongWolfe(max_probes=budget), lambda step: Value(-1.0, 0.0 if step == 0.0 else math.inf))
    assert record.stop is Stop.NON_FINITE
    assert record.step == 0.0
