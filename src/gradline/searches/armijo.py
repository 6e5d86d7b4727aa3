"""Backtracking on function values: Armijo's rule, and the stochastic Armijo search of Vaswani et al. (2019)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from gradline.protocol import Origin, Outcome, Stop, Value
from gradline.searches.arguments import require, require_fraction, require_guess, require_limits, require_shrink


@dataclass(frozen=True, kw_only=True)
class Armijo:
    """Shrink the step until the value has decreased enough: F(α) ≤ F(0) + c1·α·F'(0).

    The search compares values, so all values of a search must come from one mini-batch (static or full sampling). It
    starts at the previous step times `growth`; Vaswani et al. use `growth=2 ** (batch_size / samples)` and
    `step_max=10`.

    If no step satisfies the condition, the last step probed is accepted if it is finite, so that training continues.

    Args:
        decrease: c1, the required fraction of the decrease predicted by the initial slope.
        shrink: the factor by which a rejected step is multiplied.
        growth: the factor from the accepted step to the first step of the next search.
        step_first: the first step of the first search.
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
        require_limits(self)

    def start(self) -> float:
        """Return the memory with which the first search starts at `step_first`."""
        return self.step_first / self.growth

    def search(self, origin: Origin[Value], memory: float) -> Generator[float, Value, Outcome[float]]:
        """Run one search; `memory` is the previous step."""
        value = origin.at_zero.value
        slope = min(origin.at_zero.slope, 0.0)  # an uphill slope must not allow an increase
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
