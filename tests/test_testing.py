"""The conformance suite: good searches pass it, and each way to break a rule gets its sentence."""

import inspect
import math
import random
import re
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

import gradline.function
import gradline.protocol
import gradline.testing
from gradline import codec, solve
from gradline.protocol import Moments, Outcome, Slope, Stop, Value
from gradline.searches import (
    Angle,
    Armijo,
    Fixed,
    GoldenSection,
    GolsB,
    GolsBack,
    GolsI,
    GolsMax,
    Prls,
    StrongWolfe,
    search_classes,
)
from gradline.testing import ZOO, Function, check_decrease, check_line_search, check_sign_change, check_strong_wolfe

SETTINGS = {
    "Angle": [Angle(), Angle(gain=100.0), Angle(step_first=1e3, step_max=1e3)],
    "Fixed": [Fixed(0.1), Fixed(1e6)],
    "Armijo": [Armijo(), Armijo(shrink=0.5, max_probes=3)],
    "GoldenSection": [GoldenSection(), GoldenSection(max_probes=4), GoldenSection(tolerance=1e-14)],
    "GolsB": [GolsB(), GolsB(max_probes=4)],
    "GolsBack": [GolsBack(), GolsBack(strict=True), GolsBack(max_probes=2)],
    "GolsI": [GolsI(), GolsI(strict=True), GolsI(max_probes=1), GolsI(growth=1.3)],
    "GolsMax": [GolsMax(), GolsMax(strict=True), GolsMax(max_probes=3)],
    "StrongWolfe": [StrongWolfe(), StrongWolfe(max_probes=None), StrongWolfe(curvature=0.1, max_probes=5)],
}


def every_search():
    """Each search of the package, in the settings above, or as it comes."""
    for name, kind in search_classes().items():
        yield from SETTINGS[name] if name in SETTINGS else [kind()]


@pytest.mark.parametrize("search", list(every_search()), ids=repr)
def test_every_search_conforms(search):
    check_line_search(search)


# ---- searches that break a rule


class Search:
    """The honest part: take a step of 0.1 unless that is not finite."""

    def start(self):
        return None

    def accept(self, seen):
        return Outcome(0.1, 0, Stop.FIXED, None) if seen.finite else Outcome(0.0, None, Stop.NON_FINITE, None)

    def search(self, origin, memory):
        return self.accept((yield 0.1))


def test_the_honest_part_conforms():
    check_line_search(Search())


class Endless(Search):
    def search(self, origin, memory):
        step = 0.1
        while True:
            yield step
            step /= 2.0


class Backwards(Search):
    def search(self, origin, memory):
        return self.accept((yield -0.1))


class ToNan(Search):
    def search(self, origin, memory):
        first = yield 0.1
        yield first.slope * 0.0 + 1.0
        return self.accept(first)


class NumpyProbe(Search):
    def accept(self, seen):
        return replace(super().accept(seen), probe=np.int64(0)) if seen.finite else super().accept(seen)


class NumpyStep(Search):
    def accept(self, seen):
        return replace(super().accept(seen), step=np.float64(0.1)) if seen.finite else super().accept(seen)


class Careless(Search):
    def accept(self, seen):
        return Outcome(0.1, 0, Stop.FIXED, None)


class NoOutcome(Search):
    def accept(self, seen):
        return 0.1


class WrongProbe(Search):
    def accept(self, seen):
        return Outcome(0.1, 1, Stop.FIXED, None)


class WrongStep(Search):
    def accept(self, seen):
        return Outcome(0.2, 0, Stop.FIXED, None)


class Raises(Search):
    def accept(self, seen):
        return super().accept(Slope(1.0 / seen.slope))


class ReadsAttributes(Search):
    def accept(self, seen):
        return super().accept(self.nothing)


class Impure(Search):
    def search(self, origin, memory):
        step = random.random()
        seen = yield step
        return replace(self.accept(seen), step=step if seen.finite else 0.0)


