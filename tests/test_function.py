"""`solve`: a search on a plain Python function."""

import math
import re

import numpy as np
import pytest

import gradline
from gradline.protocol import Moments, Slope, Stop, Value
from gradline.searches import Armijo, Fixed, GolsI


@pytest.mark.parametrize("wrap", [float, np.float64, np.float32, Slope, lambda slope: Moments(slope, 0.0, 0.0, 0.0)])
def test_a_slope_may_be_a_plain_number(wrap):
    outcome, transcript = gradline.solve(GolsI(), lambda step: wrap(step - 0.5))
    assert outcome.step == 0.67108864
    assert outcome.stop is Stop.SIGN_CHANGE
    assert len(transcript) == 27
    assert all(type(seen) in (Slope, Moments) and isinstance(seen.slope, float) for _, seen in transcript)


def test_the_function_is_asked_once_at_0_and_once_for_each_probe():
    asked = []
    record = gradline.solve(Fixed(0.25), lambda step: asked.append(step) or -1.0)
    assert asked == [0.0, 0.25]
    assert record.origin.at_zero == Slope(-1.0)
    assert record.evaluations == 1


def test_the_norm_bounds_the_steps():
    assert gradline.solve(GolsI(), lambda step: -1.0, norm=100.0).step <= 0.01
    assert gradline.solve(GolsI(), lambda step: -1.0, norm=0.01).step > 50.0


def test_memory_goes_in_and_comes_out():
    first = gradline.solve(GolsI(), lambda step: step - 0.5)
    again = gradline.solve(GolsI(), lambda step: step - 0.5, memory=first.outcome.memory)
    assert again.transcript[0][0] == first.step
    assert again.stop is Stop.ACCEPTED_AT_ONCE
    assert gradline.solve(Fixed(0.1), lambda step: 1.0, memory=None).step == 0.1


def test_values_where_a_search_compares_them():
    record = gradline.solve(Armijo(), lambda step: Value(step - 3.0, (step - 3.0) ** 2 / 2))
    assert record.stop is Stop.DECREASE
    with pytest.raises(TypeError, match=r"must be a Value \(Armijo observes it\)"):
        gradline.solve(Armijo(), lambda step: step - 3.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_start_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match=re.escape("origin.at_zero must be finite (a search starts from a known")):
        gradline.solve(GolsI(), lambda step: bad)


@pytest.mark.parametrize(
    ("search", "text"), [(GolsI, r"not its class: write GolsI\(\)"), (3, "such as .*GolsI.*, got 3")]
)
def test_what_is_no_search_is_refused(search, text):
    with pytest.raises(TypeError, match=text):
        gradline.solve(search, lambda step: step - 3.0)
