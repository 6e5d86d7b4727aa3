"""PrLS beyond what was recorded: scaling, every way to end, non-finite probes, and what is refused."""

import math
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradline import solve
from gradline.protocol import Moments, Origin, Pending, Stop, candidates, observes
from gradline.searches import Prls, PrlsMemory
from gradline.searches.surrogate import Surrogate
from gradline.testing import ZOO, check_line_search

NAN, INF = math.nan, math.inf


def begin(slope=-1.0, value=0.5, value_var=1e-4, slope_var=1e-4, memory=(1.0, 1.0), **options):
    return Pending(Prls(**options), Origin(Moments(slope, value, value_var, slope_var), 1.0), memory)


def tell(pending, *pairs):
    """Tell (value, slope) pairs; the last one again and again."""
    n = 0
    while pending.outcome is None:
        value, slope = pairs[min(n, len(pairs) - 1)]
        pending.tell(Moments(slope, value, 1e-4, 1e-4))
        n += 1
    return pending


def steps(pending):
    return [step for step, _ in pending.transcript]


@pytest.mark.parametrize("search", [Prls(), Prls(max_probes=1), Prls(step_first=1.0, max_probes=20)], ids=repr)
def test_it_keeps_the_rules(search):
    check_line_search(search)


def test_what_it_says_of_itself():
    assert observes(Prls()) is Moments
    assert Prls().start() == PrlsMemory(guess=1e-4, mean=1e-4)
    assert list(candidates(Prls(), [(0.1, None), (0.2, None)])) == [0, 1]


# ---- among which steps it chose


def test_it_says_among_which_steps_it_chose():
    """Each next probe is one considered; the last one is beyond all probes; the others are minima of the surrogate."""
    search = Prls(max_probes=20, acceptance=0.99)
    for function in ZOO:
        record = solve(search, function.phi(), norm=function.norm, memory=PrlsMemory(1.0, 1.0))
        origin, memory, transcript = record.origin, record.memory, record.transcript
        if not all(seen.finite for _, seen in transcript):
            continue
        assert search.considered(origin, memory, []) == []
        for count in range(1, len(transcript)):
            told = transcript[:count]
            found = search.considered(origin, memory, told)
            if not found:  # the small step
                assert record.stop is Stop.BELIEVED_UPHILL
                continue
            assert transcript[count][0] in found
            assert found[-1] > max(step for step, _ in told)
            minima = search.surrogate(origin, memory, told).minima()
            assert found[:-1] == [one for one in minima if one is not None]
        assert search.considered(origin, memory, transcript) == []


def test_what_it_considers_is_in_the_units_of_the_caller():
    phi = next(f for f in ZOO if f.name == "noisy quadratic, deviation 0.05, seed 1").phi()
    pending = Pending(Prls(), Origin(phi(0.0), 1.0), PrlsMemory(0.01, 0.01))
    pending.tell(phi(pending.step))
    assert pending.step == 0.02
    assert pending.search.considered(pending.origin, pending.memory, pending.transcript)[-1] == 0.02


def test_where_nothing_is_considered():
    vanished = Origin(Moments(0.0, 1.0, 0.1, 0.1), 1.0)
    assert Prls().considered(vanished, PrlsMemory(1.0, 1.0), []) == []
    pending = begin(value=-1.0)
    pending.tell(Moments(NAN, NAN, 1e-4, 1e-4))
    assert pending.search.considered(pending.origin, pending.memory, pending.transcript) == []  # a tenth of the way


def test_a_transcript_of_another_search_has_no_considered_steps():
    pending = begin()
    seen = Moments(-1.0, 0.0, 1e-4, 1e-4)
    with pytest.raises(ValueError, match=r"at probe 0 it has step 2.0 where the search asks for step 1.0"):
        pending.search.considered(pending.origin, (1.0, 1.0), [(2.0, seen)])
    tell(pending, (-0.4, 0.0))
    with pytest.raises(ValueError, match="where the search asks for nothing more"):
        pending.search.considered(pending.origin, (1.0, 1.0), [*pending.transcript, (2.0, seen)])


# ---- scaling

bowls = st.tuples(st.floats(0.05, 20.0), st.floats(1e-3, 1.0), st.integers(0, 5))


def noisy(optimum, sigma, seed):
    function = next(f for f in ZOO if f.name == f"noisy quadratic, deviation 0.05, seed {1 + seed % 2}")

    def phi():
        noise = function.phi()

        def at(step):
            jitter = noise(0.0)
            slope, value = step / optimum - 1.0, step * (step / (2.0 * optimum) - 1.0)
            return Moments(slope + sigma * (jitter.slope + 1.0), value + sigma * jitter.value, sigma**2, sigma**2)

        return at

    return phi


