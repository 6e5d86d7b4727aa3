"""The protocol: what `Pending` does, and the sentence that each misuse of it gets."""

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gradline.function import solve
from gradline.protocol import (
    Heading,
    Moments,
    Origin,
    Outcome,
    Pending,
    Record,
    Slope,
    Stop,
    Value,
    candidates,
    observes,
    observes_at_probes,
)
from gradline.searches import Armijo, GolsB, GolsI, Prls

ORIGIN = Origin(Slope(-1.0), 1.0)


@dataclass(frozen=True)
class Scripted:
    """Asks for the given steps, then returns the given thing."""

    steps: tuple
    end: object = None

    def start(self):
        return None

    def search(self, origin, memory):
        for step in self.steps:
            _ = yield step
        return self.end


def pending_of(*steps, end=None):
    return Pending(Scripted(steps, end), ORIGIN, None)


def begun(search=None):
    search = search or GolsI()
    return Pending(search, ORIGIN, search.start())


def finish(pending, slope=lambda step: step - 0.1):
    while pending.outcome is None:
        pending.tell(Slope(slope(pending.step)))
    return pending


def test_a_conversation_from_beginning_to_end():
    pending = begun()
    assert pending.step == 1e-8
    assert pending.transcript == []
    pending.tell(Slope(-1.0))
    assert pending.step == 2e-8
    pending.tell(Slope(1.0))
    assert pending.outcome == Outcome(2e-8, 1, Stop.SIGN_CHANGE, 2e-8)
    assert pending.transcript == [(1e-8, Slope(-1.0)), (2e-8, Slope(1.0))]


def test_a_record_is_one_value_and_unpacks():
    pending = finish(begun())
    record = pending.record
    outcome, transcript = record
    assert isinstance(record, Record)
    assert outcome is pending.outcome
    assert transcript == pending.transcript
    assert record.origin is ORIGIN
    assert (record.step, record.stop, record.evaluations) == (outcome.step, outcome.stop, len(transcript))


def test_a_search_may_end_without_a_probe():
    pending = pending_of(end=Outcome(0.0, None, Stop.UPHILL, None))
    assert pending.outcome is not None
    assert pending.record.evaluations == 0


def test_a_search_may_accept_an_earlier_probe():
    pending = pending_of(0.5, 0.7, end=Outcome(0.5, 0, Stop.TOLERANCE, None))
    pending.tell(Slope(1.0))
    pending.tell(Slope(math.nan))
    assert pending.outcome.probe == 0


def test_a_step_of_zero_is_allowed():
    pending = pending_of(0, end=Outcome(0, 0, Stop.FIXED, None))
    pending.tell(Slope(1.0))
    assert pending.record.step == 0


# ---- misuse by the driver


def misuse(error: type[Exception], sentence: str, act: Callable[[], object]):
    with pytest.raises(error) as caught:
        act()
    assert sentence in str(caught.value)


def test_tell_after_the_end():
    misuse(
        RuntimeError,
        "the search has ended (the slope changed sign between the last two steps): it takes no more observations",
        lambda: finish(begun()).tell(Slope(1.0)),
    )


def test_step_after_the_end():
    misuse(RuntimeError, "it has no further step; read .outcome", lambda: finish(begun()).step)


def test_record_before_the_end():
    misuse(
        RuntimeError,
        "the search has not ended: it waits for the observation at step 1e-08",
        lambda: begun().record,
    )


@pytest.mark.parametrize("seen", [1.0, None, (1.0,), "x"])
def test_what_is_told_must_be_an_observation(seen):
    pending = begun()
    misuse(TypeError, "seen must be a Slope (GolsI observes it), got", lambda: pending.tell(seen))
    assert pending.transcript == []
    finish(pending)  # a refused tell leaves the search as it was


def test_less_than_a_search_looks_at_is_refused():
    search = Armijo()
    misuse(
        TypeError,
        "origin.at_zero must be a Value (Armijo observes it), got Slope(slope=-1.0)",
        lambda: Pending(search, ORIGIN, search.start()),
    )
    pending = Pending(search, Origin(Value(-1.0, 0.0), 1.0), search.start())
    misuse(TypeError, "seen must be a Value (Armijo observes it)", lambda: pending.tell(Slope(1.0)))


