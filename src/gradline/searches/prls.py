"""PrLS, the probabilistic line search (Mahsereci and Hennig 2017), as the paper ran it.

Units of one search: t = α/α_0, values (F - F(0))/(α_0 β), slopes F'/β, where β = |F'(0)|. The noise is that of the
origin, for every observation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gradline.protocol import Moments, Origin, Outcome, Stop, Value
from gradline.searches.arguments import require, require_fraction
from gradline.searches.surrogate import Belief, Surrogate, wolfe
from gradline.searches.units import Units

STEP_MIN, STEP_MAX = 1e-100, 1e100
"""Where guesses stay, so that steps are finite and squares of their inverses too."""


class PrlsMemory(NamedTuple):
    """What one search hands the next."""

    guess: float
    """α_0, the first step to probe."""
    mean: float
    """The running mean of the accepted steps."""


@dataclass(frozen=True, kw_only=True)
class Prls:
    """Probe where a Gaussian-process surrogate expects most, until a step probably satisfies the Wolfe conditions.

    1. Probe α_0 (the previous step times `growth`; the very first time `step_first`). A step is accepted if the
       surrogate gives the Wolfe conditions there a probability above `acceptance`.
    2. Else look among the steps probed before: more is known of them now.
    3. Else probe, of the minima of the surrogate between the probes and one step beyond the last, the one with the
       largest product of expected improvement and Wolfe probability.
    4. When the probes are spent, take the step of lowest expected value.

    The [`Surrogate`][gradline.searches.surrogate.Surrogate] is there to be looked at: see `surrogate`.

    Where the authors' program is odd, this does the same:

    * the test for "almost flat" reads the covariance of value and slope, where the slope's variance was probably meant;
    * the rightmost step probed is looked at once, and not again when more is known;
    * a start believed uphill ends the search with a small step, whatever is seen there;
    * the noise is the origin's: of the probes it needs no variances (a `Value` will do).

    Where it would go wrong, this does not:

    * A slope of zero at the origin, or one so small that the scaled numbers overflow, ends with `Stop.SLOPE_VANISHED`
      before anything is probed.
    * A value that is not finite counts as 1000 F(0), as there, if that is positive. A probe whose slope is not finite
      (or whose value is not, where F(0) is not positive) is not shown to the surrogate, and the search stays below it.
      Neither is ever accepted: if nothing else is left the search ends with `Stop.NON_FINITE`, at the origin.
    * Where rounding leaves nothing of the surrogate the search ends with `Stop.SURROGATE_LOST`, at the origin.
    * After these two the next search begins at the smallest step probed, times `growth`.

    ```python
    from gradline import solve
    from gradline.protocol import Moments
    from gradline.searches import Prls

    bowl = lambda step: Moments(step - 0.3, step * (step / 2 - 0.3), value_var=1e-6, slope_var=1e-6)
    record = solve(Prls(step_first=1.0), bowl)
    assert abs(record.step - 0.3) < 0.001
    assert str(record.stop) == "the step probably satisfies the Wolfe conditions"
    ```

    Args:
        decrease: c1, the part of the decrease promised by the initial slope that must be reached.
        curvature: c2, the part of the initial slope that may remain.
        acceptance: c_W, the probability of the two Wolfe conditions above which a step is accepted.
        step_first: α_0 of the first search.
        growth: how much longer than the accepted step the next search begins.
        offset: τ, how far before the origin the surrogate's process started, in units of α_0.
        max_probes: end after this many probes.
        inertia: how much of the running mean of steps a new step leaves.
        outlier: a guess so many times above or below the running mean is replaced by it.
        closer: after a point where nothing finite was seen the next is at most this part of the way there.
        small: the small step where the start is believed uphill, as a part of the smallest step probed.
        flat_slope: below it, and `flat_covariance`, the surrogate counts as flat.
        flat_covariance: see `flat_slope`.
    """

    observes: ClassVar[type[Moments]] = Moments
    observes_at_probes: ClassVar[type[Value]] = Value

    decrease: float = 0.05
    curvature: float = 0.5
    acceptance: float = 0.3
    step_first: float = 1e-4
    growth: float = 1.3
    offset: float = 10.0
    max_probes: int = 7
    inertia: float = 0.95
    outlier: float = 100.0
    closer: float = 0.1
    small: float = 0.01
    flat_slope: float = 1e-5
    flat_covariance: float = 1e-4

    def __post_init__(self) -> None:
        require_fraction("decrease", self.decrease, "it is a part of the decrease promised by the slope")
        require(
            self.decrease < self.curvature < 1.0,
            "curvature",
            f"between decrease = {self.decrease!r} and 1",
            "otherwise no step may satisfy both conditions",
            self.curvature,
        )
        require_fraction("acceptance", self.acceptance, "it is compared with a probability")
        _require_step("step_first", self.step_first, "it is the first step probed")
        require(1.0 < self.outlier < math.inf, "outlier", "above 1 and finite", "it is a factor", self.outlier)
        for name in ("inertia", "closer", "small"):
            require_fraction(name, getattr(self, name), "it is a part")
        for name in ("flat_slope", "flat_covariance"):
            value = getattr(self, name)
            require(0.0 <= value < math.inf, name, "0 or more and finite", "what is below it counts as flat", value)
        require(
            1.0 <= self.growth <= self.outlier,
            "growth",
            f"at least 1 and at most {self.outlier:g}",
            "the next search begins at the last step times it",
            self.growth,
        )
        require(
            1e-3 <= self.offset <= 1e6,
            "offset",
            "between 1e-3 and 1e6",
            "the surrogate's process starts so far before the origin",
            self.offset,
        )
        require(
            type(self.max_probes) is int and 1 <= self.max_probes <= 100,
            "max_probes",
            "a whole number from 1 to 100",
            "a search must look at one step, and each may double the longest",
            self.max_probes,
        )

    def start(self) -> PrlsMemory:
        """The first guess, which is also the first mean."""
        return PrlsMemory(self.step_first, self.step_first)

    def candidates(self, transcript: Sequence[tuple[float, Value]]) -> Collection[int]:
        """All probes: any of them may turn out to be the best."""
        return range(len(transcript))

    def surrogate(
        self, origin: Origin[Moments], memory: PrlsMemory, transcript: Sequence[tuple[float, Value]]
    ) -> Surrogate | None:
        """The surrogate as it was after the probes of a transcript, in units of `memory.guess`.

        It is `None` where the slope at the origin vanished.
        """
        units = Units.of(origin.at_zero, _checked(memory).guess)
        if units is None:
            return None
        surrogate = units.surrogate(self.offset)
        for step, seen in transcript:
            shown = units.scaled(seen)
            if shown is not None:
                surrogate.observe(step / units.step, *shown)
        return surrogate

    def considered(
        self, origin: Origin[Moments], memory: PrlsMemory, transcript: Sequence[tuple[float, Value]]
    ) -> list[float]:
        """The steps among which the search chose its next probe after those of a transcript.

        They are the minima of the surrogate between the probes, and last the one step beyond. The list is empty where
        there was no choice: before the first probe, at the small step of a start believed uphill, where all probes so
        far were not finite, and at the end.
        """
        units = Units.of(origin.at_zero, _checked(memory).guess)
        if units is None:
            return []
        surrogate = units.surrogate(self.offset)
        number: dict[float, int | None] = {0.0: None}
        plan = _Plan(1.0)
        for probe, (step, seen) in enumerate(transcript):
            if plan.stop is not None or plan.point * units.step != step:
                asked = "nothing more" if plan.stop is not None else f"step {plan.point * units.step!r}"
                raise ValueError(
                    f"transcript must be one of {self!r}: at probe {probe} it has step {step!r} "
                    f"where the search asks for {asked}"
                )
            try:
                plan = self._told(units, surrogate, plan, seen, number, probe)
            except (ZeroDivisionError, OverflowError):
                return []
        return [point * units.step for point in plan.options]

    def search(self, origin: Origin[Moments], memory: PrlsMemory) -> Generator[float, Value, Outcome[PrlsMemory]]:
        """One search; `memory` is the guess and the running mean of steps."""
        guess, _ = memory = _checked(memory)
        units = Units.of(origin.at_zero, guess)
        if units is None:
            return Outcome(0.0, None, Stop.SLOPE_VANISHED, memory)
        surrogate = units.surrogate(self.offset)
        number: dict[float, int | None] = {0.0: None}  # of the probes that may be accepted; the origin is none
        probes, smallest = 0, math.inf
        plan = _Plan(1.0)
        while True:
            point = plan.point
            seen = yield point * guess
            smallest = min(smallest, point)
            try:
                plan = self._told(units, surrogate, plan, seen, number, probes)
            except (ZeroDivisionError, OverflowError):  # points so close to each other that h⁴ is zero
                return Outcome(0.0, None, Stop.SURROGATE_LOST, self._below(memory, smallest * guess))
            if plan.stop is not None:
                if plan.point not in number:
                    return Outcome(0.0, None, Stop.NON_FINITE, self._below(memory, smallest * guess))
                step = plan.point * guess
                return Outcome(step, number[plan.point], plan.stop, self._after(memory, step))
            probes += 1

    def _told(
        self,
        units: Units,
        surrogate: Surrogate,
        plan: _Plan,
        seen: Value,
        number: dict[float, int | None],
        probe: int,
    ) -> _Plan:
        """What to do after a probe at the point of a plan; it becomes known to the surrogate, and gets its number."""
        point = plan.point
        if seen.finite:
            number[point] = probe
        shown = units.scaled(seen)
        if shown is not None:
            surrogate.observe(point, *shown)
        else:
            plan = plan._replace(bound=min(plan.bound, point))
        return self._decide(surrogate, plan, number, probe + 1 >= self.max_probes)

    def _decide(self, surrogate: Surrogate, plan: _Plan, fit: Collection[float], last: bool) -> _Plan:
        """What to do after a probe: accept a point (one in `fit`: the others are not finite), or probe another."""
        point, extension, bound, small, *_ = plan
        if small:
            return _Plan(point, stop=Stop.BELIEVED_UPHILL)
        zero = surrogate.at_seen(0)
        if point in fit:
            there = surrogate.at(point)
            if not math.isfinite(zero.mean + there.mean):
                raise OverflowError
            if self._accepts(zero, there):
                return _Plan(point, stop=Stop.PROBABLY_WOLFE_AT_LAST if last else Stop.PROBABLY_WOLFE)
        beliefs = surrogate.beliefs()
        if last:
            return _settle(beliefs, plan, fit, Stop.LOWEST_MEAN)
        if len(beliefs) == 1:  # nothing seen yet but the origin
            return plan._replace(point=self.closer * bound, options=())
        lowest = _lowest(beliefs)
        if abs(lowest.slope) < self.flat_slope and lowest.covariance < self.flat_covariance and lowest.point in fit:
            return _Plan(lowest.point, stop=Stop.ALMOST_FLAT)
        minima = surrogate.minima()
        if minima[0] is None and zero.slope > 0.0:
            return plan._replace(point=self.small * min(beliefs[1].point, bound), small=True, options=())
        fine = [one for one in beliefs[1:-1] if one.point in fit and self._accepts(zero, one)]
        if fine:
            return _Plan(_lowest(fine).point, stop=Stop.PROBABLY_WOLFE_EARLIER)
        ahead = beliefs[-1].point + extension
        if bound < math.inf:
            before = max(one.point for one in beliefs if one.point < bound)
            ahead = before + self.closer * (bound - before)
            if not before < ahead < bound:
                return _settle(beliefs, plan, fit, Stop.NO_PROGRESS)
        options = (*(one for one in minima if one is not None and one < bound), ahead)
        after = self._best(surrogate, options, lowest.mean)
        # As published: the last point probed, not the rightmost one.
        return _Plan(after, 2.0 * extension if after == point + extension else extension, bound, options=options)

    def _accepts(self, zero: Belief, there: Belief) -> bool:
        return wolfe(zero, there, self.decrease, self.curvature).exceeds(self.acceptance)

    def _best(self, surrogate: Surrogate, options: Sequence[float], lowest: float) -> float:
        """The option of largest expected improvement times Wolfe probability, the first of equals."""
        if len(options) == 1:
            return options[0]
        zero = surrogate.at_seen(0)
        best, found = -1.0, options[0]
        for option in options:
            there = surrogate.at(option)
            merit = there.improvement(lowest)
            if merit > best:  # the probability is at most 1, and dear
                merit *= wolfe(zero, there, self.decrease, self.curvature).probability
                if merit > best:
                    best, found = merit, option
        return found

    def _after(self, memory: PrlsMemory, step: float) -> PrlsMemory:
        """The memory after an accepted step."""
        mean = self.inertia * memory.mean + (1.0 - self.inertia) * step
        guess = self.growth * step
        if guess > self.outlier * mean or guess < mean / self.outlier:
            guess = mean
        return _within(guess, mean)

    def _below(self, memory: PrlsMemory, step: float) -> PrlsMemory:
        """The memory where even the smallest step probed gave nothing finite: begin there, outlier or not."""
        return _within(self.growth * step, self.inertia * memory.mean + (1.0 - self.inertia) * step)


class _Plan(NamedTuple):
    """Where a search stands, in units of its guess: the next point to probe, or where and why it ends."""

    point: float
    extension: float = 1.0
    """How far beyond the rightmost point to look."""
    bound: float = math.inf
    """Where nothing finite was seen: stay below."""
    small: bool = False
    """Whether the point is the small step that is taken whatever is seen."""
    stop: Stop | None = None
    options: tuple[float, ...] = ()
    """Among which the point was chosen, if there was a choice."""


def _settle(beliefs: list[Belief], plan: _Plan, fit: Collection[float], stop: Stop) -> _Plan:
    """End at the probe of lowest expected value; where none is fit, at the last one, which says so."""
    rest = [belief for belief in beliefs[1:] if belief.point in fit]
    return _Plan(_lowest(rest).point if rest else plan.point, stop=stop)


def _lowest(beliefs: list[Belief]) -> Belief:
    """The one of lowest expected value, the leftmost of equals."""
    return min(beliefs, key=lambda belief: belief.mean)


def _within(guess: float, mean: float) -> PrlsMemory:
    return PrlsMemory(max(STEP_MIN, min(STEP_MAX, guess)), max(STEP_MIN, min(STEP_MAX, mean)))


def _require_step(name: str, value: float, reason: str) -> None:
    if not (isinstance(value, float | int) and STEP_MIN <= value <= STEP_MAX):
        require(False, name, f"between {STEP_MIN:g} and {STEP_MAX:g}", reason, value)


def _checked(memory: PrlsMemory) -> PrlsMemory:
    pair = isinstance(memory, tuple) and len(memory) == 2
    require(pair, "memory", "a PrlsMemory(guess, mean)", "it is what the search before handed on", memory)
    _require_step("memory.guess", memory[0], "it is the first step probed")
    _require_step("memory.mean", memory[1], "it is the mean of the steps before")
    return memory if type(memory) is PrlsMemory else PrlsMemory(*memory)
