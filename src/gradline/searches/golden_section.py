"""Golden-section search on function values, a baseline of the paper."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from gradline.protocol import Origin, Outcome, Stop, Transcript, Value
from gradline.searches.arguments import require_guess, require_limits, require_tolerance
from gradline.searches.ladder import GOLDEN, largest_step


@dataclass(frozen=True, kw_only=True)
class GoldenSection:
    """Bracket a minimum of the value, then narrow the bracket by the golden ratio.

    Bracketing starts at the previous step. It expands by the golden ratio while the value falls, up to
    α_max = min(1/‖d‖, `step_max`), and contracts while the value is above that of the origin. The probe of lowest value
    is accepted. Use static or full sampling: with a new mini-batch at each probe the values jump, and jumps are taken
    for minima.

    Args:
        tolerance: width of the final bracket relative to its upper end.
        step_first: the first step of the first search.
        step_min: the smallest step.
        step_max: the cap on the largest step.
        max_probes: end after this many probes.
    """

    observes: ClassVar[type[Value]] = Value

    tolerance: float = 1e-6
    step_first: float = 1.0
    step_min: float = 1e-8
    step_max: float = 1e7
    max_probes: int | None = None

    def __post_init__(self) -> None:
        require_tolerance(self.tolerance)
        require_limits(self)

    def start(self) -> float:
        """Return the first step of the first search."""
        return self.step_first

    def candidates(self, transcript: Transcript[Value]) -> tuple[int]:
        """Return the probe of lowest value, the latest of equal ones."""
        return (min(range(len(transcript)), key=lambda probe: (_height(transcript[probe][1]), -probe)),)

    def search(self, origin: Origin[Value], memory: float) -> Generator[float, Value, Outcome[float]]:
        """Run one search; `memory` is the previous step."""
        seen: Transcript[Value] = []
        budget = self.max_probes or math.inf
        top = max(largest_step(origin.norm, self.step_max), self.step_min)
        low, mid, high = 0.0, 0.0, math.inf
        lowest = origin.at_zero.value
        step = max(min(require_guess(memory), top), self.step_min)
        while mid == 0.0 or high == math.inf:
            at_step = yield step
            seen.append((step, at_step))
            if _height(at_step) > lowest:
                high = step
                if mid == 0.0 and step <= self.step_min:
                    return self._accept(seen, Stop.STEP_MIN, memory)
                step = max(step / GOLDEN, self.step_min)
            else:
                if step < top:
                    low = mid
                elif at_step.slope > 0.0:
                    high = top  # uphill there: the minimum lies before it
                else:
                    return self._accept(seen, Stop.STEP_MAX, memory)
                mid, lowest = step, at_step.value
                step = min(step * GOLDEN, top)
            if len(seen) >= budget:
                return self._accept(seen, Stop.BUDGET, memory)
        while high - low > self.tolerance * high:
            right = high - mid > mid - low
            step = mid + (2.0 - GOLDEN) * (high - mid) if right else mid - (2.0 - GOLDEN) * (mid - low)
            at_step = yield step
            seen.append((step, at_step))
            if _height(at_step) < lowest:
                low, high = (mid, high) if right else (low, mid)
                mid, lowest = step, at_step.value
            elif right:
                high = step
            else:
                low = step
            if len(seen) >= budget:
                return self._accept(seen, Stop.BUDGET, memory)
        return self._accept(seen, Stop.TOLERANCE, memory)

    def _accept(self, seen: Transcript[Value], stop: Stop, memory: float) -> Outcome[float]:
        (probe,) = self.candidates(seen)
        step, at_step = seen[probe]
        if not at_step.finite:
            return Outcome(0.0, None, Stop.NON_FINITE, memory)
        return Outcome(step, probe, stop, step)


def _height(seen: Value) -> float:
    """Return the value, +∞ for a non-finite probe."""
    return seen.value if seen.finite else math.inf
