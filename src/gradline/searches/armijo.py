"""Backtracking on function values: Armijo's rule, and the stochastic Armijo search of Vaswani et al. (2019)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from gradline.protocol import Origin, Outcome, Stop, Value
from gradline.searches.arguments import (
    require,
    require_budget,
    require_first,
    require_fraction,
    require_guess,
    require_range,
    require_shrink,
)


@dataclass(frozen=True, kw_only=True)
class Armijo:
    """Shrink the step until the value has decreased enough: F(α) ≤ F(0) + c1·α·F'(0).

    It compares values, so all values of a search must come from one mini-batch (static or full sampling); with a
    new mini-batch at each probe the comparison means little, which is what the paper shows.
    A search begins at the previous step times `growth`. Vaswani et al. let the step grow by
    `2 ** (batch_size / samples)` and bound it by 10.

    Where no step is accepted, the search ends at the last one probed, which is tiny, so that training can go on.

    Args:
        decrease: c1, the part of the decrease promised by the initial slope that must be reached.
        shrink: the factor by which a rejected step is multiplied.
        growth: the factor from one search's step to the next one's first step.
        step_first: the first guess of the first search.
        step_min: the smallest step.
        step_max: the largest step.
        max_probes: end after this many probes, accepting the last.
    """

    observes: ClassVar[type[Value]] = Value

    decrease: float = 0.1
    shrink: float = 0.9
    growth: float = 1.1
    step_first: float = 1.0
    step_min: float = 1e-8
    step_max: float = 1e7
    max_probes: int | None = None

    def __post_init__(self) -> None:
        require_fraction("decrease", self.decrease, "it is a part of the decrease promised by the slope")
        require_shrink(self.shrink)
        require(
            1.0 <= self.growth < math.inf,
            "growth",
            "at least 1 and finite",
            "the next search begins at the last step times it",
            self.growth,
        )
        require_range(self.step_min, self.step_max)
        require_first(self.step_first, self.step_min, self.step_max)
        require_budget(self.max_probes)

    def start(self) -> float:
        """What makes the first search begin at `step_first`."""
        return self.step_first / self.growth

    def search(self, origin: Origin[Value], memory: float) -> Generator[float, Value, Outcome[float]]:
        """One search; `memory` is the previous step."""
        value = origin.at_zero.value
        slope = min(origin.at_zero.slope, 0.0)  # uphill: ask for no increase
        step = max(min(require_guess(memory) * self.growth, self.step_max), self.step_min)
        probe = 0
        while True:
            seen = yield step
            if seen.finite and seen.value <= value + self.decrease * step * slope:
                return Outcome(step, probe, Stop.DECREASE, step)
            spent = self.max_probes is not None and probe + 1 >= self.max_probes
            if spent or step <= self.step_min:
                if not seen.finite:
                    return Outcome(0.0, None, Stop.NON_FINITE, memory)
                return Outcome(step, probe, Stop.BUDGET if spent else Stop.STEP_MIN, step)
            step = max(step * self.shrink, self.step_min)
            probe += 1