def test_more_than_a_search_looks_at_is_fine():
    search = GolsI()
    pending = Pending(search, Origin(Moments(-1.0, 0.0, 0.0, 0.0), 1.0), search.start())
    pending.tell(Value(0.5, 1.0))
    assert pending.outcome.stop is Stop.ACCEPTED_AT_ONCE


def test_origin_must_be_an_origin():
    misuse(TypeError, "origin must be an Origin(at_zero, norm), got -1.0", lambda: Pending(GolsI(), -1.0, 1.0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_origin_must_be_finite(bad):
    misuse(
        ValueError,
        f"origin.at_zero must be finite (a search starts from a known slope), got Slope(slope={bad})",
        lambda: Pending(GolsI(), Origin(Slope(bad), 1.0), 1.0),
    )
    misuse(
        ValueError,
        "origin.at_zero must be finite",
        lambda: Pending(Armijo(), Origin(Value(-1.0, bad), 1.0), 1.0),
    )


@pytest.mark.parametrize("norm", [-1.0, -5e-324, math.nan, math.inf])
def test_norm_must_be_a_length(norm):
    misuse(
        ValueError,
        f"origin.norm must be finite and not negative (it is a length), got {norm!r}",
        lambda: Pending(GolsI(), Origin(Slope(-1.0), norm), 1.0),
    )


class ReturnsAList:
    def search(self, origin, memory):
        return [1.0]


@pytest.mark.parametrize("search", [None, 0.1, object(), ReturnsAList()])
def test_not_a_search(search):
    misuse(
        TypeError,
        "search must have start() and a generator search(origin, memory), got",
        lambda: Pending(search, ORIGIN, None),
    )


# ---- misuse by the search


@pytest.mark.parametrize("step", [-1.0, -5e-324, math.nan, math.inf, -math.inf, None, "1", 1j, (1.0,)])
def test_a_search_must_ask_for_finite_steps_of_0_or_more(step):
    sentence = f"a search must ask for finite steps of 0 or more, but {Scripted((step,))!r} asked for {step!r}"
    misuse(ValueError, sentence, lambda: pending_of(step))
    pending = pending_of(1.0, step)
    misuse(ValueError, f"asked for {step!r}", lambda: pending.tell(Slope(1.0)))


@pytest.mark.parametrize("end", [None, 1.0, (1.0, 0, Stop.FIXED, None), Stop.FIXED])
def test_a_search_must_return_an_outcome(end):
    pending = pending_of(1.0, end=end)
    misuse(TypeError, "a search must return an Outcome, but", lambda: pending.tell(Slope(1.0)))


@pytest.mark.parametrize("probe", [-1, 1, 7])
def test_a_search_must_accept_one_of_its_probes(probe):
    pending = pending_of(1.0, end=Outcome(1.0, probe, Stop.FIXED, None))
    misuse(
        ValueError,
        f"a search must accept one of its 1 probes or None, got {probe}",
        lambda: pending.tell(Slope(1.0)),
    )


@pytest.mark.parametrize(("probe", "step", "expected"), [(0, 0.5, 1.0), (None, 1.0, 0.0), (0, math.nan, 1.0)])
def test_the_step_of_an_outcome_is_that_of_its_probe(probe, step, expected):
    pending = pending_of(1.0, end=Outcome(step, probe, Stop.FIXED, None))
    misuse(
        ValueError,
        f"outcome.step must be the step of the accepted probe, {expected!r}, got {step!r}",
        lambda: pending.tell(Slope(1.0)),
    )


@pytest.mark.parametrize(
    "seen", [Slope(math.nan), Slope(math.inf), Slope(-math.inf), Value(1.0, math.nan), Moments(1.0, math.inf, 0.0, 0.0)]
)
def test_a_search_must_not_accept_a_non_finite_point(seen):
    pending = pending_of(1.0, end=Outcome(1.0, 0, Stop.FIXED, None))
    misuse(ValueError, "a search must not accept a non-finite point, but", lambda: pending.tell(seen))


# ---- replay, pickle, copy

WAYS = {
    "replay": lambda p: Pending.replay(p.search, p.origin, p.memory, p.transcript),
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("told", [0, 1, 5, 24, 25])
def test_a_copy_goes_on_where_the_original_stands(way, told):
    original = begun()
    for _ in range(told):
        original.tell(Slope(original.step - 0.1))
    twin = way(original)
    assert twin.transcript == original.transcript
    assert twin.outcome == original.outcome
    assert twin.memory == original.memory
    assert (twin.outcome is not None) == (told == 25)
    before = list(original.transcript)
    finish(twin)
    assert original.transcript == before, "the original must not notice"
    assert finish(original).record == twin.record


def test_a_copy_may_go_another_way():
    original = begun()
    twin = copy.copy(original)
    twin.tell(Slope(1.0))
    assert twin.outcome is not None
    assert original.outcome is None
    assert original.transcript == []


def test_replay_refuses_the_transcript_of_other_settings():
    pending = begun(GolsI(growth=4.0))
    pending.tell(Slope(-1.0))
    pending.tell(Slope(-1.0))
    misuse(
        ValueError,
        "at probe 1 it has step 4e-08 where the search asks for step 2e-08; was it recorded with other settings",
        lambda: Pending.replay(GolsI(), ORIGIN, 1e-8, pending.transcript),
    )


def test_replay_refuses_a_transcript_that_is_too_long():
    transcript = finish(begun()).transcript
    misuse(
        ValueError,
        "at probe 25 it has step 1.0 where the search asks for nothing more",
        lambda: Pending.replay(GolsI(), ORIGIN, 1e-8, [*transcript, (1.0, Slope(1.0))]),
    )


def test_repr_says_where_it_stands():
    pending = begun()
    assert repr(pending) == f"<Pending {GolsI()!r}: 0 probes, asks for step 1e-08>"
    assert repr(finish(pending)).endswith("25 probes, ended: the slope changed sign between the last two steps>")


# ---- the vocabulary


def test_what_a_search_looks_at():
    assert observes(GolsI()) is Slope
    assert observes(Armijo()) is observes_at_probes(Armijo()) is Value
    assert observes(Prls()) is Moments
    assert observes_at_probes(Prls()) is Value


def test_candidates_are_the_last_probe_unless_the_search_says_more():
    transcript = [(0.1, Slope(-1.0)), (0.2, Slope(1.0)), (0.15, Slope(2.0))]
    assert set(candidates(GolsI(), transcript)) == {2}
    assert set(candidates(GolsB(), transcript)) == {0, 2}


@pytest.mark.parametrize(
    ("seen", "finite"),
    [
        (Slope(1.0), True),
        (Slope(math.nan), False),
        (Value(1.0, 1.0), True),
        (Value(1.0, -math.inf), False),
        (Value(math.inf, 1.0), False),
        (Moments(1.0, 1.0, math.nan, math.inf), True),  # the noise is not the function
        (Moments(1.0, math.nan, 0.0, 0.0), False),
    ],
)
def test_finite_is_about_the_function(seen, finite):
    assert seen.finite is finite


def test_reasons_are_sentences():
    assert str(Stop.STEP_MAX) == Stop.STEP_MAX.value == "still downhill at the largest step allowed"
    assert len({stop.value for stop in Stop}) == len(Stop)


def test_a_record_is_shown_in_a_line_and_in_notebooks_with_its_probes():
    record = solve(GolsI(step_first=1.0), lambda step: step - 0.7)
    assert repr(record).startswith(f"<GolsI: step {record.step:.3g}, {record.evaluations} probe")
    assert str(record.stop) in repr(record)
    assert len(repr(record)) < 150
    assert record._repr_html_().count("<tr>") == 1 + record.evaluations


def test_the_scalars_of_a_record_are_its_finite_numbers():
    record = finish(begun()).record
    accepted = record.transcript[record.outcome.probe][1].slope
    expected = {"step": record.step, "slope/start": -1.0, "slope/accepted": accepted, "evaluations": record.evaluations}
    assert record.scalars() == expected
    assert all(type(number) is float for number in record.scalars().values())


def test_the_scalars_of_a_record_have_the_cosine_of_its_heading_and_no_slope_where_no_probe_was_accepted():
    origin = Origin(Heading(math.nan, -0.3, 0.6), 1.0)
    record = Record(GolsI(), origin, None, Outcome(0.0, None, Stop.NON_FINITE, None), [(1.0, Slope(math.nan))])
    assert record.scalars() == {"step": 0.0, "cosine": -0.5, "evaluations": 1.0}
