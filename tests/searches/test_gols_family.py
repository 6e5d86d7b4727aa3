"""GOLS-B, GOLS-Back, GOLS-Max and the fixed step."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradline import solve
from gradline.protocol import Origin, Pending, Slope, Stop
from gradline.searches import Fixed, GolsB, GolsBack, GolsMax

NAN, INF = math.nan, math.inf
anything = settings(max_examples=200, deadline=None)

slopes = st.one_of(st.floats(-2, 2), st.sampled_from([0.0, -1.0, 0.9, 1.0, NAN, INF, -INF]))
runs = st.tuples(st.integers(1, 60), slopes).map(lambda run: [run[1]] * run[0])
sequences = st.lists(runs, min_size=1, max_size=5).map(lambda parts: [slope for part in parts for slope in part])
norms = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))
budgets = st.sampled_from([None, 1, 2, 5, 20])


def tell(search, sequence, norm=1.0, guess=None, slope_0=-1.0):
    pending = Pending(search, Origin(Slope(slope_0), norm), search.start() if guess is None else guess)
    while pending.outcome is None:
        pending.tell(Slope(sequence[min(len(pending.transcript), len(sequence) - 1)]))
    return pending.record


def steps_of(record):
    return [step for step, _ in record.transcript]


def counted(seen):
    return seen.slope if seen.finite else INF


def largest(search, norm):
    return max(min(1.0 / norm, search.step_max) if norm else search.step_max, search.step_min)


# ---- GOLS-B


@anything
@given(optimum=st.floats(2e-8, 0.9e7), tolerance=st.sampled_from([1e-12, 1e-6, 1e-14, 0.1]))
def test_bisection_finds_the_sign_change_within_the_tolerance(optimum, tolerance):
    record = solve(GolsB(tolerance=tolerance), lambda step: step / optimum - 1.0, norm=0.0)
    assert record.stop is Stop.TOLERANCE
    # The accepted step is an end of the last bracket, and the optimum is within it.
    assert abs(record.step - optimum) <= tolerance * max(record.step, optimum) * (1.0 + 1e-9) / (1.0 - tolerance)


@anything
@given(sequence=sequences, norm=norms, budget=budgets)
def test_bisection_on_any_slopes(sequence, norm, budget):
    search = GolsB(max_probes=budget)
    record = tell(search, sequence, norm)
    told, stop = record.transcript, record.stop
    assert all(search.step_min <= step <= largest(search, norm) for step, _ in told)
    assert record.evaluations <= (budget or 130)
    low = max((step for step, seen in told if counted(seen) < 0.0), default=0.0)
    high = min((step for step, seen in told if counted(seen) >= 0.0), default=INF)
    accepted = None if record.outcome.probe is None else told[record.outcome.probe][1]
    if stop is Stop.NON_FINITE:
        assert accepted is None
        assert low == 0.0
    elif stop is Stop.TOLERANCE:
        assert 0.0 < low < high
        assert high - low <= search.tolerance * high
        assert record.step in (low, high)
    elif stop is Stop.STEP_MAX:
        assert record.step == low == largest(search, norm)
        assert high == INF
    elif stop is Stop.STEP_MIN:
        assert record.evaluations == 1
        assert record.step == search.step_min
        assert accepted.slope >= 0.0
    else:
        assert stop is Stop.BUDGET
        assert record.evaluations == budget


def test_bracketing_expands_by_the_golden_ratio_and_clips_at_the_largest_step():
    steps = steps_of(tell(GolsB(), [-1.0], norm=1.0))
    ratios = [after / before for before, after in pairwise(steps[:-1])]
    assert ratios == pytest.approx([(1 + math.sqrt(5)) / 2] * len(ratios))
    assert steps[0] == 1e-8
    assert steps[-1] == 1.0


def test_bisection_accepts_the_lower_end_where_the_last_probe_is_not_finite():
    record = tell(GolsB(tolerance=0.1), [-1.0, NAN, -1.0, NAN], norm=1.0)
    assert record.outcome.probe == 2
    assert record.stop is Stop.TOLERANCE
    everywhere = tell(GolsB(), [NAN])
    assert (everywhere.step, everywhere.outcome.probe, everywhere.stop) == (0.0, None, Stop.NON_FINITE)


# ---- GOLS-Back


@anything
@given(
    sequence=sequences,
    norm=norms,
    budget=budgets,
    strict=st.booleans(),
    shrink=st.sampled_from([0.5, 0.9, 0.1]),
    overshoot=st.sampled_from([0.9, 0.3]),
    slope_0=st.floats(-2, 2),
)
def test_backtracking_on_any_slopes(sequence, norm, budget, strict, shrink, overshoot, slope_0):
    search = GolsBack(max_probes=budget, strict=strict, shrink=shrink, overshoot=overshoot)
    record = tell(search, sequence, norm, slope_0=slope_0)
    told, stop, bound = record.transcript, record.stop, overshoot * abs(slope_0)
    slack = 1.0 if strict else shrink * (1.0 - 1e-12)
    assert told[0][0] == largest(search, norm)
    assert all(step >= search.step_min * slack for step, _ in told)
    for (step, seen), (after, _) in pairwise(told):
        assert counted(seen) > bound, "an acceptable step was passed over"
        assert after == pytest.approx(max(step * shrink, search.step_min) if strict else step * shrink)
    assert record.evaluations <= (budget or 400)
    last, seen = told[-1]
    if stop is Stop.NON_FINITE:
        assert record.outcome.probe is None
        assert not seen.finite
    else:
        assert (record.step, record.outcome.probe) == (last, len(told) - 1)
    if stop is Stop.SLOPE_BOUND:
        assert seen.slope <= bound
    elif stop is Stop.STEP_MAX:
        assert len(told) == 1
        assert seen.slope < 0.0
    elif stop is Stop.STEP_MIN:
        assert seen.slope > bound
        assert last <= search.step_min / shrink * (1.0 + 1e-12)
    elif stop is Stop.BUDGET:
        assert len(told) == budget


def test_backtracking_takes_a_slope_at_the_bound_itself():
    assert tell(GolsBack(overshoot=0.5), [0.5]).step == 1.0
    assert tell(GolsBack(overshoot=0.5), [3.0, 0.5]).step == 0.5
    assert tell(GolsBack(overshoot=0.5), [math.nextafter(0.5, 1.0), 0.5]).step == 0.5


# ---- GOLS-Max


@anything
@given(
    sequence=sequences,
    norm=norms,
    budget=budgets,
    strict=st.booleans(),
    growth=st.sampled_from([2.0, 1.5, 3.0]),
    overshoot=st.sampled_from([0.9, 0.3]),
    slope_0=st.floats(-2, 2),
    guess=st.floats(1e-9, 1e9),
)
def test_the_largest_step_within_the_bound_on_any_slopes(
    sequence, norm, budget, strict, growth, overshoot, slope_0, guess
):
    search = GolsMax(max_probes=budget, strict=strict, growth=growth, overshoot=overshoot)
    record = tell(search, sequence, norm, guess, slope_0)
    told, stop, bound = record.transcript, record.stop, overshoot * abs(slope_0)
    low, high = search.step_min, largest(search, norm)
    slack = 1.0 if strict else growth * (1.0 + 1e-12)
    assert all(low / slack <= step <= high * slack for step, _ in told)
    assert record.evaluations <= (budget or 400)
    last, seen = told[-1]
    if stop is Stop.NON_FINITE:
        assert record.outcome.probe is None
        assert record.outcome.memory == guess
        assert not seen.finite
        return
    assert (record.step, record.outcome.probe, record.outcome.memory) == (last, len(told) - 1, last)
    if stop is Stop.SLOPE_BOUND:
        larger, above = told[-2]
        assert seen.slope < bound <= counted(above)
        assert last < larger <= last * growth * (1.0 + 1e-12)
    elif stop is Stop.STEP_MAX:
        assert seen.slope < bound
        assert last > high / growth
    elif stop is Stop.BUDGET:
        assert len(told) == budget
    else:
        assert stop is Stop.STEP_MIN
        assert seen.slope >= bound
        assert last < low * growth


@anything
@given(optimum=st.floats(1e-6, 1e5), guess=st.floats(1e-8, 1e7), overshoot=st.sampled_from([0.9, 0.1]))
def test_the_largest_step_within_the_bound_of_a_quadratic(optimum, guess, overshoot):
    record = solve(GolsMax(overshoot=overshoot), lambda step: step / optimum - 1.0, norm=0.0, memory=guess)
    limit = optimum * (1.0 + overshoot)
    assert record.stop is Stop.SLOPE_BOUND
    assert limit / 2.0 * (1.0 - 1e-12) <= record.step < limit * (1.0 + 1e-12)


def test_no_guess_is_accepted_at_once():
    assert tell(GolsMax(), [0.5, 0.5, 2.0, 0.5], guess=0.1).evaluations == 4


# ---- the fixed step


def test_a_fixed_step_is_taken_whatever_the_slope():
    for slope in (-1.0, 0.0, 1e9):
        record = tell(Fixed(0.25), [slope])
        assert (record.step, record.stop, record.evaluations) == (0.25, Stop.FIXED, 1)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_fixed_step_to_nowhere_is_not_taken(bad):
    record = tell(Fixed(0.25), [bad])
    assert (record.step, record.outcome.probe, record.stop) == (0.0, None, Stop.NON_FINITE)
