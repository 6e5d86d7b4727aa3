"""Angle: the feedback of the angle, the warm-up, and what it does on noisy bowls."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from searches.told import INF, NAN, begun, course

from gradline.protocol import Heading, Origin, Pending, Slope, Stop
from gradline.searches import Angle, AngleMemory
from gradline.searches.angle import EARLY, FIRST_PART
from gradline.testing import check_line_search


def reference(cosines, search, first, warmup):
    """The rule again, with sums over all cosines and steps instead of a memory."""
    steps, counted = [first], []
    for taken, cosine in enumerate(cosines, start=1):
        share = min(1.0, 2.0 * steps[-1] / np.mean(steps))
        horizon = min(taken, sum(steps) / steps[-1]) if steps[-1] < 32 * first else taken
        counted.append(cosine * share if cosine > 0 else cosine)
        weights = np.arange(1, taken + 1) / sum(range(1, taken + 1))
        mean, error = weights @ counted, math.sqrt(weights**2 @ np.square(counted))
        climb = search.climb * share * math.tanh(-mean / error / 2) if mean < 0 and cosine < 0 else 0.0
        power = climb - search.gain * counted[-1]
        change = min(math.log(2.0), max(-math.log(2.0), power / (horizon + EARLY)))
        steps.append(steps[-1] * math.exp(change))
        assume(not warmup or abs(mean) > 1e-12)  # its sign decides
        if mean < 0 and max(steps[:-1]) < warmup:
            steps[-1] = max(steps[-1], min(1.1 * steps[-2], warmup))
        steps[-1] = min(search.step_max, max(search.step_min, steps[-1]))
    return steps[1:]


@given(
    cosines=st.lists(st.integers(-100, 100).map(lambda percent: percent / 100.0), min_size=1, max_size=60),
    gain=st.floats(0.1, 100.0),
    climb=st.floats(0.0, 10.0),
    first=st.floats(1e-6, 10.0),
    warmup=st.sampled_from([0.0, 2.0, 8.0]),
)
@example(cosines=[1.0] * 20 + [-0.2] * 15, gain=20.0, climb=10.0, first=1e-3, warmup=0.0)  # climbs from longer steps
@example(cosines=[-1.0] * 30 + [1.0] * 5, gain=12.0, climb=1.0, first=1e-3, warmup=0.0)  # past the search's step
@example(cosines=[-0.01] * 30 + [0.5] * 30 + [-0.01] * 9, gain=12.0, climb=1.0, first=1e-3, warmup=8.0)
def test_it_equals_the_rule_written_another_way(cosines, gain, climb, first, warmup):
    search = Angle(gain=gain, climb=climb)
    memory, steps = search.count_step(search.start()._replace(step=first, warmup=warmup * first)), []
    for cosine in cosines:
        pending = begun(search, cosine, memory)
        steps.append(pending.step)
        pending.tell(Slope(1e9))  # whatever the slope
        assert (pending.outcome.probe, pending.outcome.stop) == (0, Stop.ANGLE)  # one evaluation per step
        assert pending.outcome.memory == search.count_step(search.next_step(memory, cosine))
        memory = pending.outcome.memory
    assert memory.taken == len(cosines) + 1
    assert steps == pytest.approx(reference(cosines, search, first, warmup * first), rel=1e-6)


MEMORIES = st.builds(
    AngleMemory,
    step=st.floats(1e-12, 1e7),
    taken=st.integers(1, 10**9),
    mean=st.floats(-1.0, 1.0),
    square=st.floats(0.0, 1.0),
    length=st.floats(0.0, 1e9),
    warmup=st.just(0.0),
)


@given(st.floats(-1.0, 1.0), MEMORIES)
def test_steps_stay_within_their_bounds_and_change_by_a_factor_of_two_at_most(cosine, memory):
    step = Angle(gain=1e6).next_step(memory, cosine).step
    assert 1e-12 <= step <= 1e7
    assert 0.4999 < step / memory.step < 2.0001


@given(st.floats(-1.0, 1.0), MEMORIES)
def test_the_sign_of_the_cosine_is_the_sign_of_the_change(cosine, memory):
    search = Angle()
    after = search.next_step(memory, cosine)
    assert after.step <= memory.step if cosine >= 0.0 else after.step >= memory.step
    assert (after.taken, after.length) == (memory.taken, memory.length)  # the step is not yet taken
    assert search.halve_step(after).step == after.step / 2.0


def test_the_warmup_lengthens_the_step_unless_cosines_are_positive():
    search = Angle(climb=0.0)
    memory = search.count_step(search.start()._replace(step=1.0, warmup=2.0))
    assert search.next_step(memory, 0.001).step < 1.0
    for n in range(1, 8):
        memory = search.count_step(search.next_step(memory, -1e-9))
        assert memory.step == pytest.approx(1.1**n), "whatever the size of the cosine"
    memory = search.next_step(memory, -1e-9)
    assert (memory.step, search.next_step(memory, -1e-9).warmup) == (2.0, 0.0), "it ends at the step it leads to"
    late = search.next_step(memory._replace(step=1.0, taken=400), -1e-9)
    assert (late.step, late.warmup) == (pytest.approx(1.0), 0.0), "or after 400 steps"


def test_where_gradients_have_faded_the_step_grows_like_a_logarithm():
    """Near a loss of zero larger weights are always better. The first search found a step of 1."""
    search, first, steps = Angle(), FIRST_PART, []
    memory = search.count_step(search.start()._replace(step=first))
    for _ in range(10**4):
        memory = search.count_step(search.next_step(memory, -1.0, faded=True))
        steps.append(memory.step)
    assert steps[99] > 1.0
    for n in (100, 1000):
        assert steps[10 * n - 1] - steps[n - 1] < 1.1 * (search.gain + search.climb) * math.log(10.0)


@pytest.mark.parametrize("cosine", [-5e-324, -1e-200, -0.0, 5e-324])
def test_cosines_whose_squares_underflow_change_nothing(cosine):
    search = Angle()
    memory = search.count_step(search.start())
    assert search.next_step(memory, cosine).step == pytest.approx(memory.step)


def test_small_cosines_that_agree_make_it_climb_and_noise_of_the_same_size_does_not():
    def climbed(cosines):
        search = Angle()
        memory = search.count_step(search.start())
        for cosine in cosines:
            memory = search.count_step(search.next_step(memory, cosine))
        return memory.step / 1e-4

    signs = np.random.default_rng(0).choice([-1.0, 1.0], 1000)
    assert climbed(-0.001 * np.ones(1000)) > 20.0
    assert 0.3 < climbed(0.001 * signs) < 3.0


@pytest.mark.parametrize("size", [0.5, 0.2])
def test_it_climbs_out_of_a_step_a_hundred_times_too_small_within_a_hundred_steps(size):
    """Cosines of this size while the step is too small, as measured on networks, and 0 beyond."""
    search = Angle()
    memory = search.count_step(search.start()._replace(step=1e-5))
    for _ in range(100):
        memory = search.count_step(search.next_step(memory, -size if memory.step < 1e-3 else 0.0))
    assert memory.step > 1e-3


@given(
    cosines=st.lists(st.sampled_from([-1.0, -0.3, -0.01, 0.0, 0.02, 0.5, 1.0]), min_size=1, max_size=200),
    guard=st.floats(1.0, 1e3),
)
def test_a_guard_bounds_every_step_and_each_gradient_changes_it_little(cosines, guard):
    """What the theorem of the documentation rests on."""
    search = Angle(guard=guard)
    memory = search.count_step(search.start())
    steps = [memory.step]
    for n, cosine in enumerate(cosines, start=2):
        fading = 1e-4 / math.sqrt(n)
        m = min(n - 1, sum(steps) / steps[-1]) if steps[-1] < 32e-4 else n - 1
        assert m >= 0.82 * (n - 1) / guard**2
        before = min(max(memory.step, fading / guard), fading * guard)  # known before the gradient of this step
        memory = search.count_step(search.next_step(memory, cosine))
        assert fading / guard * (1 - 1e-9) <= memory.step <= fading * guard * (1 + 1e-9)
        steps.append(memory.step)
        change, most = abs(math.log(memory.step / before)), search.gain + search.climb
        assert change <= min(math.log(2.0), most / (m + EARLY)) + 1e-9
        assert most / (m + EARLY) <= 1.22 * guard**2 * most / n


def guarded_descent(search, steps, rng):
    """Projected subgradient descent on f(x) = ‖x‖₁ in the box [-1, 1]⁴ with noisy signs; return f at weighted means."""
    memory = search.count_step(search.start()._replace(step=0.1))
    point = rng.uniform(-1.0, 1.0, 4)
    mean, weights, path, total = np.zeros(4), 0.0, point.copy(), 1
    gaps = []
    for n in range(1, steps + 1):
        gradient = np.sign(point) * rng.choice([3.0, -1.0], 4)  # sign(x) in expectation
        weights += n**-0.5
        mean += (point - mean) * n**-0.5 / weights
        gaps.append(np.abs(mean).sum())
        if n > 1:
            displacement = point - path
            scale = np.linalg.norm(gradient) * np.linalg.norm(displacement)
            memory = search.next_step(memory, float(gradient @ displacement / scale) if scale > 0.0 else 0.0)
            path += (point - path) / (total := total + 1)
            memory = search.count_step(memory)
        point = np.clip(point - memory.step * gradient, -1.0, 1.0)
    return np.array(gaps)


@pytest.mark.parametrize("search", [Angle(guard=1.25, gain=0.5, climb=0.0), Angle(guard=3.0), Angle(guard=30.0)])
def test_guarded_steps_converge_on_a_convex_loss_within_the_bound_of_the_theorem(search):
    steps = 3000
    gaps = np.mean([guarded_descent(search, steps, np.random.default_rng(seed)) for seed in range(12)], axis=0)
    diameter, largest = 4.0, 6.0  # of the box; of a gradient (four components of at most 3)
    low, high = 0.1 / search.guard, 0.1 * search.guard
    n = np.arange(1, steps + 1)
    bound = diameter**2 / 2 + largest**2 * high**2 * (1 + np.log(n)) / 2
    bound += 3.2 * largest * diameter * high * (search.gain + search.climb) * search.guard**2
    bound /= 2.0 * low * (np.sqrt(n + 1) - 1)
    assert np.all(gaps <= bound)
    assert search.guard > 2.0 or bound[-1] < gaps[0]  # with a tight guard the bound is not trivially met
    assert gaps[-1] < gaps[99] / 2.0


def test_no_displacement_is_no_angle():
    assert Heading(-1.0, 0.0, 0.0).cosine == 0.0
    assert Heading(-1.0, -2.0, 1.9999999).cosine == -1.0  # rounding
    assert not Heading(-1.0, INF, 1.0).finite
    assert Heading(-1.0, -2.0, 4.0).cosine == -0.5


@pytest.mark.parametrize(
    "memory",
    [
        None,
        0.1,
        (0.1, 1, 0.0, 0.0, 0.0),
        AngleMemory(NAN, 1, 0.0, 0.0, 0.0),
        AngleMemory(0.0, 1, 0.0, 0.0, 0.0),
        AngleMemory(0.1, -1, 0.0, 0.0, 0.0),
        AngleMemory(0.1, 1, 0.0, -1.0, 0.0),
        AngleMemory(0.1, 1, 0.0, 0.0, INF),
        AngleMemory(0.1, 1, 0.0, 0.0, 0.1, -0.1),
        AngleMemory(0.1, 1, 0.0, 0.0, 0.1, 0.1, -0.1),
    ],
)
def test_a_memory_of_something_else_gets_its_sentence(memory):
    with pytest.raises(ValueError, match=r"memory must be an AngleMemory \(it has the previous step\), got"):
        Pending(Angle(), Origin(course(0.0), 1.0), memory)


def test_a_plain_slope_is_not_enough():
    with pytest.raises(TypeError, match="must be a Heading"):
        Pending(Angle(), Origin(Slope(-1.0), 1.0), Angle().start())


def test_other_settings_conform():
    for search in (Angle(gain=0.5), Angle(step_first=10.0), Angle(step_first=1e-12, step_max=1e-12)):
        check_line_search(search)


def steepest():
    return lambda g: -g


def adam():
    """Adam's direction, with its default betas."""
    first, second, count = 0.0, 0.0, 0

    def direction(g):
        nonlocal first, second, count
        first, second, count = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g, count + 1
        return -first / (1.0 - 0.9**count) / (np.sqrt(second / (1.0 - 0.999**count)) + 1e-8)

    return direction


