"""A constant step, as a search: the baseline of the paper's Figure 9."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require


@dataclass(frozen=True)
class Fixed:
    """Always take the same step: plain gradient descent in the language of line searches.

    Its one probe decides nothing: it is the evaluation that gives the next iteration its gradient. Only a non-finite
    point is refused.

    Args:
        step: the step, also called learning rate.
    """

    step: float

    def __post_init__(self) -> None:
        require(0.0 < self.step < math.inf, "step", "positive and finite", "it is the step taken", self.step)

    def start(self) -> None:
        """Nothing: the step is always the same."""

    def search(self, origin: Origin[Slope], memory: None) -> Generator[float, Slope, Outcome[None]]:
        """Take the step."""
        seen = yield self.step
        if not seen.finite:
            return Outcome(0.0, None, Stop.NON_FINITE, None)
        return Outcome(self.step, 0, Stop.FIXED, None)
