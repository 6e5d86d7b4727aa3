"""Angle: one evaluation per step; the angle between gradient and displacement sets the size of the next step."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gradline.protocol import Heading, Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require, require_first, require_range

EARLY = 10.0
"""Added to the number of steps in the rate of the feedback, so that the first few cosines count for little."""
FACTOR_MAX = 2.0
"""Largest factor between two successive steps."""
FIRST_GROWTH = 2.0**0.5
"""Factor between two probes of the first search."""
FIRST_UPHILL = 3.0
"""Sum of the slopes, in units of the slope at the origin, at which the first search ends."""
FIRST_RUN = 10
"""Number of positive slopes in a row at which the first search ends."""
FIRST_PART = 1 / 16
"""Part of the step at which the first search ends that is taken."""
FIRST_PART_DOWNHILL = 0.5
"""Largest part that is taken of the last step before the slopes became positive."""
FIRST_RETREATS = 8
"""How often the first search multiplies its first probe by `FIRST_PART` before it takes no step."""


class AngleMemory(NamedTuple):
    """The step, the number of steps taken, and running sums over cosines and steps."""

    step: float
    taken: int
    mean: float
    """Weighted mean of the cosines; the k-th has a weight proportional to k."""
    square: float
    """Sum of the squared cosines, each multiplied by the square of its weight in the mean."""
    length: float
    """Sum of the steps, weighted as in the displacement: ℓ ← n/(n + 1)·ℓ + α."""


@dataclass(frozen=True, kw_only=True)
class Angle:
    """Adapt the step to the cosine of the angle between the gradient and the displacement of the parameters.

    The displacement is the present point minus the mean of all earlier points. If the cosine c is negative, the loss
    still decreases along the displacement: the steps are too short for the distance to go. If c is positive, the
    displacement has passed the minimum along its line: the steps are too long for their noise. After n steps

        α ← α · exp((climb · tanh(max(-t, 0)/2)·[c < 0] - gain · c) / (n + 10)),

    where t is the weighted mean of all cosines divided by its standard error. The second term follows the size of the
    cosine. The first one follows its significance: in many dimensions noise makes every cosine small, and only their
    mean shows that the steps are too short.

    * The first search increases the step along the first direction, each time on the next mini-batch, and sums the
      slopes in units of |F'(0)|; a sum below 0 is set to 0. It ends when the sum reaches 3, or after 10 positive slopes
      in a row, and takes 1/16 of that step, or half of the last step before the positive slopes if that is less.
    * A positive c, and the first term, are multiplied by n·α/ℓ if that is below 1, where ℓ is the weighted sum of all
      steps in the displacement. Short steps are so not shrunk further for the overshoot of earlier, longer ones.
    * A point that is not finite is evaluated again on the next mini-batch. If it still is not finite, it is rejected
      and the step is halved.

    Every other probe is accepted: one evaluation per step. After the first search the step depends on the cosines
    alone: [`next_step`][gradline.searches.Angle.next_step] needs no direction. Derivation, limits and measurements:
    "One search for every batch size" in the documentation.

    Args:
        gain: how strongly the step follows the cosine; α changes like n to a power between -`gain` and `gain`.
        climb: how strongly the step follows significantly negative cosines, however small they are: up to n to the
            power of `climb`.
        step_first: the first step probed. It suits directions of about unit size in each coordinate, such as Adam's;
            for others the first search needs more probes.
        step_min: the smallest step.
        step_max: the largest step.
    """

    gain: float = 12.0
    climb: float = 1.0
    step_first: float = 1e-3
    step_min: float = 1e-12
    step_max: float = 1e7

    observes: ClassVar[type[Heading]] = Heading
    observes_at_probes: ClassVar[type[Slope]] = Slope

    def __post_init__(self) -> None:
        require(0.0 < self.gain < math.inf, "gain", "positive and finite", "it scales the feedback", self.gain)
        require(0.0 <= self.climb < math.inf, "climb", "0 or more and finite", "it is a rate of growth", self.climb)
        require_range(self.step_min, self.step_max)
        require_first(self.step_first, self.step_min, self.step_max)

    def start(self) -> AngleMemory:
        """Return the memory before the first step."""
        return AngleMemory(self.step_first, 0, 0.0, 0.0, 0.0)

    def next_step(self, memory: AngleMemory, cosine: float) -> AngleMemory:
        """Return the memory with the next step, for the cosine at the present point; the step is not yet counted."""
        recent = memory.taken * memory.step
        share = recent / memory.length if recent < memory.length else 1.0
        cosine = cosine * share if cosine > 0.0 else cosine
        weight = 2.0 / (memory.taken + 1)  # of the last of n cosines in their mean
        mean = memory.mean + weight * (cosine - memory.mean)
        square = (1.0 - weight) ** 2 * memory.square + (weight * cosine) ** 2
        t = mean / math.sqrt(square) if square > 0.0 else 0.0
        climb = share * self.climb * math.tanh(-t / 2.0) if t < 0.0 and cosine < 0.0 else 0.0
        change, most = (climb - self.gain * cosine) / (memory.taken + EARLY), math.log(FACTOR_MAX)
        step = memory.step * math.exp(max(-most, min(most, change)))
        return memory._replace(step=max(self.step_min, min(self.step_max, step)), mean=mean, square=square)

    def count_step(self, memory: AngleMemory) -> AngleMemory:
        """Return the memory after its step was taken."""
        n = memory.taken
        return memory._replace(taken=n + 1, length=n / (n + 1) * memory.length + memory.step)

    def halve_step(self, memory: AngleMemory) -> AngleMemory:
        """Return the memory with half the step, after a point that was not finite."""
        return memory._replace(step=memory.step / 2.0)

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
        step, steep, probes = memory.step, abs(slope), 1
        seen = yield step
        for _ in range(FIRST_RETREATS):
            if seen.finite and seen.slope < steep:
                break
            step = max(FIRST_PART * step, self.step_min)
            seen = yield step
            probes += 1
        if not (seen.finite and seen.slope < steep):
            return Outcome(0.0, None, Stop.UPHILL if seen.finite else Stop.NON_FINITE, memory)
        total, run, before = max(0.0, seen.slope), int(seen.slope > 0.0), step
        while total < FIRST_UPHILL * steep and run < FIRST_RUN:
            if FIRST_GROWTH * step > self.step_max:
                if run == 0:
                    return self._taken(memory._replace(step=step), probes - 1, Stop.STEP_MAX)
                break
            before = before if run else step
            step *= FIRST_GROWTH
            seen = yield step
            probes += 1
            if not seen.finite:
                break
            total = max(0.0, total + seen.slope)
            run = run + 1 if seen.slope > 0.0 else 0
        step = max(min(FIRST_PART * step, FIRST_PART_DOWNHILL * before), self.step_min)
        return (yield from self._take(memory._replace(step=step), memory, probes, Stop.SIGN_CHANGE))

    def _take(
        self, planned: AngleMemory, memory: AngleMemory, probes: int, stop: Stop
    ) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Take the planned step, or the first of its halves at which everything is finite.

        The step itself is evaluated twice: a mini-batch may be at fault, and the feedback would need long to double a
        step again. If no half is finite, the data are at fault, and the memory stays as it was before.
        """
        again = True
        while planned.step >= self.step_min:
            seen = yield planned.step
            if seen.finite:
                return self._taken(planned, probes, stop)
            planned = planned if again else self.halve_step(planned)
            again = False
            probes += 1
        return Outcome(0.0, None, Stop.NON_FINITE, memory)

    def _taken(self, memory: AngleMemory, probe: int, stop: Stop) -> Outcome[AngleMemory]:
        return Outcome(memory.step, probe, stop, self.count_step(memory))


def _check(memory: AngleMemory) -> None:
    numbers = tuple(memory) if isinstance(memory, AngleMemory) else ()
    good = len(numbers) == 5 and all(isinstance(n, float | int) and math.isfinite(n) for n in numbers)
    good = good and memory.step > 0.0 and min(memory.taken, memory.square, memory.length) >= 0
    require(good, "memory", "an AngleMemory", "it has the previous step", memory)
