"""Angle: the first search."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from searches.told import INF, NAN, begun, told

from gradline.protocol import Slope, Stop
from gradline.searches import Angle, AngleMemory
from gradline.searches.angle import (
    CLEAR_ERRORS,
    CLEAR_PROBES,
    CLEAR_SLOPES,
    FIRST_PART,
    NOISE_PART,
    NOISE_PROBES,
    NOISE_SUM,
)


def test_clear_slopes_end_the_first_search_by_five_sums_above_zero():
    pending = begun()
    slopes = (-0.9, -0.8, -0.8, -0.9, 0.1, -0.6, 0.5, 0.9, 1.0, 1.0, -0.1)  # the first positive one does not end it
    asked = told(pending, *slopes, 0.3)
    assert asked[:-1] == pytest.approx([1e-4 * 2**k for k in range(11)])
    assert asked[-1] == pytest.approx(1e-4 * 2**7.5 / 32)
    assert (pending.outcome.step, pending.outcome.probe) == (asked[-1], 11)
    assert pending.outcome.stop is Stop.FIRST_STEP
    assert pending.outcome.memory == AngleMemory(asked[-1], 1, 0.0, 0.0, asked[-1], asked[-1])


NOISE = (0.3, -0.6, 0.4, -0.1, 0.5, 0.2, 0.6, 1.0, 0.9, 1.0, 1.0, 1.0)  # sums: 0.3, 0, 0.4, ..., 5.5, 6.5


@pytest.mark.parametrize("guard", [None, 1000.0])
def test_slopes_without_signal_end_the_first_search_by_a_sum_of_six_and_a_warmup_follows(guard):
    pending = begun(Angle(guard=guard))
    asked = told(pending, *NOISE, 0.3)
    assert asked[:-1] == pytest.approx([1e-4 * 2**k for k in range(12)])
    found = 1e-4 * 2**11 / 16
    assert asked[-1] == pytest.approx(found / 32)
    warmup = pytest.approx(found / 4) if guard is None else 0.0
    assert pending.outcome.memory == AngleMemory(asked[-1], 1, 0.0, 0.0, asked[-1], asked[-1], warmup)


@pytest.mark.parametrize("retreats", [0, 2])
def test_a_first_search_without_signal_ends_after_sixteen_slopes(retreats):
    pending = begun()
    asked = told(pending, *[5.0] * retreats, *[0.1, -0.1] * 8)
    assert asked[-1] == pytest.approx(1e-4 / 16**retreats * 2**15)
    assert pending.step == pytest.approx(asked[-1] / 16 / 32)


@pytest.mark.parametrize(
    ("slopes", "clear"),
    [
        ([-0.71, -0.29, -0.71, -0.29], True),  # 4.1 standard errors
        ([-0.72, -0.28, -0.72, -0.28], False),  # 3.9
        ([-0.5, -0.5, -0.5], False),
        ([0.5, 0.5, 0.5, 0.5], False),
    ],
)
def test_slopes_have_signal_if_four_or_more_are_four_standard_errors_below_zero(slopes, clear):
    pending = begun()
    asked = told(pending, *slopes, *[0.1] * 5)
    assert (pending.step < asked[-1]) is clear


def test_a_slope_of_zero_is_a_plateau_and_counts_as_one_of_a_steep_rise():
    pending = begun()
    asked = told(pending, *[-0.5] * 4, *[0.0] * 5)
    assert pending.step < asked[-1]
    pending = begun()
    asked = told(pending, 0.1, *[0.0] * 6)
    assert pending.step < asked[-1]


def test_the_first_step_is_within_its_bounds():
    pending = begun(Angle(step_min=5e-5))
    told(pending, *[0.9] * 7)
    assert pending.step == 5e-5
    pending = begun(Angle(step_max=5e-4))
    told(pending, 0.1, 0.1, -0.3)
    assert pending.step == pytest.approx(4e-4 / 16 / 32), "slopes without signal are not downhill"


def test_a_rejected_point_ends_the_warmup():
    search = Angle()
    assert search.halve_step(search.start()._replace(warmup=1.0)).warmup == 0.0
    pending = begun()
    asked = told(pending, *[0.9] * 7, NAN, NAN, 0.0)
    assert asked[-1] == asked[-2] / 2.0
    assert pending.outcome.memory.warmup == 0.0


@given(st.lists(st.sampled_from([n / 8.0 for n in range(-10, 11) if n]), min_size=60, max_size=60))  # exact sums
@example([-0.5] * 8 + [0.5] * 52)  # their variance is zero
@example([-0.5, -0.5, -0.375, -0.125] + [0.125] * 56)
def test_the_first_search_ends_where_its_rule_written_another_way_does(slopes):
    clipped, clear, start, end = np.clip(slopes, -1.0, 1.0), False, 0, None  # start: of the sum
    for n in range(1, len(slopes) + 1):
        if n >= CLEAR_SLOPES and not clear:
            limit = -CLEAR_ERRORS * clipped[:n].std(ddof=1) / math.sqrt(n)
            assume(limit == 0.0 or abs(clipped[:n].mean() - limit) > 1e-9)
            clear = clipped[:n].mean() <= limit
        total = clipped[start:n].sum()
        if total <= 0.0:
            start = n
        if (n - start >= CLEAR_PROBES) if clear else (total >= NOISE_SUM or n == NOISE_PROBES):
            end = n
            break
    assume(end is not None and slopes[0] < 1.0)
    pending = begun(Angle(step_max=1e100))
    asked = told(pending, *slopes[:end])
    assert asked == pytest.approx([1e-4 * 2.0**k for k in range(end)])
    found = math.sqrt(1e-4 * 2.0 ** (start - 1) * asked[-1]) if clear else NOISE_PART * asked[-1]
    assert pending.step == pytest.approx(FIRST_PART * found)


def test_steep_slopes_count_as_the_slope_at_the_origin():
    pending = begun()
    told(pending, -1.0, 1e9, 1e30, -0.9, 2.0, 3.0, 4.0, 5.0)
    assert pending.step == pytest.approx(1e-4 * 2**8), "the sum of the last five is 0.1 + 4"


def test_a_first_search_that_starts_uphill_ends_below_its_first_step():
    pending = begun()
    told(pending, *[0.9] * 7)
    assert pending.step == pytest.approx(FIRST_PART * NOISE_PART * 64e-4)
    assert pending.step < 1e-4


def test_a_first_guess_that_is_too_long_is_divided_a_few_times():
    pending = begun()
    assert told(pending, 5.0, NAN, -0.5, -0.4) == [1e-4, 1e-4 / 16, 1e-4 / 256, 2e-4 / 256]
    pending = begun()
    told(pending, *[2.0] * 9)
    assert (pending.outcome.step, pending.outcome.probe, pending.outcome.stop) == (0.0, None, Stop.UPHILL)
    assert pending.outcome.memory == Angle().start()  # the next gradient begins again


def test_a_first_search_that_never_goes_uphill_ends_at_the_largest_step():
    pending = begun(Angle(step_max=5e-4))
    told(pending, -1.0, -1.0, -1.0)
    assert (pending.outcome.step, pending.outcome.stop) == (4e-4, Stop.STEP_MAX)


def test_what_is_not_finite_ends_the_doubling_and_is_never_accepted():
    pending = begun()
    first = FIRST_PART * math.sqrt(8e-4 * 16e-4)
    asked = told(pending, -1.0, -1.0, -1.0, -1.0, NAN, NAN, NAN, -1.0)
    assert asked == pytest.approx([1e-4, 2e-4, 4e-4, 8e-4, 16e-4, first, first, first / 2])
    assert pending.outcome.step == asked[-1]
    pending = begun(memory=AngleMemory(0.1, 50, 0.0, 0.0, 0.0))
    assert told(pending, INF, NAN, INF, 3.0) == [0.1, 0.1, 0.05, 0.025]
    assert (pending.outcome.step, pending.outcome.probe) == (0.025, 3)
    assert pending.outcome.memory.step == 0.05, "of several halvings the next step keeps one"
    assert pending.outcome.memory.length == 0.025


def test_one_bad_batch_leaves_the_step_alone():
    pending = begun(memory=AngleMemory(0.1, 50, 0.0, 0.0, 0.0))
    assert told(pending, NAN, 3.0) == [0.1, 0.1]
    assert pending.outcome.memory == AngleMemory(0.1, 51, 0.0, 0.0, 0.1, 0.1)


def test_where_nothing_is_finite_it_stays_where_it_is_with_the_memory_it_had():
    memory = AngleMemory(1e-11, 50, -0.3, 0.01, 1e-10)
    pending = begun(cosine=-0.5, memory=memory)
    while pending.outcome is None:
        pending.tell(Slope(NAN))
    assert (pending.outcome.probe, pending.outcome.stop) == (None, Stop.NON_FINITE)
    assert pending.outcome.memory == memory


def test_a_first_search_where_nothing_is_finite_is_made_again():
    pending = begun()
    while pending.outcome is None:
        pending.tell(Slope(NAN))
    assert (pending.outcome.stop, pending.outcome.memory) == (Stop.NON_FINITE, Angle().start())
