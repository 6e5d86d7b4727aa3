"""GOLS-Max, the gradient-only line search for the largest acceptable step (Kafka and Wilke, the JOGO paper)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require_budget, require_factor, require_fraction, require_guess, require_range
from gradline.searches.ladder import Ladder, largest_step


@dataclass(frozen=True, kw_only=True)
class GolsMax:
    """Find the largest step (to a factor `growth`) whose slope is still below c2·|F'(0)|.

    As GOLS-I, with c2·|F'(0)| in place of 0 in both directions and without accepting a guess at once: the step grows
    while the slope is below the bound, and then shrinks until it is below it again.

    Args:
        growth: the factor between two probes.
        overshoot: c2, the part of the initial slope that bounds the slope at the accepted step.
        step_min: the smallest step and the first guess.
        step_max: the cap on the largest step (which is 1/‖d‖ where that is smaller).
        strict: keep every step within its bounds instead of letting it pass them by less than one `growth`.
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
        require_range(self.step_min, self.step_max)
        require_budget(self.max_probes)

    def start(self) -> float:
        """The first guess: the smallest step."""
        return self.step_min

    def search(self, origin: Origin[Slope], memory: float) -> Generator[float, Slope, Outcome[float]]:
        """One search; `memory` is the previous step."""
        bound = self.overshoot * abs(origin.at_zero.slope)
        ladder = Ladder(
            self.growth,
            self.step_min,
            largest_step(origin.norm, self.step_max),
            self.strict,
            self.max_probes or math.inf,
        )
        rung = yield from ladder.stand(require_guess(memory), bound)
        rung = yield from ladder.climb(rung, bound, Stop.SLOPE_BOUND)
        rung = yield from ladder.descend(rung, bound, Stop.SLOPE_BOUND)
        return rung.outcome(rung.step, memory)