class Remembers(Search):
    """Begins where it last ended, by itself."""

    def __init__(self):
        self.step = 1.0

    def search(self, origin, memory):
        step = self.step
        seen = yield step
        self.step = step / 2.0 + 0.1
        return replace(self.accept(seen), step=step if seen.finite else 0.0)


class Shared(Search):
    """Two searches under way at once disturb each other; one after the other they do not."""

    under_way: ClassVar[list] = []

    def search(self, origin, memory):
        step = 0.1 + 0.1 * len(self.under_way)
        self.under_way.append(step)
        seen = yield 0.05
        self.under_way.clear()
        if not seen.finite:
            return self.accept(seen)
        if (yield step).finite:
            return Outcome(step, 1, Stop.FIXED, None)
        return Outcome(0.0, None, Stop.NON_FINITE, None)


class Counts(Search):
    """Harmless, but not the search it was."""

    def __init__(self):
        self.searches = 0

    def search(self, origin, memory):
        self.searches += 1
        return self.accept((yield 0.1))


class Unpicklable(Search):
    def __init__(self):
        self.rule = lambda: None


class ListMemory(Search):
    def accept(self, seen):
        return replace(super().accept(seen), memory=[0.1])


class NumpyMemory(Search):
    def start(self):
        return np.float64(1.0)


class Pair(NamedTuple):
    step: float
    count: int


class OtherMemory(Search):
    """Begins with a pair and hands on a triple."""

    def start(self):
        return Pair(0.1, 0)

    def accept(self, seen):
        return replace(super().accept(seen), memory=(0.1, 0, None))


class NewStart(Search):
    def start(self):
        return random.random()


class NotPassedOn(Search):
    """Hands on what it cannot take."""

    def start(self):
        return 0.1

    def search(self, origin, memory):
        yield math.sqrt(memory)
        return Outcome(0.0, None, Stop.NON_FINITE, -1.0)


class ReadsTheValue(Search):
    def accept(self, seen):
        return super().accept(seen) if seen.value < 1.0 else Outcome(0.0, None, Stop.NON_FINITE, None)


class ReadsTheVarianceAtTheOrigin(Search):
    observes = Value

    def search(self, origin, memory):
        return self.accept((yield 0.1 * (1.0 + origin.at_zero.slope_var)))


class Peeks(Search):
    """Declares slopes, and uses values where there are any."""

    def search(self, origin, memory):
        seen = yield 0.1
        if getattr(seen, "value", 0.0):
            seen = yield 0.1
            return replace(self.accept(seen), probe=1 if seen.finite else None)
        return self.accept(seen)


class LooksAtNumbers(Search):
    observes = float


class Returns(Search):
    """Accepts its first probe after a second one, without saying that it may."""

    def search(self, origin, memory):
        seen = yield 0.1
        yield 0.2
        yield 0.3
        return self.accept(seen)


class ForgetsItsCandidates(Returns):
    def candidates(self, transcript):
        return {0} if len(transcript) != 2 else {1}


class NoStart:
    def search(self, origin, memory):
        yield 0.1


