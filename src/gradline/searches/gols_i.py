"""GOLS-I, the inexact gradient-only line search (Section 4 of the paper; Equations 8 to 12, Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require, require_factor, require_guess, require_limits
from gradline.searches.ladder import Ladder


@dataclass(frozen=True, kw_only=True)
class GolsI:
    """Find a step where the slope changes sign from - to +, starting from the previous step.

    1. Probe the previous step (in the first search `step_first`), clipped to α_max = min(1/‖d‖, `step_max`) and then
       to `step_min`. If 0 < F'(α) < c2·|F'(0)|, accept it.
    2. If F'(α) < 0, multiply the step by `growth` until the slope is no longer negative.
    3. If F'(α) ≥ 0, divide the step by `growth` until the slope is negative.

    The last step probed is accepted and is the memory for the next search.

    Where the paper is ambiguous:

    * Algorithm 1 as printed swaps the conditions of growing and shrinking and could never grow from α_min. This code
      follows the text (Equations 9 and 10), as the authors' programs do.
    * Equation 8 has ≤, Algorithm 1 and the programs have <. This code uses <. A slope of exactly 0 shrinks the step.
    * The step is multiplied first and checked afterwards, so that it may leave [α_min, α_max] by less than one factor
      `growth`. This is the published algorithm and the default; `strict=True` clips the step.
    * The paper does not mention non-finite slopes. They count as +∞: they end growing, and the step shrinks from there.
      If the slope at the smallest step is non-finite, the search ends with `Stop.NON_FINITE`, at the origin.

    Args:
        growth: η, the factor between two probes. The default 2 is the paper's. If the loss is quadratic along the line,
            a grown step leaves less than (η - 1)² of what there was to gain: with 2 the loss falls, but by no fixed
            share; set 1.9 if you want a bound on full batches. Above 2 the loss may rise.
        overshoot: c2, bound of the slope at which the first probe is accepted, as a fraction of |F'(0)|.
        step_min: α_min, the smallest step.
        step_max: the upper bound of the steps (1/‖d‖ if that is smaller).
        strict: keep every step within [α_min, α_max].
        step_first: the first step of the first search. `None`: `step_min`, as published, from which the first search
            takes about 25 probes; from 1.0 it takes a few.
        max_probes: end after this many probes, accepting the last; `None`: the range of steps bounds it (about 50).
    """

    growth: float = 2.0
    overshoot: float = 0.9
    step_min: float = 1e-8
    step_max: float = 1e7
    strict: bool = False
    step_first: float | None = None
    max_probes: int | None = None

    def __post_init__(self) -> None:
        require_factor("growth", self.growth, "each probe multiplies or divides the step by it")
        require(
            0.0 < self.overshoot < math.inf,
            "overshoot",
            "positive and finite",
            "it scales the slope at which a guess is accepted at once",
            self.overshoot,
        )
        require_limits(self)

    def start(self) -> float:
        """Return the first step of the first search."""
        return self.step_min if self.step_first is None else self.step_first

    def search(self, origin: Origin[Slope], memory: float) -> Generator[float, Slope, Outcome[float]]:
        """Run one search; `memory` is the previous step."""
        ladder = Ladder.of(self, self.growth, origin.norm)
        rung = yield from ladder.first(require_guess(memory), 0.0)
        if 0.0 < rung.slope < self.overshoot * abs(origin.at_zero.slope):
            return Outcome(rung.step, rung.probe, Stop.ACCEPTED_AT_ONCE, rung.step)
        grown = yield from ladder.grow(rung, 0.0, Stop.SIGN_CHANGE)
        if grown is rung or grown.slope == math.inf:
            grown = yield from ladder.shrink(grown, 0.0, Stop.SIGN_CHANGE)
        return grown.outcome(grown.step, memory)
