"""The state machine of training by searches: its phases, what each call does, and what an interrupt leaves."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradline.codec import CodecError, pack_driver, unpack_driver
from gradline.driver import Driver, Phase
from gradline.protocol import Heading, Moments, Origin, Slope, Stop, Value
from gradline.searches import Angle, Armijo, GoldenSection, GolsI, Prls, StrongWolfe

DOWN = Origin(Slope(-1.0), 1.0)


def test_a_search_from_beginning_to_end():
    driver = Driver(GolsI())
    assert (driver.phase, driver.step) == (Phase.ORIGIN, 0.0)
    assert driver.begin(DOWN)
    assert (driver.phase, driver.step) == (Phase.PROBE, 1e-8)
    while driver.observe(Slope(driver.step - 0.1)) is None:
        assert driver.phase is Phase.PROBE
    assert (driver.phase, driver.step) == (Phase.ENDED, driver.pending.outcome.step)
    assert driver.iterations == 0  # until it is accepted
    record = driver.accept()
    assert driver.phase is Phase.ORIGIN
    assert (driver.iterations, driver.taken, driver.last, driver.memory) == (1, 1, record, record.outcome.memory)


@pytest.mark.parametrize(
    ("origin", "stop"),
    [
        (Origin(Value(math.nan, 0.0), 1.0), Stop.NON_FINITE_ORIGIN),
        (Origin(Value(-1.0, 0.0), math.inf), Stop.NON_FINITE_ORIGIN),
        (Origin(Moments(-1.0, 0.0, math.inf, 1.0), 1.0), Stop.NON_FINITE_ORIGIN),
        (Origin(Moments(-1.0, 0.0, 1.0, math.nan), 1.0), Stop.NON_FINITE_ORIGIN),
        (Origin(Value(1.0, 0.0), 1.0), Stop.UPHILL),
    ],
)
def test_where_nothing_can_be_searched_the_iteration_ends_at_its_origin(origin, stop):
    driver = Driver(StrongWolfe())
    memory = driver.memory
    assert not driver.begin(origin)
    assert driver.phase is Phase.ORIGIN
    assert (driver.last.stop, driver.iterations, driver.taken, driver.memory) == (stop, 1, 0, memory)


def test_a_direction_of_length_zero_is_not_searched():
    driver = Driver(GolsI())
    assert not driver.begin(Origin(Slope(0.0), 0.0), zero_direction=True)
    assert driver.last.stop is Stop.ZERO_DIRECTION


def test_a_search_that_cannot_begin_early_counts_as_none():
    driver = Driver(GolsI())
    before = driver.state
    assert not driver.begin(Origin(Slope(math.nan), 1.0), early=True)
    assert driver.state == before


def test_calls_in_the_wrong_phase_are_refused():
    driver = Driver(GolsI())
    with pytest.raises(RuntimeError, match=r"observe\(\) was called out of order: the driver waits for begin"):
        driver.observe(Slope(1.0))
    with pytest.raises(RuntimeError, match=r"accept\(\) was called out of order: the driver waits for begin"):
        driver.accept()
    driver.begin(DOWN)
    with pytest.raises(RuntimeError, match=r"begin\(\) was called out of order: the driver waits for observe"):
        driver.begin(DOWN)


def test_an_abandoned_search_leaves_the_memory_alone():
    driver = Driver(GolsI())
    driver.begin(DOWN)
    before = driver.memory
    driver.observe(Slope(-1.0))
    driver.abandon()
    assert (driver.phase, driver.memory, driver.iterations) == (Phase.ORIGIN, before, 0)


def test_rewind_forgets_what_was_observed_since_the_mark():
    driver = Driver(GolsI())
    driver.begin(DOWN)
    driver.observe(Slope(-1.0))
    mark, step = driver.mark(), driver.step
    driver.observe(Slope(-1.0))
    driver.observe(Slope(-1.0))
    driver.rewind(mark)
    assert driver.step == step
    assert len(driver.pending.transcript) == 1


def test_rewind_keeps_what_was_accepted_and_puts_a_search_begun_since_to_its_beginning():
    driver = Driver(GolsI())
    driver.begin(DOWN)
    mark = driver.mark()
    while driver.observe(Slope(driver.step - 0.1)) is None:
        pass
    driver.accept()
    driver.begin(DOWN, early=True)
    first = driver.step
    driver.observe(Slope(-1.0))
    driver.rewind(mark)
    assert driver.iterations == 1
    assert driver.step == first
    assert driver.pending.transcript == []


def test_one_assignment_changes_the_state():
    """So that an interrupt leaves all of the old one or all of the new one."""
    states = []

    class Watched(Driver):
        def __setattr__(self, name, value):
            if name == "state":
                states.append(value)
            super().__setattr__(name, value)

    driver = Watched(GolsI())
    driver.begin(DOWN)
    while driver.observe(Slope(driver.step - 0.1)) is None:
        pass
    states.clear()
    driver.accept()
    assert len(states) == 1


SEEN = {
    GolsI: lambda x: Slope(x),
    Armijo: lambda x: Value(x, x * x),
    GoldenSection: lambda x: Value(x, x * x),
    Prls: lambda x: Moments(x, x * x, 0.1, 0.1),
    Angle: lambda x: Heading(x, x, abs(x) + 1.0),
}


@pytest.mark.parametrize("kind", SEEN)
@settings(deadline=None)  # no test may need a quiet machine
@given(slopes=st.lists(st.floats(-2.0, 2.0).filter(lambda x: abs(x) > 1e-6), min_size=1, max_size=12))
def test_a_driver_is_saved_and_goes_on_exactly(kind, slopes):
    driver = Driver(kind())
    for slope in slopes:
        driver.evaluations += 1
        if driver.phase is Phase.ORIGIN:
            driver.begin(Origin(SEEN[kind](-abs(slope)), abs(slope)))
        else:
            seen = SEEN[kind](slope)
            if kind is Prls:
                seen = Value(seen.slope, seen.value)
            if kind is Angle:
                seen = Slope(seen.slope)
            if driver.observe(seen) is not None:
                driver.accept()
        twin = unpack_driver(kind(), json.loads(json.dumps(pack_driver(driver))))
        assert twin.phase is driver.phase
        assert twin.evaluations == driver.evaluations
        assert twin.state._replace(pending=None) == driver.state._replace(pending=None)
        if driver.pending is not None:
            assert twin.pending.step == driver.step
            assert twin.pending.transcript == driver.pending.transcript


def test_what_another_search_saved_is_refused():
    with pytest.raises(CodecError, match="it belongs to the search GolsI"):
        unpack_driver(Armijo(), pack_driver(Driver(GolsI())))


def test_what_was_observed_must_be_what_the_search_looks_at():
    driver = Driver(GolsI())
    driver.begin(DOWN)
    packed = pack_driver(driver)
    packed["pending"][0][0] = ["Value", -1.0, 0.0]
    with pytest.raises(CodecError, match="it has a Value where the search needs a Slope"):
        unpack_driver(GolsI(), packed)
