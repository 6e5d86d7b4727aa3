"""GOLS-I: what holds for every function, every slope and every setting."""

import dataclasses
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradline import solve
from gradline.protocol import Origin, Pending, Slope, Stop
from gradline.searches import GolsI
from gradline.testing import check_sign_change

anything = settings(max_examples=200, deadline=None)

slopes = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, -1.0, 1.0, math.nan, math.inf, -math.inf]))
runs = st.tuples(st.integers(1, 60), slopes).map(lambda run: [run[1]] * run[0])
sequences = st.lists(runs, min_size=1, max_size=5).map(lambda parts: [slope for part in parts for slope in part])
searches = st.builds(
    GolsI,
    growth=st.sampled_from([2.0, 1.5, 3.0, 1.9]),
    overshoot=st.sampled_from([0.9, 0.5, 2.0]),
    step_min=st.sampled_from([1e-8, 1e-3]),
    step_max=st.sampled_from([1e7, 1e-2]),
    strict=st.booleans(),
    max_probes=st.sampled_from([None, 1, 2, 5, 20]),
)
norms = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))
guesses = st.floats(1e-9, 1e9)


def tell(search, sequence, norm=1.0, guess=None, slope_0=-1.0):
    """Tell it the slopes of a sequence, the last one for ever."""
    pending = Pending(search, Origin(Slope(slope_0), norm), search.start() if guess is None else guess)
    while pending.outcome is None:
        pending.tell(Slope(sequence[min(len(pending.transcript), len(sequence) - 1)]))
    return pending.record


def bounds(search, norm):
    largest = min(1.0 / norm, search.step_max) if norm else search.step_max
    return search.step_min, max(largest, search.step_min)


@anything
@given(search=searches, sequence=sequences, norm=norms, guess=guesses)
def test_it_ends_within_the_range_of_steps(search, sequence, norm, guess):
    low, high = bounds(search, norm)
    record = tell(search, sequence, norm, guess)
    # Up the whole ladder and, from a non-finite step, down again.
    rungs = math.log(high / low) / math.log(search.growth) + 2
    assert record.evaluations <= 2 * rungs + 1
    if search.max_probes is not None:
        assert record.evaluations <= search.max_probes


@anything
@given(search=searches, sequence=sequences, norm=norms, guess=guesses)
def test_steps_stay_in_range_or_leave_it_by_less_than_one_factor(search, sequence, norm, guess):
    low, high = bounds(search, norm)
    slack = 1.0 if search.strict else search.growth * (1 + 1e-15)
    for step, _ in tell(search, sequence, norm, guess).transcript:
        assert low / slack <= step <= high * slack
    assert low <= tell(search, sequence, norm, guess).transcript[0][0] <= high


@anything
@given(search=searches, sequence=sequences, norm=norms, guess=guesses, slope_0=st.floats(-10, 10))
def test_the_slopes_say_why_it_ended(search, sequence, norm, guess, slope_0):
    low, high = bounds(search, norm)
    record = tell(search, sequence, norm, guess, slope_0)
    stop, told = record.stop, record.transcript
    step, seen = told[-1]
    if stop is Stop.NON_FINITE:
        assert record.outcome.probe is None
        assert record.outcome.memory == guess
        assert not seen.finite
        spent = len(told) == search.max_probes
        assert spent or step < search.growth * low
        return
    assert record.outcome.probe == len(told) - 1
    assert record.outcome.memory == record.step == step
    assert seen.finite
    if stop is Stop.ACCEPTED_AT_ONCE:
        assert len(told) == 1
        assert 0.0 < seen.slope < search.overshoot * abs(slope_0)
    elif stop is Stop.SIGN_CHANGE:
        check_sign_change(record)
    elif stop is Stop.STEP_MAX:
        assert all(seen.slope < 0.0 for _, seen in told)
        assert step > high / search.growth
    elif stop is Stop.STEP_MIN:
        assert seen.slope >= 0.0
        assert step < search.growth * low
    else:
        assert stop is Stop.BUDGET
        assert len(told) == search.max_probes