BROKEN = {
    Endless: "a search must end, but it asks for more than 1000 probes. This is .*Endless.* on the function 'quadratic",
    Backwards: r"a search must ask for finite steps of 0 or more, but .* asked for -0\.1",
    ToNan: "a search must ask for finite steps of 0 or more, but .* asked for nan",
    NumpyProbe: r"a search must accept one of its 1 probes or None, got np\.int64\(0\)",
    NumpyStep: r"step of an outcome must be a plain float, got Outcome",
    Careless: r"must not accept a non-finite point, but .* accepted Slope\(slope=nan\).* on the function 'NaN beyond",
    NoOutcome: r"a search must return an Outcome, but .* returned 0\.1",
    WrongProbe: "a search must accept one of its 1 probes or None, got 1",
    WrongStep: r"outcome\.step must be the step of the accepted probe, 0\.1, got 0\.2",
    Raises: r"it raised ZeroDivisionError.* on the function 'quadratic.*\n  step 0\.1: Slope\(slope=0\.0\)",
    ReadsAttributes: "a search must not raise, but it raised AttributeError.*'nothing'",
    Impure: "a search must be pure, but a second time it asked for other steps: at probe 0 ",
    Remembers: "a search must be pure, but a second time it asked for other steps: at probe 0 ",
    Shared: r"pure, but with another one in progress it asked for other steps: at probe 1 0\.2 in place of 0\.1",
    Counts: "a search must not keep state in itself, but its attributes have changed",
    Unpicklable: r"a search must pickle \(so that training can be saved\), but it raised",
    ListMemory: r"memory must be made of plain numbers, strings, None and tuples of them \(it is saved\), got \[0\.1\]",
    NumpyMemory: r"memory must be made of plain numbers.*, got np\.float64\(1\.0\)",
    OtherMemory: r"nested as start\(\) is .* start\(\) gives Pair.* and the search returned \(0\.1, 0, None\)",
    NewStart: r"start\(\) must always give the same memory, but it gave 0\.\d+ and then 0\.\d+",
    NotPassedOn: "a search must not raise, but it raised ValueError",
    ReadsTheValue: r"must declare what it observes .*, but where it declares Slope it reads \.value",
    ReadsTheVarianceAtTheOrigin: r"must declare what it observes .*, but where it declares Value it reads \.slope_var",
    Peeks: "a search must use only what it declares, but .* if given more: 2 of them in place of 1",
    LooksAtNumbers: "observes must be Slope, Value, Moments or Heading, got <class 'float'>",
    Returns: r"must accept its last probe or one of its candidates .* it accepted probe 0, and after probe 1",
    ForgetsItsCandidates: r"it accepted probe 0, and after probe 1 its candidates were \[1\]",
    NoStart: r"a search must have start\(\) and a generator search\(origin, memory\)",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_rule_gets_its_sentence(broken):
    with pytest.raises(AssertionError) as caught:
        check_line_search(broken())
    message = str(caught.value)
    assert re.search(BROKEN[broken], message, re.DOTALL), message
    assert broken.__name__ in message
    assert "on the function '" in message


def test_candidates_that_are_kept_conform():
    class Keeps(Returns):
        def candidates(self, transcript):
            return {0}

    globals()["Keeps"] = Keeps  # pickle finds classes by name
    Keeps.__qualname__ = "Keeps"
    check_line_search(Keeps())


def test_own_functions_and_bounds():
    line = Function("a line", lambda step, evaluation: Moments(-1.0, -step, 0.0, 0.0))
    check_line_search(GolsI(), functions=[line], max_probes=27)
    with pytest.raises(AssertionError, match=r"more than 26 probes.* on the function 'a line'"):
        check_line_search(GolsI(), functions=[line], max_probes=26)


def test_memory_that_passes_can_be_saved():
    for memory in (None, 1, 0.5, True, "x", (1.0, None, (2, 3)), Pair(1.0, 2)):
        search = Search()
        search.start = lambda: memory
        assert codec.unpack_memory(search, codec.pack_memory(memory)) == memory
    with pytest.raises(TypeError):
        codec.pack_memory([0.1])


# ---- the zoo


def test_the_zoo_has_one_of_each_and_names_are_unique():
    names = [function.name for function in ZOO]
    assert len(set(names)) == len(names)
    assert names == [str(function) for function in ZOO]


@pytest.mark.parametrize("function", ZOO, ids=str)
def test_a_function_starts_finite_and_always_answers_the_same(function):
    assert function.at(0.0, 0).finite
    assert function.norm >= 0.0
    for evaluation, step in enumerate((0.0, 1e-8, 0.3, 7.0, 1e7)):
        seen = function.at(step, evaluation)
        assert isinstance(seen, Moments)
        assert repr(function.at(step, evaluation)) == repr(seen)
        assert seen.value_var >= 0.0
        assert seen.slope_var >= 0.0
    first, second = function.phi(), function.phi()
    assert [repr(first(step)) for step in (0.0, 0.1, 0.1)] == [repr(second(step)) for step in (0.0, 0.1, 0.1)]


@pytest.mark.parametrize("function", [function for function in ZOO if "nois" not in function.name], ids=str)
def test_slope_and_value_belong_together(function):
    for step in (3e-9, 1e-4, 0.005, 0.1, 5.0, 1e4):
        h = step * 1e-5
        below, at, above = (function.at(where, 1) for where in (step - h, step, step + h))
        if not (below.finite and at.finite and above.finite) or below.slope * above.slope < 0.0:
            continue  # nothing to compare, or perhaps a kink
        rounding = 1e-10 * max(abs(at.value), abs(at.slope) * step) / h
        assert (above.value - below.value) / (2 * h) == pytest.approx(at.slope, rel=1e-3, abs=rounding)


def test_noise_is_as_large_as_its_variance_says():
    (function,) = [function for function in ZOO if function.name == "nothing but noise"]
    seen = [function.at(0.1, evaluation) for evaluation in range(4000)]
    for numbers in ([s.slope for s in seen], [s.value for s in seen]):
        assert np.mean(numbers) == pytest.approx(0.0, abs=0.1)
        assert np.var(numbers) == pytest.approx(seen[0].slope_var, rel=0.1)


# ---- the conditions


def test_conditions_pass_where_they_hold():
    check_sign_change(solve(GolsI(), lambda step: step - 0.3))
    record = solve(StrongWolfe(curvature=0.1), lambda step: Value(step - 0.3, (step - 0.3) ** 2 / 2))
    check_decrease(record, 1e-4)
    check_strong_wolfe(record, 1e-4, 0.1)


def test_conditions_fail_with_all_the_numbers():
    with pytest.raises(AssertionError, match=r"needs two probes, but probe 0 was accepted"):
        check_sign_change(solve(Fixed(0.1), lambda step: 1.0))
    with pytest.raises(AssertionError, match=r"from - to \+ between steps 0\.25 and 0\.5, but it is 1\.0 and 1\.0"):
        check_sign_change(solve(GolsMax(overshoot=0.5, max_probes=2), lambda step: 1.0, memory=0.5))
    uphill = solve(Armijo(max_probes=1), lambda step: Value(-1.0, step))
    with pytest.raises(
        AssertionError, match=r"must decrease to -0\.5 = 0\.0 \+ 0\.5·1\.0·-1\.0, but it is 1\.0 in a sea"
    ):
        check_decrease(uphill, 0.5)
    with pytest.raises(AssertionError, match="a probe must have been accepted, but none was"):
        check_decrease(solve(Armijo(), lambda step: Value(-1.0, math.nan if step else 0.0)), 0.5)
    steep = solve(Armijo(), lambda step: Value(-1.0, -step))
    with pytest.raises(
        AssertionError, match=r"must be within ±0\.5, 0\.5 of the first one, but it is -1\.0 at step 1\.0"
    ):
        check_strong_wolfe(steep, 0.1, 0.5)


# ---- the examples


def examples():
    documented = [
        gradline.testing,
        gradline.testing.Function,
        gradline.testing.check_line_search,
        gradline.testing.check_strong_wolfe,
        gradline.function.solve,
        gradline.protocol.Pending,
    ]
    for thing in documented:
        for block in re.findall(r"```python\n(.*?)```", inspect.getdoc(thing), re.DOTALL):
            yield pytest.param(block, id=thing.__name__)


@pytest.mark.parametrize("block", list(examples()))
def test_the_examples_run(block):
    exec(compile(block, "<example>", "exec"), {"__name__": "__main__"})


@dataclass(frozen=True)
class ReadsNoiseOfProbes(Prls):
    """Declares that values will do at its probes, and reads variances there."""

    def search(self, origin, memory):
        seen = yield memory.guess
        return (
            Outcome(memory.guess, 0, Stop.FIXED, memory) if seen.slope_var else Outcome(0.0, None, Stop.FIXED, memory)
        )


def test_what_probes_show_is_declared_too():
    with pytest.raises(AssertionError, match=r"where it declares Value it reads \.slope_var"):
        check_line_search(ReadsNoiseOfProbes())
