"""Compute axis limits, without matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

HUGE = 1e150
"""Bound of numbers drawn to scale; squares of larger ones overflow."""
REACH = 12.0
"""Numbers farther off than this many times the required range are drawn at the edge."""
STEEP = 30.0
"""If slopes exceed the typical one by this factor, their axis is logarithmic beyond it."""


def drawable(number: float) -> bool:
    """Whether a number can be drawn to scale."""
    return -HUGE <= number <= HUGE


def window(must: Sequence[float], others: Sequence[float] = (), *, margin: float = 0.14) -> tuple[float, float]:
    """Return axis limits that include all of `must`, and of `others` those that are not far off."""
    must = [number for number in must if drawable(number)]
    others = [number for number in others if drawable(number)]
    core = must or others or [0.0]
    low, high = min(core), max(core)
    reach = REACH * (high - low)
    if high > low:
        others = [number for number in others if low - reach <= number <= high + reach]
    low, high = min([low, *others]), max([high, *others])
    least = max(1e-9 * max(abs(low), abs(high)), 1e-200)
    if high - low < least:
        least = max(0.1 * max(abs(low), abs(high)), least) if high > 0.0 or low < 0.0 else 1.0
        low, high = low - least, high + least
    pad = margin * (high - low)
    return low - pad, high + pad


def extended(low: float, high: float, numbers: Sequence[float], *, room: float) -> tuple[float, float]:
    """Extend a range to include numbers, by at most `room` times its height on either side."""
    shown = [number for number in numbers if drawable(number)]
    if not shown:
        return low, high
    most = room * (high - low)
    return min(low, max(min(shown), low - most)), max(high, min(max(shown), high + most))


def threshold(slopes: Sequence[float], typical: float) -> float | None:
    """Return the bound up to which an axis of slopes is linear; `None` if it is linear everywhere."""
    sizes = sorted(abs(slope) for slope in slopes if drawable(slope) and slope != 0.0)
    if not sizes:
        return None
    middle = typical if drawable(typical) and typical != 0.0 else sizes[len(sizes) // 2]
    return abs(middle) if sizes[-1] > STEEP * abs(middle) else None
