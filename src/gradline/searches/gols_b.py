"""GOLS-B, the gradient-only line search by bisection (Kafka and Wilke, the JOGO paper)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop, Transcript
from gradline.searches.arguments import require_limits, require_tolerance
from gradline.searches.ladder import GOLDEN, largest_step, slope_of


@dataclass(frozen=True, kw_only=True)
class GolsB:
    """Bracket a sign change of the slope from - to +, then bisect it: the exact search of the family.

    Bracketing starts at `step_min` and expands by the golden ratio, up to α_max = min(1/‖d‖, `step_max`). The last
    probe is accepted; if it is non-finite, the largest step with a negative slope. The search has no memory.

    Args:
        tolerance: width of the final bracket relative to its upper end.
        step_min: the first step.
        step_max: the upper bound of the steps (1/‖d‖ if that is smaller).
        max_probes: end after this many probes; `None`: the range and the tolerance bound it (about 110).
    """

    tolerance: float = 1e-12
    step_min: float = 1e-8
    step_max: float = 1e7
    max_probes: int | None = None

    def __post_init__(self) -> None:
        require_tolerance(self.tolerance)
        require_limits(self)

    def start(self) -> None:
        """Return `None`: each search starts at `step_min`."""

    def candidates(self, transcript: Transcript[Slope]) -> set[int]:
        """Return the last probe and the largest step with a negative slope."""
        return {len(transcript) - 1} | _lower_end(transcript)

    def search(self, origin: Origin[Slope], memory: None) -> Generator[float, Slope, Outcome[None]]:
        """Run one search, from the smallest step up."""
        seen: Transcript[Slope] = []
        budget = self.max_probes or math.inf
        top = max(largest_step(origin.norm, self.step_max), self.step_min)
        low, step = 0.0, self.step_min
        while True:
            at_step = yield step
            seen.append((step, at_step))
            if slope_of(at_step) >= 0.0:
                break
            if step >= top:
                return _accept(seen, Stop.STEP_MAX)
            if len(seen) >= budget:
                return _accept(seen, Stop.BUDGET)
            low, step = step, min(step * GOLDEN, top)
        if low == 0.0:
            return _accept(seen, Stop.STEP_MIN)
        high = step
        while high - low > self.tolerance * high:
            if len(seen) >= budget:
                return _accept(seen, Stop.BUDGET)
            step = low + (high - low) / 2.0
            at_step = yield step
            seen.append((step, at_step))
            if slope_of(at_step) >= 0.0:
                high = step
            else:
                low = step
        return _accept(seen, Stop.TOLERANCE)


def _lower_end(seen: Transcript[Slope]) -> set[int]:
    """Return the probe at the lower end of the bracket, the latest with a negative slope, if there is one."""
    for probe in range(len(seen) - 1, -1, -1):
        if slope_of(seen[probe][1]) < 0.0:
            return {probe}
    return set()


def _accept(seen: Transcript[Slope], stop: Stop) -> Outcome[None]:
    last = {len(seen) - 1} if seen[-1][1].finite else _lower_end(seen)
    for probe in last:
        return Outcome(seen[probe][0], probe, stop, None)
    return Outcome(0.0, None, Stop.NON_FINITE, None)
