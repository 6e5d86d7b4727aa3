"""GOLS-Max, the gradient-only line search for the largest acceptable step (Kafka and Wilke, the JOGO paper)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require_factor, require_fraction, require_guess, require_limits
from gradline.searches.ladder import Ladder


@dataclass(frozen=True, kw_only=True)
class GolsMax:
    """Find the largest step (to a factor `growth`) whose slope is still below c2·|F'(0)|.

    From the previous step, the step grows while the slope is below the bound and then shrinks until the slope is below
    it again. This is GOLS-I with the bound c2·|F'(0)| instead of 0, and without immediate acceptance.

    Args:
        growth: the factor between two probes.
        overshoot: c2, bound of the accepted slope as a fraction of |F'(0)|.
        step_min: the smallest step, and the first step of the first search.
        step_max: the upper bound of the steps (1/‖d‖ if that is smaller).
        strict: clip every step to its bounds instead of letting it exceed them by less than one factor `growth`.
        max_probes: end after this many probes, accepting the last.
    """

    growth: float = 2.0
    overshoot: float = 0.9
    step_min: float = 1e-8
    step_max: float = 1e7
    strict: bool = False
    max_probes: int | None = None

    def __post_init__(self) -> None:
        require_factor("growth", self.growth, "each probe multiplies or divides the step by it")
        require_fraction("overshoot", self.overshoot, "the slope must shrink")
        require_limits(self)

    def start(self) -> float:
        """Return the first step of the first search, `step_min`."""
        return self.step_min

    def search(self, origin: Origin[Slope], memory: float) -> Generator[float, Slope, Outcome[float]]:
        """Run one search; `memory` is the previous step."""
        bound = self.overshoot * abs(origin.at_zero.slope)
        ladder = Ladder.of(self, self.growth, origin.norm)
        rung = yield from ladder.first(require_guess(memory), bound)
        rung = yield from ladder.grow(rung, bound, Stop.SLOPE_BOUND)
        rung = yield from ladder.shrink(rung, bound, Stop.SLOPE_BOUND)
        return rung.outcome(rung.step, memory)
