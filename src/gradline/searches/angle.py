"""Angle: one probe a step, whose size follows the angle between the gradient and the way come so far."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gradline.protocol import Heading, Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require, require_first, require_range


class AngleMemory(NamedTuple):
    """What a search hands on to the next: its step, how many were taken, and how the steps grew at first."""

    step: float
    taken: int
    mean: float
    """The running mean of the cosines, while rising."""
    rising: bool
    """Whether the steps still grow to their size."""
    length: float
    """The lengths of all steps, added up as the way adds up the steps: n/(n + 1) of it and the next."""


@dataclass(frozen=True, kw_only=True)
class Angle:
    """Take a step, look at the angle between the next gradient and the way so far, and adapt the step.

    The way leads from the mean of all earlier points to the present one. Where the gradient still points back along it
    (the cosine c is negative), going on the same way leads downhill: the steps are too short for how far there is to
    go. Where c is positive, the way has led past its lowest point: the steps are too long for their noise.

        α ← α · exp(-gain · c / (n + 10)),    after n steps.

    * The first search doubles its step along the first direction while the slopes there, each on the next mini-batch,
      are negative, and takes a quarter of the last one of these.
    * Then the step grows by up to a factor of two at a time, until the running mean of c is not negative any more.
    * A positive c counts by how much of the way is of steps like the last one: by n·α‖d‖ over the length of the way's
      steps, if that is below 1. What older, longer steps have overshot is not held against short ones, which would be
      shrunk to nothing before they can come back.
    * A point that is not finite is looked at again, on the next mini-batch. If it still is not, it is refused, and the
      step halved.

    Every other probe is accepted: one evaluation a step. Derivation, limits and measurements are told in
    "One search for every batch size" of the documentation.

    Args:
        gain: how quickly the step follows the angle; a step can change by n to the power of ± `gain`.
        step_first: the first step that is probed, ever. It suits directions of about unit size in each coordinate, as
            Adam's are; from others the first search takes some probes more.
        step_min: the smallest step.
        step_max: the largest step.
        early: steps after which the first few count for little: feedback weighs 1/(n + `early`), not 1/n.
        change_max: the largest change of a step's logarithm at a time; 0.7 is about a factor of two.
        first_part: the part that is taken of the step that the first search finds. No later direction moves all
            parameters as evenly as the first, so the longest step along it would be too long for those that follow,
            and they start from what it spoilt.
        max_shrinks: so often the first search divides its guess by 4; what is still too long then is for the feedback.
    """

    gain: float = 12.0
    step_first: float = 1e-3
    step_min: float = 1e-12
    step_max: float = 1e7
    early: float = 10.0
    change_max: float = 0.7
    first_part: float = 0.25
    max_shrinks: int = 15

    observes: ClassVar[type[Heading]] = Heading
    observes_at_probes: ClassVar[type[Slope]] = Slope

    def __post_init__(self) -> None:
        require(0.0 < self.gain < math.inf, "gain", "positive and finite", "it scales the feedback", self.gain)
        require(0.0 < self.early < math.inf, "early", "positive and finite", "it counts steps", self.early)
        good = 0.0 < self.change_max < math.inf
        require(good, "change_max", "positive and finite", "it bounds the change of a step", self.change_max)
        require(0.0 < self.first_part <= 1.0, "first_part", "in (0, 1]", "it is a part of a step", self.first_part)
        good = type(self.max_shrinks) is int and self.max_shrinks >= 0
        require(good, "max_shrinks", "a whole number of 0 or more", "it counts probes", self.max_shrinks)
        require_range(self.step_min, self.step_max)
        require_first(self.step_first, self.step_min, self.step_max)

    def start(self) -> AngleMemory:
        """The first guess, and no step taken."""
        return AngleMemory(self.step_first, 0, -1.0, True, 0.0)

    def search(self, origin: Origin[Heading], memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """One search; nearly always one probe."""
        _check(memory)
        if memory.taken == 0:
            outcome = yield from self._first(memory)
        else:
            outcome = yield from self._take(self._adapted(memory, _counted(memory, origin)), 0, Stop.ANGLE)
        # Where not even the smallest step was finite the data are at fault, and nothing was learned about the step.
        if outcome.probe is None:
            return Outcome(0.0, None, outcome.stop, memory)
        length = memory.taken / (memory.taken + 1) * memory.length + outcome.step * origin.norm
        return Outcome(outcome.step, outcome.probe, outcome.stop, outcome.memory._replace(length=length))

    def _first(self, memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        """Double while the slopes are negative; divide by 4, a few times, where the first one is not."""
        step, probes = memory.step, 1
        seen = yield step
        if seen.finite and seen.slope < 0.0:
            while seen.finite and seen.slope < 0.0 and 2.0 * step <= self.step_max:
                step *= 2.0
                seen = yield step
                probes += 1
            if seen.finite and seen.slope < 0.0:
                return _taken(memory, step, probes - 1, Stop.STEP_MAX)
            step = max(self.step_first, self.first_part * step / 2.0)
            return (yield from self._take(memory._replace(step=step), probes, Stop.SIGN_CHANGE))
        for _ in range(self.max_shrinks):
            if seen.finite and seen.slope < 0.0:
                break
            step = max(step / 4.0, self.step_min)
            seen = yield step
            probes += 1
        if seen.finite:
            return _taken(memory, step, probes - 1, Stop.SIGN_CHANGE if seen.slope < 0.0 else Stop.BUDGET)
        return (yield from self._take(memory._replace(step=step / 2.0), probes, Stop.BUDGET))

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

    def _adapted(self, memory: AngleMemory, cosine: float) -> AngleMemory:
        """The memory with the step that the angle asks for."""
        weight = 1.0 / (memory.taken + self.early)
        if memory.rising:
            mean = memory.mean + self.early * weight * (cosine - memory.mean)
            change = -self.change_max * mean
            memory = memory._replace(mean=mean, rising=mean < 0.0)
        if not memory.rising:
            change = max(-self.change_max, min(self.change_max, -self.gain * weight * cosine))
        return memory._replace(step=max(self.step_min, min(self.step_max, memory.step * math.exp(change))))


def _counted(memory: AngleMemory, origin: Origin[Heading]) -> float:
    """The cosine; less of a positive one, where the way is of longer steps than the last."""
    cosine, recent = origin.at_zero.cosine, memory.taken * memory.step * origin.norm
    old = cosine > 0.0 and not memory.rising and recent < memory.length
    return cosine * recent / memory.length if old else cosine


def _taken(memory: AngleMemory, step: float, probe: int, stop: Stop) -> Outcome[AngleMemory]:
    return Outcome(step, probe, stop, memory._replace(step=step, taken=memory.taken + 1))


def _check(memory: AngleMemory) -> None:
    numbers = (memory.step, memory.taken, memory.mean, memory.length) if isinstance(memory, AngleMemory) else ()
    good = len(numbers) == 4 and all(isinstance(n, float | int) and math.isfinite(n) for n in numbers)
    require(
        good and memory.step > 0.0 and memory.taken >= 0, "memory", "an AngleMemory", "it has the step before", memory
    )
