"""A constant step as a search: the baseline of the paper's Figure 9."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.searches.arguments import require


@dataclass(frozen=True)
class Fixed:
    """Take the same step in every iteration, as gradient descent with a constant learning rate does.

    The single probe provides the gradient of the next iteration. It is accepted unless it is non-finite.

    Args:
        step: the step size (learning rate).
    """

    step: float

    def __post_init__(self) -> None:
        require(0.0 < self.step < math.inf, "step", "positive and finite", "it is the step taken", self.step)

    def start(self) -> None:
        """Return `None`: the search has no memory."""

    def search(self, origin: Origin[Slope], memory: None) -> Generator[float, Slope, Outcome[None]]:
        """Probe the step and accept it if it is finite."""
        seen = yield self.step
        if not seen.finite:
            return Outcome(0.0, None, Stop.NON_FINITE, None)
        return Outcome(self.step, 0, Stop.FIXED, None)