@settings(deadline=None)
@given(bowls, st.sampled_from([2.0**-40, 0.25, 2.0**20]), st.sampled_from([0.0, 3.0, -100.0]))
def test_the_scale_of_values_does_not_matter(bowl, factor, shift):
    phi, scaled = noisy(*bowl)(), noisy(*bowl)()

    def other(step):
        seen = scaled(step)
        return Moments(
            factor * seen.slope, factor * (seen.value + shift), factor**2 * seen.value_var, factor**2 * seen.slope_var
        )

    memory = PrlsMemory(1.0, 1.0)
    one, two = solve(Prls(), phi, memory=memory), solve(Prls(), other, memory=memory)
    assert one.stop is two.stop
    assert steps(two) == pytest.approx(steps(one), rel=1e-6)
    assert two.outcome.memory == pytest.approx(one.outcome.memory, rel=1e-6)


@settings(deadline=None)
@given(bowls, st.sampled_from([2.0**-40, 0.25, 2.0**20]))
def test_the_length_of_the_direction_does_not_matter(bowl, factor):
    phi, scaled = noisy(*bowl)(), noisy(*bowl)()

    def other(step):
        seen = scaled(step * factor)
        return Moments(factor * seen.slope, seen.value, seen.value_var, factor**2 * seen.slope_var)

    one = solve(Prls(), phi, memory=PrlsMemory(1.0, 1.0))
    two = solve(Prls(), other, memory=PrlsMemory(1.0 / factor, 1.0 / factor))
    assert one.stop is two.stop
    assert steps(two) == [step / factor for step in steps(one)]
    assert two.outcome.memory == tuple(number / factor for number in one.outcome.memory)


# ---- memory


def test_an_outlier_starts_again_from_the_mean():
    outcome = tell(begin(memory=PrlsMemory(0.5, 5000.0)), (0.3, -0.1)).outcome
    assert outcome.stop is Stop.PROBABLY_WOLFE
    assert outcome.memory == PrlsMemory(0.95 * 5000.0 + 0.05 * 0.5, 0.95 * 5000.0 + 0.05 * 0.5)


def test_steps_may_grow_forever_and_stay_finite():
    search, memory = Prls(), Prls().start()
    for _ in range(200):
        memory = solve(search, lambda step: Moments(-1.0, -step, 0.0, 0.0), memory=memory).outcome.memory
    assert memory.guess == 1e100
    assert memory.mean <= 1e100


def test_a_plain_pair_is_a_memory():
    pending = tell(begin(memory=(1, 1)), (0.0, 0.0))
    assert type(pending.outcome.memory) is PrlsMemory


@pytest.mark.parametrize("memory", [0.1, None, (1.0,), (1.0, 1.0, 1.0)])
def test_a_memory_is_a_pair(memory):
    with pytest.raises(ValueError) as caught:
        begin(memory=memory)
    assert str(caught.value) == (
        f"memory must be a PrlsMemory(guess, mean) (the previous search returned it), got {memory!r}"
    )


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF, 1e-101, 1e101, None])
@pytest.mark.parametrize(
    ("name", "reason"), [("guess", "it is the first step probed"), ("mean", "it is the mean of the steps before")]
)
def test_a_memory_is_made_of_steps(name, reason, value):
    with pytest.raises(ValueError) as caught:
        begin(memory=PrlsMemory(1.0, 1.0)._replace(**{name: value}))
    assert str(caught.value) == f"memory.{name} must be between 1e-100 and 1e+100 ({reason}), got {value!r}"


# ---- every way to end


def test_wolfe_at_once():
    outcome = tell(begin(), (0.0, 0.0)).outcome
    assert (outcome.step, outcome.probe, outcome.stop) == (1.0, 0, Stop.PROBABLY_WOLFE)


def test_the_last_of_the_budget():
    outcome = tell(begin(max_probes=1), (0.0, 0.0)).outcome
    assert (outcome.step, outcome.probe, outcome.stop) == (1.0, 0, Stop.PROBABLY_WOLFE_AT_LAST)


def test_the_lowest_when_the_budget_is_spent():
    pending = tell(begin(max_probes=4), (-0.5, -1.0), (-1.5, -1.0), (-3.5, -1.0), (9.0, 3.0))
    assert len(pending.transcript) == 4
    assert pending.outcome.stop is Stop.LOWEST_MEAN
    assert pending.outcome.probe == 2