@anything
@given(
    search=searches.filter(lambda search: search.max_probes is None),
    sequence=sequences,
    norm=norms,
    guess=guesses,
    budget=st.integers(1, 60),
)
def test_a_budget_only_cuts_short(search, sequence, norm, guess, budget):
    free = tell(search, sequence, norm, guess)
    cut = tell(dataclasses.replace(search, max_probes=budget), sequence, norm, guess)
    if free.evaluations <= budget:
        assert repr(cut.outcome) == repr(free.outcome)
    else:
        assert [step for step, _ in cut.transcript] == [step for step, _ in free.transcript[:budget]]
        last, seen = cut.transcript[-1]
        assert (cut.step, cut.stop) == ((last, Stop.BUDGET) if seen.finite else (0.0, Stop.NON_FINITE))


@anything
@given(search=searches, sequence=sequences, norm=norms, guess=guesses, exponent=st.integers(-40, 40))
def test_scaling_the_function_changes_nothing(search, sequence, norm, guess, exponent):
    """F → cF: only signs and ratios of slopes count. Powers of two scale exactly."""
    assume(not any(0.0 < abs(slope) < 1e-200 for slope in sequence))
    scale = 2.0**exponent
    plain = tell(search, sequence, norm, guess)
    scaled = tell(search, [slope * scale for slope in sequence], norm, guess, slope_0=-scale)
    assert [step for step, _ in scaled.transcript] == [step for step, _ in plain.transcript]
    assert scaled.outcome == plain.outcome


@anything
@given(
    search=searches,
    optimum=st.floats(1e-9, 1e8),
    norm=st.floats(1e-9, 1e9),
    guess=guesses,
    exponent=st.integers(-20, 20),
)
def test_scaling_the_direction_scales_the_steps(search, optimum, norm, guess, exponent):
    """d → cd with the bounds and the guess divided by c: the same points are visited. Powers of two scale exactly."""
    c = 2.0**exponent
    small = dataclasses.replace(search, step_min=search.step_min / c, step_max=search.step_max / c)
    plain = solve(search, lambda step: step / optimum - 1.0, norm=norm, memory=guess)
    scaled = solve(small, lambda step: c * (c * step / optimum - 1.0), norm=norm * c, memory=guess / c)
    assert [c * step for step, _ in scaled.transcript] == [step for step, _ in plain.transcript]
    assert c * scaled.step == plain.step
    assert (scaled.stop, c * scaled.outcome.memory) == (plain.stop, plain.outcome.memory)


@anything
@given(search=searches, sequence=sequences, norm=norms, guess=guesses, data=st.data())
def test_any_prefix_can_be_replayed(search, sequence, norm, guess, data):
    whole = tell(search, sequence, norm, guess)
    cut = data.draw(st.integers(0, whole.evaluations))
    pending = Pending.replay(search, whole.origin, guess, whole.transcript[:cut])
    for _, seen in whole.transcript[cut:]:
        pending.tell(seen)
    assert pending.record == whole


@pytest.mark.parametrize(
    ("slope", "at_once"),
    [(0.9, False), (math.nextafter(0.9, 0.0), True), (0.45, True), (5e-324, True), (0.0, False), (-0.0, False)],
)
def test_the_condition_to_accept_at_once_is_strict(slope, at_once):
    record = tell(GolsI(), [slope, -1.0], guess=0.5)
    assert (record.stop is Stop.ACCEPTED_AT_ONCE) == at_once
    assert record.step == (0.5 if at_once else 0.25)


def test_it_counts_the_size_of_the_first_slope_not_its_sign():
    assert tell(GolsI(), [0.5], guess=0.5, slope_0=1.0).stop is Stop.ACCEPTED_AT_ONCE


