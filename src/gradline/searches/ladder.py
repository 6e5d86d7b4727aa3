"""Grow and shrink a step by a constant factor: the common part of the gradient-only searches.

The rules are those of GOLS-I (Equations 9 to 12). A step is multiplied first and compared with its bounds afterwards,
so that it may exceed them by less than one factor, as published. `strict` clips it.

A non-finite probe counts as a slope of +∞: it ends growing, and shrinking continues past it.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gradline.protocol import Outcome, Slope, Stop

if TYPE_CHECKING:
    from gradline.searches import GolsBack, GolsI, GolsMax

M = TypeVar("M")

GOLDEN = (1.0 + math.sqrt(5.0)) / 2.0


def slope_of(seen: Slope) -> float:
    """Return the slope, +∞ for a non-finite probe."""
    return seen.slope if seen.finite else math.inf


def largest_step(norm: float, cap: float) -> float:
    """Return α_max = min(1/‖d‖, cap), Equation 11; the cap for a direction of length zero."""
    return min(1.0 / norm, cap) if norm > 0.0 else cap


class Rung(NamedTuple):
    """The last probe: its step, slope and index, and the stop reason if the search ends here."""

    step: float
    slope: float
    probe: int
    stop: Stop

    def outcome(self, memory: M, unchanged: M) -> Outcome[M]:
        """Return the outcome that accepts this probe, with `memory`; or rejects it if non-finite, with `unchanged`.

        The memory is unchanged in that case because the step is not the cause: every smaller step was non-finite too.
        """
        if self.slope == math.inf:
            return Outcome(0.0, None, Stop.NON_FINITE, unchanged)
        return Outcome(self.step, self.probe, self.stop, memory)


class Ladder(NamedTuple):
    """Bounds and growth factor of the steps, and the largest number of probes."""

    growth: float
    bottom: float
    top: float
    strict: bool
    max_probes: float

    @classmethod
    def of(cls, search: GolsI | GolsMax | GolsBack, growth: float, norm: float) -> Ladder:
        """Return the ladder of a search along a direction of length `norm`."""
        top = largest_step(norm, search.step_max)
        return cls(growth, search.step_min, top, search.strict, search.max_probes or math.inf)

    def first(self, step: float, level: float) -> Generator[float, Slope, Rung]:
        """Make the first probe, at the step clipped to `top` and then to `bottom`."""
        step = max(min(step, self.top), self.bottom)
        slope = slope_of((yield step))
        return Rung(step, slope, 0, Stop.STEP_MAX if slope < level else Stop.STEP_MIN)

    def grow(self, rung: Rung, level: float, met: Stop) -> Generator[float, Slope, Rung]:
        """Grow the step until the slope reaches `level` (stop reason `met`) or the step reaches `top`."""
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

    def shrink(self, rung: Rung, level: float, met: Stop) -> Generator[float, Slope, Rung]:
        """Shrink the step until the slope is below `level` (stop reason `met`) or the step reaches `bottom`."""
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