def test_flat_at_the_origin():
    """Values without noise, slopes with nothing else, and the value at 1 for which the surrogate is flat at 0."""

    def slope_at_zero(value):
        surrogate = Surrogate(value_var=0.0, slope_var=1e12)
        surrogate.observe(1.0, value, 0.0)
        return surrogate.mean(0.0, 1)

    value = -slope_at_zero(0.0) / (slope_at_zero(1.0) - slope_at_zero(0.0))
    assert value > 0.0
    pending = tell(begin(value=0.0, value_var=0.0, slope_var=1e12, acceptance=0.9), (value, 0.0))
    outcome = pending.outcome
    assert len(pending.transcript) == 1
    assert (outcome.step, outcome.probe, outcome.stop) == (0.0, None, Stop.ALMOST_FLAT)
    assert outcome.memory == PrlsMemory(0.95, 0.95), "as if a step of 0 had been taken"


def test_an_uphill_start_takes_a_small_step():
    pending = tell(begin(slope=1.0), (1.5, 1.0))
    assert steps(pending) == [1.0, 0.01]
    assert pending.outcome.stop is Stop.BELIEVED_UPHILL
    assert pending.outcome.probe == 1


@pytest.mark.parametrize(
    "origin",
    [
        {"slope": 0.0},
        {"slope": -0.0},
        {"slope": -5e-324},
        {"slope": -1e-310},
        {"slope": -1e-200, "value_var": 1.0},
        {"slope": -1e-200, "slope_var": 1.0},
        {"value_var": INF},
        {"slope_var": INF},
    ],
    ids=str,
)
def test_a_vanished_slope_is_not_searched_along(origin):
    memory = PrlsMemory(0.3, 0.2)
    pending = begin(**{"value_var": 0.0, "slope_var": 0.0, **origin}, memory=memory)
    outcome = pending.outcome
    assert (outcome.step, outcome.probe, outcome.stop, outcome.memory) == (0.0, None, Stop.SLOPE_VANISHED, memory)
    assert pending.transcript == []
    assert Prls().surrogate(pending.origin, memory, []) is None


def test_a_tiny_slope_is_a_slope():
    assert begin(slope=-1e-150, value_var=0.0, slope_var=0.0).outcome is None


def test_points_too_close_for_the_surrogate():
    """Without noise, and with jumps of 100 orders of magnitude, the surrogate asks for ever closer points."""
    pending = tell(begin(value_var=0.0, slope_var=0.0, max_probes=20), (1e100, 1.0))
    assert pending.outcome.stop is Stop.SURROGATE_LOST
    assert (pending.outcome.step, pending.outcome.probe) == (0.0, None)
    assert pending.outcome.memory.guess >= 1e-100


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(*[st.floats() | st.sampled_from([1e308, -1e308, 1e-308, 0.0, NAN])] * 2), min_size=1, max_size=7
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=0.0),
    st.floats(min_value=0.0),
    st.floats(1e-100, 1e100),
)
def test_whatever_is_seen_it_ends_in_order(pairs, slope, value, value_var, slope_var, guess):
    """`Pending` refuses steps that are not finite and acceptance of what is not finite."""
    pending = tell(begin(slope, value, value_var, slope_var, PrlsMemory(guess, 1.0)), *pairs)
    assert len(pending.transcript) <= 7
    assert all(map(math.isfinite, pending.outcome.memory))
    assert min(pending.outcome.memory) > 0.0


# ---- probes that are not finite


@pytest.mark.parametrize("slope", [NAN, INF, -INF])
@pytest.mark.parametrize("value", [NAN, 0.3])
def test_it_stays_below_a_slope_that_is_not_finite(value, slope):
    pending = tell(begin(), (value, slope), (value, slope), (0.497, -0.1))
    assert steps(pending)[:2] == [1.0, 0.1]
    assert max(steps(pending)[2:]) < 0.1
    assert pending.outcome.probe >= 2


def test_the_next_search_begins_below_the_failures():
    pending = tell(begin(), (NAN, NAN))
    assert steps(pending) == pytest.approx([10.0**-k for k in range(7)])
    assert (pending.outcome.step, pending.outcome.probe, pending.outcome.stop) == (0.0, None, Stop.NON_FINITE)
    assert pending.outcome.memory == pytest.approx(PrlsMemory(1.3e-6, 0.95 + 0.05e-6))


@pytest.mark.parametrize("value", [0.0, -0.5])
def test_a_wall_needs_a_positive_value(value):
    """1000 F(0) is below F(0) where that is negative: such a probe would attract instead of repel."""
    pending = begin(value=value)
    pending.tell(Moments(-1.0, INF, 1e-4, 1e-4))
    assert pending.step == 0.1