def test_only_a_guess_is_accepted_at_once():
    record = tell(GolsI(), [2.0, 0.5, 0.5, -1.0], guess=0.8)
    assert [step for step, _ in record.transcript] == [0.8, 0.4, 0.2, 0.1]


def test_a_slope_of_zero_shrinks_a_guess_and_ends_growth():
    assert tell(GolsI(), [0.0, -1.0], guess=0.5).step == 0.25
    assert tell(GolsI(), [-1.0, 0.0], guess=0.25).step == 0.5
    assert tell(GolsI(), [0.0], guess=1e-8).stop is Stop.STEP_MIN


def test_the_first_guess_is_the_smallest_step():
    assert GolsI().start() == 1e-8
    assert GolsI(step_min=1e-4).start() == 1e-4


def test_the_first_guess_may_be_another():
    assert GolsI(step_first=0.5).start() == 0.5
    with pytest.raises(ValueError, match=r"step_first must be between step_min = 1e-08 and step_max .*got 1e-09"):
        GolsI(step_first=1e-9)


def test_a_direction_of_length_zero_has_the_cap_as_its_largest_step():
    record = tell(GolsI(), [-1.0], norm=0.0, guess=1e20)
    assert (record.step, record.stop) == (1e7, Stop.STEP_MAX)


def test_the_smallest_step_wins_where_the_bounds_cross():
    for strict in (False, True):
        for slope, stop in ((-1.0, Stop.STEP_MAX), (1.0, Stop.STEP_MIN)):
            record = tell(GolsI(strict=strict), [slope], norm=1e10, guess=0.1)
            assert (record.step, record.stop, record.evaluations) == (1e-8, stop, 1)


def test_strict_ends_at_the_bounds_themselves():
    grown = tell(GolsI(strict=True), [-1.0], guess=0.75)
    assert ([step for step, _ in grown.transcript], grown.stop) == ([0.75, 1.0], Stop.STEP_MAX)
    shrunk = tell(GolsI(strict=True), [5.0], guess=3e-8)
    assert ([step for step, _ in shrunk.transcript], shrunk.stop) == ([3e-8, 1.5e-8, 1e-8], Stop.STEP_MIN)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_slopes_are_uphill(bad):
    assert tell(GolsI(), [bad, -1.0], guess=0.5).step == 0.25
    grown = tell(GolsI(), [-1.0, bad, bad, -1.0], guess=0.25)
    assert [step for step, _ in grown.transcript] == [0.25, 0.5, 0.25, 0.125]
    for guess in (1e-8, 0.1):
        nowhere = tell(GolsI(), [bad], guess=guess)
        assert (nowhere.step, nowhere.outcome.probe, nowhere.stop) == (0.0, None, Stop.NON_FINITE)
        assert nowhere.outcome.memory == guess


def test_a_finite_smallest_step_ends_a_flight_from_non_finite_ones():
    record = tell(GolsI(), [math.nan, math.nan, 5.0], guess=4e-8)
    assert ([step for step, _ in record.transcript], record.stop) == ([4e-8, 2e-8, 1e-8], Stop.STEP_MIN)
    assert record.step == 1e-8


def test_memory_must_be_a_number():
    with pytest.raises(ValueError, match=r"memory must be a number \(it is the previous step\), got nan"):
        Pending(GolsI(), Origin(Slope(-1.0), 1.0), math.nan)


@pytest.mark.parametrize(("growth", "left"), [(1.9, 0.81), (1.5, 0.81), (2.0, 1.0)])
@anything
@given(best=st.floats(1e-3, 1e3), guess=st.floats(1e-4, 1e4))
def test_on_a_quadratic_every_step_gains(growth, left, best, guess):
    outcome, _ = solve(GolsI(growth=growth), lambda step: step / best - 1, norm=1e-7, memory=guess)
    assert (1 - outcome.step / best) ** 2 < left + 1e-12 * (left < 1.0)
