"""The strong Wolfe search of Moré and Thuente, by SciPy's DCSRCH."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from gradline.installing import needs
from gradline.protocol import Origin, Outcome, Stop, Transcript, Value
from gradline.searches.arguments import require_guess, require_limits, require_tolerance, require_wolfe


@dataclass(frozen=True, kw_only=True)
class StrongWolfe:
    """Find a step with F(α) ≤ F(0) + c1·α·F'(0) and |F'(α)| ≤ c2·|F'(0)|.

    This is the standard search of quasi-Newton methods. It needs a smooth function: use full or static sampling. It
    starts at the previous step. If rounding or the probe budget ends it early, the probe of lowest value is accepted,
    provided its value is below that of the origin.

    Args:
        decrease: c1, the required fraction of the decrease predicted by the initial slope.
        curvature: c2, bound of the accepted slope as a fraction of |F'(0)|.
        tolerance: end when the width of the bracket relative to its upper end is at most this.
        step_first: the first step of the first search.
        step_min: the smallest step.
        step_max: the largest step.
        max_probes: end after this many probes.
    """

    observes: ClassVar[type[Value]] = Value

    decrease: float = 1e-4
    curvature: float = 0.9
    tolerance: float = 1e-14
    step_first: float = 1.0
    step_min: float = 1e-8
    step_max: float = 1e7
    max_probes: int | None = 100

    def __post_init__(self) -> None:
        require_wolfe(self.decrease, self.curvature)
        require_tolerance(self.tolerance)
        require_limits(self)

    def start(self) -> float:
        """Return the first step of the first search."""
        return self.step_first

    def candidates(self, transcript: Transcript[Value]) -> set[int]:
        """Return the last probe and the one of lowest value."""
        return {len(transcript) - 1} | _lowest(transcript, math.inf)

    def search(self, origin: Origin[Value], memory: float) -> Generator[float, Value, Outcome[float]]:
        """Run one search; `memory` is the previous step."""
        import numpy as np

        with needs("the search StrongWolfe", "scipy"):
            from scipy.optimize._dcsrch import DCSRCH

        zero = origin.at_zero
        if zero.slope >= 0.0:
            return Outcome(0.0, None, Stop.UPHILL, memory)
        seen: Transcript[Value] = []
        guess, largest = max(min(require_guess(memory), self.step_max), self.step_min), self.step_max
        while True:
            dcsrch = DCSRCH(None, None, self.decrease, self.curvature, self.tolerance, self.step_min, largest)
            step, value, slope, task = guess, zero.value, zero.slope, b"START"
            while True:
                with np.errstate(all="ignore"):
                    step, _, _, task = dcsrch._iterate(step, value, slope, task)
                step = float(step)
                if task[:4] == b"CONV":
                    return Outcome(step, len(seen) - 1, Stop.STRONG_WOLFE, step)
                if task[:2] != b"FG" or not math.isfinite(step):
                    stop = Stop.STEP_MAX if b"STPMAX" in task else Stop.NO_PROGRESS
                    return _best(seen, zero, stop, memory)
                if self.max_probes is not None and len(seen) >= self.max_probes:
                    return _best(seen, zero, Stop.BUDGET, memory)
                at_step = yield step
                seen.append((step, at_step))
                if not at_step.finite:
                    break
                value, slope = at_step.value, at_step.slope
            # DCSRCH cannot handle non-finite values: restart below this step.
            guess = largest = step / 2.0
            if guess < self.step_min:
                return _best(seen, zero, Stop.NON_FINITE, memory)


def _lowest(seen: Transcript[Value], below: float) -> set[int]:
    """Return the finite probe of lowest value, if that is less than `below`."""
    finite = [probe for probe, (_, at_step) in enumerate(seen) if at_step.finite and at_step.value < below]
    return {min(finite, key=lambda probe: seen[probe][1].value)} if finite else set()


def _best(seen: Transcript[Value], zero: Value, stop: Stop, memory: float) -> Outcome[float]:
    """Accept the probe of lowest value if it is below the origin, else end at the origin."""
    for probe in _lowest(seen, zero.value):
        step = seen[probe][0]
        return Outcome(step, probe, Stop.NO_PROGRESS if stop is Stop.NON_FINITE else stop, step)
    nothing_finite = stop is Stop.NON_FINITE or (bool(seen) and not any(at_step.finite for _, at_step in seen))
    return Outcome(0.0, None, Stop.NON_FINITE if nothing_finite else Stop.NO_PROGRESS, memory)