def test_extrapolation_stays_below_a_failure():
    pending = begin()
    pending.tell(Moments(-1.0, -0.5, 1e-4, 1e-4))
    assert pending.step == 2.0
    pending.tell(Moments(NAN, NAN, NAN, NAN))
    assert pending.step == pytest.approx(1.1)
    tell(pending, (-0.6, -1.0))
    assert max(steps(pending)) == 2.0
    assert pending.outcome.probe not in (None, 1)


def test_no_room_is_left_below_a_failure():
    """Downhill up to 1, and nothing finite beyond: the points close in on 1 until rounding stops them."""
    pending = begin(value_var=0.0, slope_var=0.0, max_probes=60)
    while pending.outcome is None:
        slope = -1.0 if pending.step <= 1.0 else NAN
        pending.tell(Moments(slope, 0.5 - pending.step, 0.0, 0.0))
    assert (pending.outcome.step, pending.outcome.probe, pending.outcome.stop) == (1.0, 0, Stop.NO_PROGRESS)
    assert len(pending.transcript) < 25


# ---- variances


@pytest.mark.parametrize("name", ["value_var", "slope_var"])
@pytest.mark.parametrize("value", [-1e-20, NAN, -INF])
def test_a_variance_is_not_negative(name, value):
    sentence = f"{{}}.{name} must be a number that is not negative (it is a variance), got {value!r}"
    with pytest.raises(ValueError) as caught:
        begin(**{name: value})
    assert str(caught.value) == sentence.format("origin.at_zero")
    pending = begin()
    with pytest.raises(ValueError) as caught:
        pending.tell(Moments(**{"slope": -0.5, "value": 0.0, "value_var": 1.0, "slope_var": 1.0, name: value}))
    assert str(caught.value) == sentence.format("seen")


def test_the_variances_of_a_failed_probe_are_not_looked_at():
    begin().tell(Moments(NAN, NAN, NAN, NAN))
    begin().tell(Moments(1.0, INF, NAN, -1.0))


# ---- the surrogate of a search


def test_the_surrogate_is_there_to_be_looked_at():
    memory = PrlsMemory(0.25, 1.0)
    pending = begin(memory=memory)
    while pending.outcome is None:
        failed = len(pending.transcript) == 1
        pending.tell(Moments(NAN if failed else -1.0, 0.5 - pending.step, 1e-4, 1e-4))
    surrogate = Prls().surrogate(pending.origin, memory, pending.transcript)
    shown = sorted(step / 0.25 for step, seen in pending.transcript if seen.finite)
    assert len(shown) == 6
    assert surrogate.points == (0.0, *shown)
    assert [surrogate.mean(point) for point in shown] == pytest.approx([-point for point in shown], abs=0.01)


# ---- arguments


def refused(name, rule, reason, *values):
    return [pytest.param(name, rule, reason, value, id=f"{name}={value}") for value in values]


@pytest.mark.parametrize(
    ("name", "rule", "reason", "value"),
    [
        *refused("decrease", "between 0 and 1", "it is a part of the decrease promised by the slope", 0.0, 1.0, NAN),
        *refused(
            "curvature",
            "between decrease = 0.05 and 1",
            "otherwise no step may satisfy both conditions",
            0.05,
            1.0,
            NAN,
        ),
        *refused("acceptance", "between 0 and 1", "it is compared with a probability", 0.0, 1.0, -0.1, NAN),
        *refused(
            "step_first", "between 1e-100 and 1e+100", "it is the first step probed", 0.0, -1.0, 1e-101, INF, NAN, "1"
        ),
        *refused(
            "growth", "at least 1 and at most 100", "the next search begins at the last step times it", 0.9, 101.0, NAN
        ),
        *refused(
            "offset",
            "between 1e-3 and 1e6",
            "the surrogate's process starts so far before the origin",
            0.0,
            -1.0,
            1e7,
            NAN,
        ),
        *refused(
            "max_probes",
            "a whole number from 1 to 100",
            "a search needs at least one probe, and each may double the longest step",
            0,
            101,
            7.0,
            True,
            None,
        ),
    ],
)
def test_a_bad_argument_gets_its_sentence(name, rule, reason, value):
    with pytest.raises(ValueError) as caught:
        Prls(**{name: value})
    assert str(caught.value) == f"{name} must be {rule} ({reason}), got {value!r}"


def test_settings_are_named_and_fixed():
    with pytest.raises(TypeError):
        Prls(0.1)
    with pytest.raises(FrozenInstanceError):
        Prls().growth = 2.0
    assert Prls() == Prls() != Prls(max_probes=3)
    assert hash(Prls()) == hash(Prls())


def test_scipy_is_imported_only_when_it_is_needed():
    program = "import sys, gradline.searches; assert not {'scipy', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
