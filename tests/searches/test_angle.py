"""Angle: the first search, the feedback of the angle, and what it does on noisy bowls."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradline.protocol import Heading, Origin, Pending, Slope, Stop
from gradline.searches import Angle, AngleMemory
from gradline.testing import check_line_search

NAN, INF = math.nan, math.inf


def course(cosine):
    return Heading(-1.0, cosine, 1.0)


def begun(search=None, cosine=0.0, memory=None):
    search = search or Angle()
    return Pending(search, Origin(course(cosine), 1.0), memory or search.start())


def told(pending, *slopes):
    """The steps asked for while these slopes are told."""
    asked = []
    for slope in slopes:
        asked.append(pending.step)
        pending.tell(Slope(slope))
    return asked


def test_the_first_search_doubles_while_it_goes_downhill_and_takes_a_quarter_of_the_last_such_step():
    pending = begun()
    slopes = (-5.0, -4.0, -3.0, -2.0, 0.5, -0.9)
    assert told(pending, *slopes) == [1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 2e-3]
    assert (pending.outcome.step, pending.outcome.probe) == (2e-3, 5)
    assert pending.outcome.stop is Stop.SIGN_CHANGE
    assert pending.outcome.memory == AngleMemory(2e-3, 1, -1.0, True, 2e-3)


def test_the_last_downhill_step_is_taken_whatever_the_next_batch_says_of_it():
    pending = begun()
    told(pending, -1.0, 1.0, 2.0)
    assert pending.outcome.step == 1e-3


def test_a_first_guess_that_is_too_long_is_divided_a_few_times():
    pending = begun()
    assert told(pending, 1.0, 1.0, -1.0) == [1e-3, 1e-3 / 4, 1e-3 / 16]
    assert pending.outcome.step == 1e-3 / 16
    assert pending.outcome.stop is Stop.SIGN_CHANGE
    pending = begun()
    told(pending, *[1.0] * 16)
    assert (pending.outcome.step, pending.outcome.stop) == (1e-12, Stop.BUDGET)


def test_a_first_search_that_never_goes_uphill_ends_at_the_largest_step():
    pending = begun(Angle(step_max=5e-3))
    told(pending, -1.0, -1.0, -1.0)
    assert (pending.outcome.step, pending.outcome.stop) == (4e-3, Stop.STEP_MAX)


def test_what_is_not_finite_ends_the_doubling_and_is_never_accepted():
    pending = begun()
    assert told(pending, -1.0, NAN, NAN, NAN, -1.0) == [1e-3, 2e-3, 1e-3, 1e-3, 5e-4]
    assert pending.outcome.step == 5e-4
    pending = begun(memory=AngleMemory(0.1, 50, 0.0, False, 0.0))
    assert told(pending, INF, NAN, INF, 3.0) == [0.1, 0.1, 0.05, 0.025]
    assert (pending.outcome.step, pending.outcome.probe) == (0.025, 3)
    assert pending.outcome.memory.step == 0.025


def test_one_bad_batch_leaves_the_step_alone():
    pending = begun(memory=AngleMemory(0.1, 50, 0.0, False, 0.0))
    assert told(pending, NAN, 3.0) == [0.1, 0.1]
    assert pending.outcome.memory == AngleMemory(0.1, 51, 0.0, False, 0.1)


@pytest.mark.parametrize(
    "memory", [AngleMemory(1e-11, 50, -0.3, True, 0.0), AngleMemory(1e-11, 50, 0.0, False, 0.0)], ids=str
)
def test_where_nothing_is_finite_it_stays_where_it_is_with_the_step_it_had(memory):
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


@pytest.mark.parametrize(("cosine", "factor"), [(0.0, 1.0), (0.5, math.exp(-12 * 0.5 / 60)), (-1.0, math.exp(12 / 60))])
def test_the_step_follows_the_angle(cosine, factor):
    pending = begun(cosine=cosine, memory=AngleMemory(0.1, 50, 0.0, False, 0.0))
    assert pending.step == pytest.approx(0.1 * factor, rel=1e-14)
    told(pending, 1e9)  # whatever the slope
    assert pending.outcome.stop is Stop.ANGLE
    assert pending.outcome.memory.taken == 51


def reference(cosines, gain, first):
    """The rule again, written without the protocol, for directions of length 1."""
    steps, rising, mean, step, gone = [], True, -1.0, first, [first]
    for taken, cosine in enumerate(cosines, start=1):
        weighed = sum(k * length for k, length in enumerate(gone, start=1)) / taken
        if cosine > 0 and not rising:
            cosine *= min(1.0, taken * step / weighed)
        if rising:
            mean = (taken * mean + 10 * cosine) / (taken + 10)
            if mean >= 0:
                rising = False
            else:
                step *= math.exp(-0.7 * mean)
        if not rising:
            step *= math.exp(min(0.7, max(-0.7, -gain * cosine / (taken + 10))))
        step = min(1e7, max(1e-12, step))
        steps.append(step)
        gone.append(step)
    return steps


@given(
    cosines=st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=60),
    gain=st.floats(0.1, 100.0),
    first=st.floats(1e-6, 10.0),
)
def test_it_equals_the_rule_written_another_way(cosines, gain, first):
    search = Angle(gain=gain)
    memory, steps = AngleMemory(first, 1, -1.0, True, first), []
    for cosine in cosines:
        pending = begun(search, cosine, memory)
        steps.append(pending.step)
        pending.tell(Slope(1.0))
        assert pending.outcome.probe == 0  # one evaluation a step
        memory = pending.outcome.memory
    assert steps == pytest.approx(reference(cosines, gain, first), rel=1e-9)


@given(st.floats(-1.0, 1.0), st.integers(1, 10**9), st.floats(1e-12, 1e7), st.booleans())
def test_steps_stay_within_their_bounds_and_change_by_a_factor_of_two_at_most(cosine, taken, step, rising):
    pending = begun(Angle(gain=1e6), cosine, AngleMemory(step, taken, -1.0, rising, 0.0))
    assert 1e-12 <= pending.step <= 1e7
    assert 0.49 < pending.step / step < 2.02


def test_no_way_is_no_angle():
    assert Heading(-1.0, 0.0, 0.0).cosine == 0.0
    assert Heading(-1.0, -2.0, 1.9999999).cosine == -1.0  # rounding
    assert not Heading(-1.0, INF, 1.0).finite
    assert Heading(-1.0, -2.0, 4.0).cosine == -0.5


@pytest.mark.parametrize(
    "memory", [None, 0.1, (0.1, 1, 0.0, True), AngleMemory(NAN, 1, 0.0, True, 0.0), AngleMemory(0.0, 1, 0.0, True, 0.0)]
)
def test_a_memory_of_something_else_gets_its_sentence(memory):
    with pytest.raises(ValueError, match=r"memory must be an AngleMemory \(it has the step before\), got"):
        Pending(Angle(), Origin(course(0.0), 1.0), memory)


def test_a_plain_slope_is_not_enough():
    with pytest.raises(TypeError, match="must be a Heading"):
        Pending(Angle(), Origin(Slope(-1.0), 1.0), Angle().start())


def test_other_settings_conform():
    for search in (Angle(gain=0.5), Angle(step_first=10.0), Angle(step_first=1e-12, step_max=1e-12)):
        check_line_search(search)


def descend(steps, noise, *, curvature, seed=0, search=None):
    """Steepest descent on a noisy bowl with the way kept by hand; the losses and the steps."""
    random = np.random.default_rng(seed)
    search = search or Angle()
    x, mean, losses, taken = np.ones(len(curvature)), np.zeros(len(curvature)), [], []
    memory = search.start()

    def gradient(at):
        return curvature * at + noise * random.standard_normal(len(at))

    g = gradient(x)
    for step in range(steps):
        way = x - mean if step else np.zeros_like(x)
        seen = Heading(-g @ g, g @ way, float(np.linalg.norm(g) * np.linalg.norm(way)))
        pending = Pending(search, Origin(seen, float(np.linalg.norm(g))), memory)
        mean += (x - mean) / (step + 1)
        direction = -g
        while pending.outcome is None:
            g = gradient(x + pending.step * direction)
            pending.tell(Slope(float(g @ direction)))
        memory = pending.outcome.memory
        x = x + pending.outcome.step * direction
        losses.append(0.5 * float(curvature @ (x * x)))
        taken.append(pending.outcome.step)
    return np.array(losses), np.array(taken)


@pytest.mark.parametrize("step", [0.1, 0.5, 1.5])
def test_under_noise_successive_gradients_have_a_cosine_of_minus_half_step_times_curvature(step):
    """What the documentation derives for constant steps along the last direction, for a curvature of 1."""
    random = np.random.default_rng(0)
    x, gradients = 0.0, []
    for _ in range(60_000):
        gradients.append(x + random.standard_normal())
        x -= step * gradients[-1]
    g = np.array(gradients[1000:])
    assert g[1:] @ g[:-1] / (g @ g) == pytest.approx(-step / 2, abs=0.02)


BOWL = np.array([1.0, 0.3, 0.1, 0.03])


@pytest.mark.parametrize("curvature", [[1.0], [0.07], [1.0, 0.5], [1.0, 0.1]], ids=str)
def test_one_overshoot_does_not_end_it(curvature):
    """With few directions the gradient points back along the whole way, once that has led too far."""
    losses, steps = descend(1000, 0.0, curvature=np.array(curvature))
    assert losses[-1] < 1e-3 * losses[0]
    assert steps[-1] > 1e-3


def test_short_steps_are_not_shrunk_for_what_long_ones_have_overshot():
    fresh = begun(cosine=1.0, memory=AngleMemory(0.1, 50, 0.0, False, 2.5))
    stale = begun(cosine=1.0, memory=AngleMemory(0.1, 50, 0.0, False, 50.0))
    assert fresh.step == pytest.approx(0.1 * math.exp(-12 / 60))
    assert stale.step == pytest.approx(0.1 * math.exp(-12 / 60 * 0.1))
    back = begun(cosine=-1.0, memory=AngleMemory(0.1, 50, 0.0, False, 50.0))
    assert back.step == pytest.approx(0.1 * math.exp(12 / 60))


def test_without_noise_it_converges():
    losses, _ = descend(400, 0.0, curvature=BOWL)
    assert losses[-1] < 1e-6 * losses[0]


def test_under_noise_the_steps_shrink_and_the_loss_with_them():
    losses, steps = zip(*(descend(4000, 1.0, curvature=BOWL, seed=seed) for seed in range(5)), strict=True)
    early, late = (np.mean([run[part] for run in losses]) for part in (slice(300, 500), slice(3000, 4000)))
    assert late < 0.5 * early
    assert np.median([run[-1] for run in steps]) < 0.6 * np.median([run[300] for run in steps])


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 1.0])
@pytest.mark.parametrize("curvature", [BOWL, np.logspace(0.0, -3.0, 50)], ids=["4 directions", "50 directions"])
def test_in_a_hundred_thousand_noisy_steps_the_loss_keeps_falling(noise, curvature):
    losses, steps = descend(100_000, noise, curvature=curvature)
    parts = [losses[slice(end * 4 // 5, end)].mean() for end in (1_000, 10_000, 100_000)]
    assert parts[2] < 0.9 * parts[1]
    assert parts[2] < parts[0]
    assert 1e-9 < steps[-1] < steps[1_000]


def test_a_hundred_times_longer_units_change_nothing_but_the_step():
    """Scaling parameters by 1/s and gradients by s leaves angles alone once the first search has found the scale."""
    search = Angle(step_first=1e-3)
    one, steps = descend(300, 0.3, curvature=BOWL, search=search)
    other, scaled = descend(300, 0.3 * 64.0, curvature=BOWL * 64.0, search=Angle(step_first=1e-3 / 64.0))
    assert scaled == pytest.approx(steps / 64.0, rel=1e-9)
    assert other == pytest.approx(one * 64.0, rel=1e-9)