def descend(steps, noise, *, curvature, seed=0, search=None, directions=adam):
    """Descend on a noisy bowl with the displacement kept by hand; the losses and the steps."""
    random = np.random.default_rng(seed)
    search = search or Angle()
    x, mean, losses, taken = np.ones(len(curvature)), np.zeros(len(curvature)), [], []
    memory, heading = search.start(), directions()

    def gradient(at):
        return curvature * at + noise * random.standard_normal(len(at))

    g = gradient(x)
    while len(taken) < steps:
        displacement = x - mean if taken else np.zeros_like(x)
        direction, scale = heading(g), float(np.linalg.norm(g) * np.linalg.norm(displacement))
        seen = Heading(float(g @ direction), float(g @ displacement), scale)
        pending = Pending(search, Origin(seen, float(np.linalg.norm(direction))), memory)
        while pending.outcome is None:
            g = gradient(x + pending.step * direction)
            pending.tell(Slope(float(g @ direction)))
        memory = pending.outcome.memory
        if pending.outcome.probe is None:
            g = gradient(x)
            continue
        mean += (x - mean) / (len(taken) + 1)
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
    """With few directions the gradient points back along the whole displacement, once that has led too far."""
    losses, steps = descend(1000, 0.0, curvature=np.array(curvature))
    assert losses[-1] < 1e-3 * losses[0]
    assert steps[-1] > 0.03 * steps[99]  # hardly faster than 1/n


