"""Angle: one evaluation per step; the angle between gradient and displacement sets the size of the next step."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import ClassVar, NamedTuple

from gradline.protocol import Heading, Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require, require_first, require_range

EARLY = 10.0
"""Added to the number of steps that a change is divided by, so that the first few cosines count for little."""
CHANGE_MAX = math.log(2.0)
"""Largest change of the logarithm of the step: a factor of two."""
FIRST_GROWTH = 2.0
"""Factor between two probes of the first search."""
FIRST_PART = 1 / 32
"""Part that is taken of the step found by the first search."""
CLEAR_SLOPES = 4
"""How many slopes the first search needs before it can tell signal from noise."""
CLEAR_ERRORS = 4.0
"""How many standard errors the mean of the slopes has to be below zero to be signal."""
CLEAR_PROBES = 5
"""How many sums of slopes above zero in a row end the first search, if the slopes have had signal."""
NOISE_SUM = 6.0
"""Sum of slopes that ends the first search, if the slopes have been noise."""
NOISE_PROBES = 16
"""How many slopes end the first search, if they have been noise."""
NOISE_PART = 1 / 16
"""Part of its last step that the first search has found, if the slopes have been noise."""
WARMUP_GROWTH = 1.1
"""Smallest factor between two steps of the warm-up."""
WARMUP_PART = 1 / 4
"""Part of the step found at which the warm-up ends."""
WARMUP_STEPS = 400
"""Number of steps after which the warm-up ends."""
FIRST_RETREAT = 1 / 16
"""Factor of the first probe of the first search, if it is too long."""
FIRST_RETREATS = 8
"""How often the first probe is multiplied by `FIRST_RETREAT` before the first search takes no step."""


class AngleMemory(NamedTuple):
    """The step, the number of steps taken, and running sums over cosines and steps."""

    step: float
    taken: int
    mean: float
    """Weighted mean of the cosines; the k-th has a weight proportional to k."""
    square: float
    """Sum of the squared cosines, each multiplied by the square of its weight in the mean."""
    length: float
    """Sum of all steps taken."""
    first: float = 0.0
    """The first step taken; 0 before it."""
    warmup: float = 0.0
    """The step at which the warm-up ends; 0 without one, or after it."""


@dataclass(frozen=True, kw_only=True)
class Angle:
    """Adapt the step to the cosine of the angle between the gradient and the displacement of the parameters.

    The displacement is the present point minus the mean of all earlier points. If the cosine c is negative, the loss
    still decreases along the displacement: the steps are too short for the distance to go. If c is positive, the
    displacement has passed the minimum along its line: the steps are too long for their noise. After n steps

        α ← α · exp((-gain · c + [c < 0] · climb · tanh(max(-t, 0)/2)) / (m + 10)),

    where t is the weighted mean of all cosines divided by its standard error. While α is shorter than the step that the
    first search found, m is the number of steps of the present size that add up to the sum of all steps, at most n;
    afterwards it is n. The first term follows the size of the cosine, the second one its significance: in many
    dimensions noise makes every cosine small, and only their mean over many steps shows that the steps are too short.
    The step at most doubles or halves for one cosine.

    * The first search doubles the step along the first direction, each time on the next mini-batch, and sums the
      slopes, each in units of |F'(0)| and at most 1; a sum below 0 is set to 0 (the test of Page for a change of sign).
      The slopes have signal once the mean of four or more is four standard errors below zero. Then the search ends when
      five sums in a row are above 0, and has found the geometric mean of this step and of the last one at which the sum
      was 0.
    * Slopes without signal are noise, and say nothing about the step until it is far too long: the search ends at a sum
      of 6, or after 16 slopes, and has found a 16th of this step.
    * A 32nd of the step found is taken. After slopes without signal a warm-up follows: the step grows by at least 10 %
      each time that the mean of the cosines is negative, until it is a quarter of the step found, a point was rejected,
      or 400 steps were taken.
    * A positive c, and the second term, are multiplied by 2α/ᾱ if that is below 1, where ᾱ is the mean of all steps
      taken. The overshoot of earlier, longer steps stays in the displacement, and must not shrink short steps further.
      So α falls hardly faster than 1/n.
    * A point that is not finite is evaluated again on the next mini-batch. If it still is not finite, it is rejected
      and the step is halved until a point is finite; the next step starts from one halving.
    * Torch optimizers report a slope as infinite where a step was far too long. After the first search they do so, at
      most once per step, for a positive slope where the gradient is more than ten times as long as usual. In the first
      search they do so for any slope where the gradient is more than thirty times longer or shorter than at the start;
      this ends the first search.

    Every other probe is accepted: one evaluation per step. After the first search the step depends on the cosines
    alone: `next_step` needs no direction. Derivation, limits and measurements:
    "How Angle works" in the documentation.

    Args:
        gain: how strongly the step follows the cosine.
        climb: how strongly significantly negative cosines increase the step, however small they are.
        step_first: the first step probed. It suits directions of about unit size in each coordinate, such as Adam's;
            for others the first search needs more probes. Where slopes are noise, the first step is at most 64 times
            as long.
        step_min: the smallest step.
        step_max: the largest step.
        guard: keep step n between α₁/(`guard`·√n) and α₁·`guard`/√n, where α₁ is the first step taken. With it, along
            steepest descent, training converges on convex losses ("A guarantee" in "How Angle works"), and there is no
            warm-up. `None`: no such bounds.
    """

    gain: float = 12.0
    climb: float = 1.0
    step_first: float = 1e-4
    step_min: float = 1e-12
    step_max: float = 1e7
    guard: float | None = None

    revision: ClassVar[int] = 11
    """Raised when the rule or `gradline.Angle` takes other steps with the same settings: results are kept by it."""
    observes: ClassVar[type[Heading]] = Heading
    observes_at_probes: ClassVar[type[Slope]] = Slope

    def __post_init__(self) -> None:
        require(0.0 < self.gain < math.inf, "gain", "positive and finite", "it scales the feedback", self.gain)
        require(0.0 <= self.climb < math.inf, "climb", "0 or more and finite", "it is a rate of growth", self.climb)
        if self.guard is not None:
            good = 1.0 <= self.guard < math.inf
            require(good, "guard", "None, or 1 or more and finite", "it bounds steps in units of the first", self.guard)
        require_range(self.step_min, self.step_max)
        require_first(self.step_first, self.step_min, self.step_max)

    def start(self) -> AngleMemory:
        """Return the memory before the first step."""
        return AngleMemory(self.step_first, 0, 0.0, 0.0, 0.0)

    def next_step(self, memory: AngleMemory, cosine: float, *, faded: bool = False) -> AngleMemory:
        """Return the memory with the next step, for the cosine at the present point; the step is not yet counted.

        If the gradient has `faded`, that is, if it is far shorter than the first one was, a step that is longer than
        the one found by the first search grows more slowly: the logarithm of the factor is multiplied by their ratio.
        Near a loss of zero, larger weights are always better, and cosines ask for ever longer steps.
        """
        n, horizon = memory.taken, memory.length / memory.step  # steps taken; steps of the present size for that path
        share = 2.0 * n / horizon if 2.0 * n < horizon else 1.0
        cosine = cosine * share if cosine > 0.0 else cosine
        weight = 2.0 / (n + 1)  # of the last of n cosines in their mean
        mean = memory.mean + weight * (cosine - memory.mean)
        square = (1.0 - weight) ** 2 * memory.square + (weight * cosine) ** 2
        error = math.sqrt(square)
        power = -self.gain * cosine
        if cosine < 0.0 and mean < 0.0 < error:
            power += share * self.climb * math.tanh(-mean / error / 2.0)
        found = memory.first / FIRST_PART  # by the first search
        m = min(n, horizon) if memory.step < found else n
        change = max(-CHANGE_MAX, min(CHANGE_MAX, power / (m + EARLY)))
        if faded and change > 0.0 and 0.0 < found < memory.step:
            change *= found / memory.step
        step = memory.step * math.exp(change)
        warmup = memory.warmup if memory.step < memory.warmup and n < WARMUP_STEPS else 0.0
        if warmup and mean < 0.0:
            step = max(step, min(memory.step * WARMUP_GROWTH, warmup))
        if self.guard is not None:
            fading = memory.first / math.sqrt(n + 1)
            step = max(fading / self.guard, min(fading * self.guard, step))
        step = max(self.step_min, min(self.step_max, step))
        return AngleMemory(step, n, mean, square, memory.length, memory.first, warmup)

    def count_step(self, memory: AngleMemory, halvings: int = 0) -> AngleMemory:
        """Return the memory after its step was taken, which was halved so many times.

        The next step is as if it had been halved once. After several halvings the data are more often at fault than the
        step, and the feedback would need long to double it again.
        """
        step, taken, mean, square, length, first, warmup = memory
        kept = step * 2.0 ** max(halvings - 1, 0)
        return AngleMemory(kept, taken + 1, mean, square, length + step, first or kept, warmup)

    def halve_step(self, memory: AngleMemory) -> AngleMemory:
        """Return the memory with half the step, after a point that was rejected; this ends the warm-up."""
        return memory._replace(step=memory.step / 2.0, warmup=0.0)

    def search(self, origin: Origin[Heading], memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Return a search: after the first one, a single probe unless a point is not finite."""
        _check(memory)
        if memory.taken == 0:
            return self._first(origin.at_zero.slope, memory)
        return self._take(self.next_step(memory, origin.at_zero.cosine), memory, 0, Stop.ANGLE)

    def _first(self, slope: float, memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Increase the step until the slopes are positive beyond their noise; take a part of it.

        The slope at the origin is measured on the mini-batch that the direction was computed from, so that it is the
        sum of signal and noise: a scale for all later slopes.
        """
        step, steep, probes = memory.step, abs(slope) or 1.0, 1
        seen = yield step
        for _ in range(FIRST_RETREATS):
            if seen.finite and seen.slope < steep:
                break
            step = max(FIRST_RETREAT * step, self.step_min)
            seen = yield step
            probes += 1
        if not (seen.finite and seen.slope < steep):
            return Outcome(0.0, None, Stop.UPHILL if seen.finite else Stop.NON_FINITE, memory)
        slopes: list[float] = []
        total, above, before, clear = 0.0, 0, 0.0, False
        while seen.finite:
            # A slope of exactly zero is a plateau, such as that of saturated outputs: the step is far too long.
            slopes.append(max(-1.0, min(1.0, seen.slope / steep)) if seen.slope != 0.0 else 1.0)
            clear = clear or _are_clear(slopes)
            total, above = total + slopes[-1], above + 1
            if total <= 0.0:
                total, above, before = 0.0, 0, step
            if (above >= CLEAR_PROBES) if clear else (total >= NOISE_SUM or len(slopes) >= NOISE_PROBES):
                break
            if FIRST_GROWTH * step > self.step_max:
                if before == step and (clear or max(slopes) < 0.0):
                    return self._taken(memory._replace(step=step), probes - 1, Stop.STEP_MAX)
                break
            step *= FIRST_GROWTH
            seen = yield step
            probes += 1
        found = math.sqrt(before * step) if clear else NOISE_PART * step
        warmup = 0.0 if clear or self.guard is not None else WARMUP_PART * found
        planned = memory._replace(step=max(FIRST_PART * found, self.step_min), warmup=warmup)
        return (yield from self._take(planned, memory, probes, Stop.FIRST_STEP))

    def _take(
        self, planned: AngleMemory, memory: AngleMemory, probes: int, stop: Stop
    ) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Take the planned step, or the first of its halves at which everything is finite.

        The step itself is evaluated twice: a mini-batch may be at fault, and the feedback would need long to double a
        step again. If no half is finite, the data are at fault, and the memory stays as it was before.
        """
        halvings = -1  # the first failure halves nothing
        while planned.step >= self.step_min:
            seen = yield planned.step
            if seen.finite:
                return self._taken(planned, probes, stop, max(halvings, 0))
            halvings += 1
            planned = self.halve_step(planned) if halvings else planned
            probes += 1
        return Outcome(0.0, None, Stop.NON_FINITE, memory)

    def _taken(self, memory: AngleMemory, probe: int, stop: Stop, halvings: int = 0) -> Outcome[AngleMemory]:
        return Outcome(memory.step, probe, stop, self.count_step(memory, halvings))


def _are_clear(slopes: Sequence[float]) -> bool:
    """Return whether the mean of the slopes is so far below zero that it is no noise."""
    if len(slopes) < CLEAR_SLOPES:
        return False
    mean = fmean(slopes)
    return mean < 0.0 and mean**2 * len(slopes) >= CLEAR_ERRORS**2 * variance(slopes, mean)


def _check(memory: AngleMemory) -> None:
    numbers = tuple(memory) if isinstance(memory, AngleMemory) else ()
    good = len(numbers) == 7 and all(isinstance(n, float | int) and math.isfinite(n) for n in numbers)
    good = good and memory.step > 0.0
    good = good and min(memory.taken, memory.square, memory.length, memory.first, memory.warmup) >= 0
    require(good, "memory", "an AngleMemory", "it has the previous step", memory)
