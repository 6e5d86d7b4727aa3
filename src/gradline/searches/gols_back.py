"""GOLS-Back, the backtracking gradient-only line search (Kafka and Wilke, the JOGO paper)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require_fraction, require_limits, require_shrink
from gradline.searches.ladder import Ladder


@dataclass(frozen=True, kw_only=True)
class GolsBack:
    """Start at the largest step and shrink until the slope is at most c2·|F'(0)|.

    The largest step is α_max = min(1/‖d‖, `step_max`). If its slope is negative it is accepted. The search has no
    memory.

    Args:
        shrink: the factor by which a rejected step is multiplied.
        overshoot: c2, bound of the accepted slope as a fraction of |F'(0)|.
        step_min: the smallest step.
        step_max: the upper bound of the steps (1/‖d‖ if that is smaller).
        strict: clip the last step to `step_min` instead of letting it fall below by less than one factor.
        max_probes: end after this many probes, accepting the last.
    """

    shrink: float = 0.5
    overshoot: float = 0.9
    step_min: float = 1e-8
    step_max: float = 1e7
    strict: bool = False
    max_probes: int | None = None

    def __post_init__(self) -> None:
        require_shrink(self.shrink)
        require_fraction("overshoot", self.overshoot, "the slope must shrink")
        require_limits(self)

    def start(self) -> None:
        """Return `None`: each search starts at the largest step."""

    def search(self, origin: Origin[Slope], memory: None) -> Generator[float, Slope, Outcome[None]]:
        """Run one search, from the largest step down."""
        ladder = Ladder.of(self, 1.0 / self.shrink, origin.norm)
        rung = yield from ladder.first(ladder.top, 0.0)
        if rung.slope < 0.0:
            return rung.outcome(None, None)
        bound = self.overshoot * abs(origin.at_zero.slope)
        if rung.slope <= bound:
            return rung._replace(stop=Stop.SLOPE_BOUND).outcome(None, None)
        # `shrink` accepts slopes below its level; slopes equal to the bound must be accepted too.
        rung = yield from ladder.shrink(rung, math.nextafter(bound, math.inf), Stop.SLOPE_BOUND)
        return rung.outcome(None, None)