def test_short_steps_are_not_shrunk_for_what_long_ones_have_overshot():
    search, gain = Angle(), Angle().gain
    fresh, stale = (AngleMemory(0.1, 50, 0.0, 0.0, length) for length in (10.0, 100.0))
    assert search.next_step(fresh, 1.0).step == pytest.approx(0.1 * math.exp(-gain / 60))
    assert search.next_step(stale, 1.0).step == pytest.approx(0.1 * math.exp(-gain / 60 * 0.1))
    assert search.next_step(stale, -1.0).step > 0.1 * math.exp(gain / 60 * 0.99)


def test_under_cosines_that_stay_positive_the_step_falls_hardly_faster_than_one_over_n():
    search = Angle()
    memory, steps = search.count_step(search.start()), []
    for _ in range(10_000):
        memory = search.count_step(search.next_step(memory, 1.0))
        steps.append(memory.step)
    assert steps[9_999] > 0.05 * steps[999]
    assert steps[9_999] < 0.2 * steps[999]


def test_without_noise_it_converges():
    losses, _ = descend(400, 0.0, curvature=BOWL)
    assert losses[-1] < 1e-4 * losses[0]


def test_under_noise_the_steps_shrink_and_the_loss_with_them():
    losses, steps = zip(*(descend(4000, 1.0, curvature=BOWL, seed=seed) for seed in range(10)), strict=True)
    early, late = (np.mean([run[part] for run in losses]) for part in (slice(300, 500), slice(3000, 4000)))
    assert late < 0.5 * early
    assert np.median([run[-1] for run in steps]) < 0.8 * np.median([run[300] for run in steps])


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
    one, steps = descend(300, 0.3, curvature=BOWL, search=search, directions=steepest)
    other, scaled = descend(
        300, 0.3 * 64.0, curvature=BOWL * 64.0, search=Angle(step_first=1e-3 / 64.0), directions=steepest
    )
    assert scaled == pytest.approx(steps / 64.0, rel=1e-9)
    assert other == pytest.approx(one * 64.0, rel=1e-9)
