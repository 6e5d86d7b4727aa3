"""A candidate for Angle's rule, whose start is less a matter of luck: measured by `first_steps.py`, not in use.

In a plain loop with small batches its first search finds a step where the present one's depends on luck (at batch 8, a
median loss of 0.26 instead of 2.9 over 8 seeds). It is worse for a plain convolutional net at batch 64 (1.3e-3 instead
of 6.9e-4) and for steepest descent without noise, and takes 13 to 24 evaluations for its first search.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gradline.protocol import Heading, Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require, require_factor, require_first, require_fraction, require_range


class AngleMemory(NamedTuple):
    """What a search hands on to the next: its step, how many were taken, and the evidence of the cosines so far."""

    step: float
    taken: int
    mean: float
    """The weighted mean of the cosines, the k-th with a weight proportional to k."""
    square: float
    """The sum of their squares, each times the square of its weight in the mean."""
    length: float
    """The lengths of all steps, added up as the displacement adds up the steps: n/(n + 1) of it and the next."""


@dataclass(frozen=True, kw_only=True)
class Angle:
    """Take a step, look at the angle between the next gradient and the displacement so far, and adapt the step.

    The displacement leads from the mean of all earlier points to the present one. Where the gradient still points back
    along it (the cosine c is negative), going on the same way leads downhill: the steps are too short for how far there
    is to go. Where c is positive, the displacement has led past its lowest point: the steps are too long for their
    noise.

        α ← α · exp((-gain · c + climb · tanh(-t/2)) / (n + early)),    after n steps,

    where t is the weighted mean of all cosines over its standard error, and the second term is there only where both t
    and c are negative. The first term follows the size of the cosine, the second one its significance: in many
    dimensions noise makes all cosines small, and only their sum shows that the steps are too short.

    * The first search increases its step along the first direction, each time on the next mini-batch, and adds up the
      slopes, in units of the first slope |F'(0)|; a sum below 0 counts as 0. It ends where the sum reaches
      `uphill_sum`, or where `uphill_run` slopes in a row are positive, and takes the fraction `first` of that step, or
      `first_downhill` of the last step that was downhill if that is less.
    * A positive c, and the second term, count by how much of the displacement is made of steps like the last one: by
      n·α‖d‖ over the length of all steps, if that is below 1. What older, longer steps have overshot is not held
      against short ones, which would be shrunk to nothing before they can come back.
    * A point that is not finite is looked at again, on the next mini-batch. If it still is not, it is refused, and the
      step halved.

    Every other probe is accepted: one evaluation a step. Derivation, limits and measurements are told in
    "One search for every batch size" of the documentation.

    Args:
        gain: how quickly the step follows the angle; a step can change by n to the power of ± `gain`.
        climb: how quickly the step grows where the cosines are significantly negative, however small they are: up to n
            to the power of `climb`.
        early: feedback after n steps weighs 1/(n + `early`), so that the first few count for little.
        step_first: the first step that is probed, ever. It suits directions of about unit size in each coordinate, as
            Adam's are; from others the first search takes some probes more.
        growth: the factor between two probes of the first search.
        uphill_sum: the sum of slopes, in units of the first one, at which the first search ends.
        uphill_run: the number of positive slopes in a row at which it ends.
        first: the fraction that is taken of the step at which it ends.
        first_downhill: the largest fraction that is taken of the last step that was downhill. It matters where slopes
            stay small beyond it, as where units saturate.
        change_max: the largest factor by which a step differs from the one before.
        back: how often the first search takes the fraction `first` of a step whose slope is steeper uphill than
            the first one was downhill, before it gives the direction up and takes no step.
        step_min: the smallest step.
        step_max: the largest step.
    """

    gain: float = 12.0
    climb: float = 1.0
    early: float = 10.0
    step_first: float = 1e-3
    growth: float = 2.0**0.5
    uphill_sum: float = 3.0
    uphill_run: int = 10
    first: float = 1 / 16
    first_downhill: float = 0.5
    back: int = 8
    change_max: float = 2.0
    step_min: float = 1e-12
    step_max: float = 1e7

    observes: ClassVar[type[Heading]] = Heading
    observes_at_probes: ClassVar[type[Slope]] = Slope

    def __post_init__(self) -> None:
        require(0.0 < self.gain < math.inf, "gain", "positive and finite", "it scales the feedback", self.gain)
        require(0.0 <= self.climb < math.inf, "climb", "finite and at least 0", "it is a rate of growth", self.climb)
        require(0.0 < self.early < math.inf, "early", "positive and finite", "it is a number of steps", self.early)
        require_factor("growth", self.growth, "each probe of the first search multiplies the step by it")
        require(
            0.0 < self.uphill_sum < math.inf, "uphill_sum", "positive and finite", "slopes reach it", self.uphill_sum
        )
        for name in ("uphill_run", "back"):
            value = getattr(self, name)
            require(type(value) is int and value >= 1, name, "a whole number of at least 1", "it is a count", value)
        require_factor("change_max", self.change_max, "a step is at most so many times the one before")
        require_fraction("first", self.first, "the first search takes this part of a step that is too long")
        require_fraction("first_downhill", self.first_downhill, "a part of a step that was downhill is taken")
        require_range(self.step_min, self.step_max)
        require_first(self.step_first, self.step_min, self.step_max)

    def start(self) -> AngleMemory:
        """The first guess, and no step taken."""
        return AngleMemory(self.step_first, 0, 0.0, 0.0, 0.0)

    def search(self, origin: Origin[Heading], memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """One search; nearly always one probe."""
        _check(memory)
        if memory.taken == 0:
            outcome = yield from self._first(origin.at_zero.slope, memory)
        else:
            outcome = yield from self._take(
                self._adapted(memory, origin.at_zero.cosine, _share(memory, origin.norm)), 0, Stop.ANGLE
            )
        # Where not even the smallest step was finite the data are at fault, and nothing was learned about the step.
        if outcome.probe is None:
            return Outcome(0.0, None, outcome.stop, memory)
        length = memory.taken / (memory.taken + 1) * memory.length + outcome.step * origin.norm
        return Outcome(outcome.step, outcome.probe, outcome.stop, outcome.memory._replace(length=length))

    def _first(self, slope: float, memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Increase the step until the slopes are uphill beyond their noise, and take a part of it.

        The first slope is of the mini-batch that the direction was made for, so it is as steep as signal and noise
        together can be: a scale for all later ones.
        """
        step, steep, probes = memory.step, abs(slope), 1
        seen = yield step
        for _ in range(self.back):
            if seen.finite and seen.slope < steep:
                break
            step = max(self.first * step, self.step_min)
            seen = yield step
            probes += 1
        if not (seen.finite and seen.slope < steep):
            return Outcome(0.0, None, Stop.UPHILL if seen.finite else Stop.NON_FINITE, memory)
        total, run, before = max(0.0, seen.slope), int(seen.slope > 0.0), step
        while total < self.uphill_sum * steep and run < self.uphill_run:
            if self.growth * step > self.step_max:
                if run == 0:
                    return _taken(memory, step, probes - 1, Stop.STEP_MAX)
                break
            before = before if run else step
            step *= self.growth
            seen = yield step
            probes += 1
            if not seen.finite:
                break
            total = max(0.0, total + seen.slope)
            run = run + 1 if seen.slope > 0.0 else 0
        step = max(min(self.first * step, self.first_downhill * before), self.step_min)
        return (yield from self._take(memory._replace(step=step), probes, Stop.SIGN_CHANGE))

    def _take(self, memory: AngleMemory, probes: int, stop: Stop) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Take the step, or the first of its halves where everything is finite.

        It is looked at twice: a mini-batch may be at fault, and the feedback would take long to double a step again.
        """
        step, looks = memory.step, 2
        while step >= self.step_min:
            seen = yield step
            if seen.finite:
                return _taken(memory, step, probes, stop)
            looks -= 1
            if looks <= 0:
                step /= 2.0
            probes += 1
        return Outcome(0.0, None, Stop.NON_FINITE, memory)

    def _adapted(self, memory: AngleMemory, cosine: float, share: float) -> AngleMemory:
        """The memory with the cosine added to the evidence, and the step that both ask for.

        `share` is how much of the displacement is made of steps like the last one, at most 1.
        """
        cosine = cosine * share if cosine > 0.0 else cosine
        weight = 2.0 / (memory.taken + 1)  # of the last of n numbers in their mean, where the k-th weighs like k
        mean = memory.mean + weight * (cosine - memory.mean)
        square = (1.0 - weight) ** 2 * memory.square + (weight * cosine) ** 2
        t = mean / math.sqrt(square) if square > 0.0 else 0.0
        climb = share * self.climb * math.tanh(-t / 2.0) if t < 0.0 and cosine < 0.0 else 0.0
        change, most = (climb - self.gain * cosine) / (memory.taken + self.early), math.log(self.change_max)
        step = memory.step * math.exp(max(-most, min(most, change)))
        return memory._replace(step=max(self.step_min, min(self.step_max, step)), mean=mean, square=square)


def _share(memory: AngleMemory, norm: float) -> float:
    """How much of the displacement is made of steps like the last one: less than 1 where it is of longer ones."""
    recent = memory.taken * memory.step * norm
    return recent / memory.length if recent < memory.length else 1.0


def _taken(memory: AngleMemory, step: float, probe: int, stop: Stop) -> Outcome[AngleMemory]:
    return Outcome(step, probe, stop, memory._replace(step=step, taken=memory.taken + 1))


def _check(memory: AngleMemory) -> None:
    numbers = tuple(memory) if isinstance(memory, AngleMemory) else ()
    good = len(numbers) == 5 and all(isinstance(n, float | int) and math.isfinite(n) for n in numbers)
    good = good and memory.step > 0.0 and min(memory.taken, memory.square, memory.length) >= 0
    require(good, "memory", "an AngleMemory", "it has the step before", memory)
