"""PrLS, the probabilistic line search (Mahsereci and Hennig 2017), with the settings of the paper.

Units of one search: t = α/α_0, values (F - F(0))/(α_0 β), slopes F'/β, where β = |F'(0)|. The variances observed at the
origin are used for all observations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

from gradline.protocol import Moments, Origin, Outcome, Pending, Stop, Value
from gradline.searches.arguments import require, require_fraction, require_wolfe
from gradline.searches.surrogate import Belief, Surrogate, Units, wolfe

STEP_MIN, STEP_MAX = 1e-100, 1e100
"""Bounds of first steps, which keep steps and the squares of their inverses finite."""


class PrlsMemory(NamedTuple):
    """Memory passed from one search to the next."""

    guess: float
    """α_0, the first step to probe."""
    mean: float
    """The running mean of the accepted steps."""


@dataclass(frozen=True, kw_only=True)
class Prls:
    """Fit a Gaussian-process surrogate to the probes until a step probably satisfies the Wolfe conditions.

    1. Probe α_0: the previous step times `growth`, or `step_first` in the first search. Accept it if the surrogate's
       probability of the Wolfe conditions there is above `acceptance`.
    2. Otherwise test the earlier probes again, with the updated surrogate.
    3. Otherwise choose the next probe among the minima of the surrogate between the probes and one step beyond the last
       one, by the largest product of expected improvement and Wolfe probability.
    4. After `max_probes` probes, accept the one of lowest expected value.

    The method `surrogate` returns the [`Surrogate`][gradline.searches.surrogate.Surrogate], for inspection.

    Peculiarities of the authors' program that are kept:

    * The test for "almost flat" uses the covariance of value and slope; the variance of the slope was probably meant.
    * The rightmost probe is tested only once, not again with the updated surrogate.
    * If the start is probably uphill, the search ends with a small step, whatever is observed there.
    * The variances at the origin are used for all probes, so that probes need only a `Value`.

    Failures of the authors' program that are handled:

    * A slope of zero at the origin, or one so small that the scaled numbers overflow, ends the search with
      `Stop.SLOPE_VANISHED` before the first probe.
    * A non-finite value counts as 1000 F(0), as in the program, if F(0) is positive. A probe with a non-finite slope
      (or value, if F(0) is not positive) is not added to the surrogate, and later probes are below it. Neither is
      accepted: if no other probe is left, the search ends with `Stop.NON_FINITE`, at the origin.
    * If rounding makes the surrogate unusable, the search ends with `Stop.SURROGATE_LOST`, at the origin.
    * After these two the next search starts at the smallest step probed times `growth`.

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
        decrease: c1, the required fraction of the decrease predicted by the initial slope.
        curvature: c2, bound of the accepted slope as a fraction of the initial slope.
        acceptance: c_W, the probability of the Wolfe conditions above which a step is accepted.
        step_first: α_0 of the first search.
        growth: the factor from the accepted step to the first step of the next search.
        offset: τ, distance from the start of the surrogate's process to the origin, in units of α_0.
        max_probes: end after this many probes.
        inertia: weight of the running mean of steps when it is updated by a new step.
        outlier: a first step that differs from the running mean by more than this factor is replaced by it.
        closer: fraction of the distance to a non-finite probe at which the next probe is made.
        small: the step taken if the start is probably uphill, as a fraction of the smallest step probed.
        flat_slope: bound of the expected slope below which the surrogate counts as flat.
        flat_covariance: bound of the covariance of value and slope below which the surrogate counts as flat.
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
        require_wolfe(self.decrease, self.curvature)
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
            "a search needs at least one probe, and each may double the longest step",
            self.max_probes,
        )

    def start(self) -> PrlsMemory:
        """Return the memory of the first search: `step_first` as first step and as mean."""
        return PrlsMemory(self.step_first, self.step_first)

    def candidates(self, transcript: Sequence[tuple[float, Value]]) -> Collection[int]:
        """Return all probes: any of them may be accepted later."""
        return range(len(transcript))

    def surrogate(
        self, origin: Origin[Moments], memory: PrlsMemory, transcript: Sequence[tuple[float, Value]]
    ) -> Surrogate | None:
        """Return the surrogate after the probes of a transcript, in units of `memory.guess`.

        Returns `None` if the slope at the origin vanished (`Stop.SLOPE_VANISHED`).
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
        """Return the steps among which the search chooses its next probe after those of a transcript.

        These are the minima of the surrogate between the probes and, last, one step beyond them. The list is empty if
        there is no choice: before the first probe, if the start is probably uphill, if no probe so far could be added
        to the surrogate, and at the end of the search.
        """
        units = Units.of(origin.at_zero, _checked(memory).guess)
        if units is None:
            return []
        surrogate = units.surrogate(self.offset)
        number: dict[float, int | None] = {0.0: None}
        plan = _Plan(1.0)
        Pending.replay(cast(Any, self), origin, memory, transcript)  # raises if the steps are not those of this search
        for probe, (_, seen) in enumerate(transcript):
            try:
                plan = self._told(units, surrogate, plan, seen, number, probe)
            except (ZeroDivisionError, OverflowError):
                return []
        return [point * units.step for point in plan.options]

    def search(self, origin: Origin[Moments], memory: PrlsMemory) -> Generator[float, Value, Outcome[PrlsMemory]]:
        """Run one search; `memory` is the first step and the running mean of steps."""
        guess, _ = memory = _checked(memory)
        units = Units.of(origin.at_zero, guess)
        if units is None:
            return Outcome(0.0, None, Stop.SLOPE_VANISHED, memory)
        surrogate = units.surrogate(self.offset)
        number: dict[float, int | None] = {0.0: None}  # indices of the probes that may be accepted
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
        self, units: Units, surrogate: Surrogate, plan: _Plan, seen: Value, number: dict[float, int | None], probe: int
    ) -> _Plan:
        """Add the probe at `plan.point` to the surrogate and to `number`, and return the next plan."""
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
        """Return the next plan: accept a point in `fit` (the finite probes), or probe another point."""
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
        if len(beliefs) == 1:  # the surrogate has only the origin
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
        # As published, this compares with the last point probed, not with the rightmost one.
        return _Plan(after, 2.0 * extension if after == point + extension else extension, bound, options=options)

    def _accepts(self, zero: Belief, there: Belief) -> bool:
        return wolfe(zero, there, self.decrease, self.curvature).exceeds(self.acceptance)

    def _best(self, surrogate: Surrogate, options: Sequence[float], lowest: float) -> float:
        """Return the option of largest expected improvement times Wolfe probability, the first of equal ones."""
        if len(options) == 1:
            return options[0]
        zero = surrogate.at_seen(0)
        best, found = -1.0, options[0]
        for option in options:
            there = surrogate.at(option)
            merit = there.improvement(lowest)
            if merit > best:  # the probability is at most 1 and expensive
                merit *= wolfe(zero, there, self.decrease, self.curvature).probability
                if merit > best:
                    best, found = merit, option
        return found

    def _after(self, memory: PrlsMemory, step: float) -> PrlsMemory:
        """Return the memory after an accepted step."""
        mean = self.inertia * memory.mean + (1.0 - self.inertia) * step
        guess = self.growth * step
        if guess > self.outlier * mean or guess < mean / self.outlier:
            guess = mean
        return _within(guess, mean)

    def _below(self, memory: PrlsMemory, step: float) -> PrlsMemory:
        """Return the memory after a failed search: start at the smallest step probed, without the outlier rule."""
        return _within(self.growth * step, self.inertia * memory.mean + (1.0 - self.inertia) * step)


class _Plan(NamedTuple):
    """Next point to probe, or the point and reason to end at, in units of the first step."""

    point: float
    extension: float = 1.0
    """Distance from the rightmost point to the option beyond it."""
    bound: float = math.inf
    """The smallest non-finite point; probes stay below it."""
    small: bool = False
    """Whether the point is the small step that ends the search whatever is observed."""
    stop: Stop | None = None
    options: tuple[float, ...] = ()
    """Points among which this one was chosen, if there was a choice."""


def _settle(beliefs: list[Belief], plan: _Plan, fit: Collection[float], stop: Stop) -> _Plan:
    """End at the finite probe of lowest expected value, or at the last probe if none is finite."""
    rest = [belief for belief in beliefs[1:] if belief.point in fit]
    return _Plan(_lowest(rest).point if rest else plan.point, stop=stop)


def _lowest(beliefs: list[Belief]) -> Belief:
    """Return the belief of lowest expected value, the leftmost of equal ones."""
    return min(beliefs, key=lambda belief: belief.mean)


def _within(guess: float, mean: float) -> PrlsMemory:
    return PrlsMemory(max(STEP_MIN, min(STEP_MAX, guess)), max(STEP_MIN, min(STEP_MAX, mean)))


def _require_step(name: str, value: float, reason: str) -> None:
    if not (isinstance(value, float | int) and STEP_MIN <= value <= STEP_MAX):
        require(False, name, f"between {STEP_MIN:g} and {STEP_MAX:g}", reason, value)


def _checked(memory: PrlsMemory) -> PrlsMemory:
    pair = isinstance(memory, tuple) and len(memory) == 2
    require(pair, "memory", "a PrlsMemory(guess, mean)", "the previous search returned it", memory)
    _require_step("memory.guess", memory[0], "it is the first step probed")
    _require_step("memory.mean", memory[1], "it is the mean of the steps before")
    return memory if type(memory) is PrlsMemory else PrlsMemory(*memory)
