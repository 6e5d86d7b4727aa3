"""Steps a constant factor apart, climbed and descended by probes: the moves of the gradient-only family.

The rules are those of GOLS-I (Equations 9 to 12). A step is multiplied first and compared with its bounds after, so
it may leave them by less than one factor: that is the published algorithm. `strict` clips instead.

A non-finite probe counts as a slope of +∞: it ends a climb, and a descent goes on through it.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gradline.protocol import Outcome, Slope, Stop

M = TypeVar("M")

GOLDEN = (1.0 + math.sqrt(5.0)) / 2.0


def slope_of(seen: Slope) -> float:
    """The slope, +∞ for a non-finite probe."""
    return seen.slope if seen.finite else math.inf


def largest_step(norm: float, cap: float) -> float:
    """α_max = min(1/‖d‖, cap), Equation 11; the cap alone for a direction of length zero."""
    return min(1.0 / norm, cap) if norm > 0.0 else cap


class Rung(NamedTuple):
    """Where a search stands: the last probe's step, slope and number, and why it would end here."""

    step: float
    slope: float
    probe: int
    stop: Stop

    def outcome(self, memory: M, unchanged: M) -> Outcome[M]:
        """Accept this probe and hand on `memory`; a non-finite one is not accepted and hands on `unchanged`.

        The memory is unchanged then because the step was not the cause: every smaller one failed too.
        """
        if self.slope == math.inf:
            return Outcome(0.0, None, Stop.NON_FINITE, unchanged)
        return Outcome(self.step, self.probe, self.stop, memory)


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps between `bottom` and `top`, a factor `growth` apart, and how many probes may be spent."""

    growth: float
    bottom: float
    top: float
    strict: bool
    max_probes: float

    def stand(self, step: float, level: float) -> Generator[float, Slope, Rung]:
        """The first probe, at the step clipped to the top, then to the bottom (so that the bottom wins)."""
        step = max(min(step, self.top), self.bottom)
        slope = slope_of((yield step))
        return Rung(step, slope, 0, Stop.STEP_MAX if slope < level else Stop.STEP_MIN)

    def climb(self, rung: Rung, level: float, met: Stop) -> Generator[float, Slope, Rung]:
        """Grow until the slope reaches `level` (which is called `met`), or the top."""
        step, slope, probe, _ = rung
        if not (slope < level and step < self.top):
            return rung
        while probe + 1 < self.max_probes:
            step *= self.growth
            if self.strict:
                step = min(step, self.top)
            slope = slope_of((yield step))
            probe += 1
            if slope >= level:
                return Rung(step, slope, probe, met)
            if step > self.top / self.growth if not self.strict else step >= self.top:
                return Rung(step, slope, probe, Stop.STEP_MAX)
        return Rung(step, slope, probe, Stop.BUDGET)

    def descend(self, rung: Rung, level: float, met: Stop) -> Generator[float, Slope, Rung]:
        """Shrink until the slope is below `level` (which is called `met`), or the bottom."""
        step, slope, probe, _ = rung
        if not (slope >= level and step > self.bottom):
            return rung
        while probe + 1 < self.max_probes:
            step /= self.growth
            if self.strict:
                step = max(step, self.bottom)
            slope = slope_of((yield step))
            probe += 1
            if slope < level:
                return Rung(step, slope, probe, met)
            if step < self.growth * self.bottom if not self.strict else step <= self.bottom:
                return Rung(step, slope, probe, Stop.STEP_MIN)
        return Rung(step, slope, probe, Stop.BUDGET)
