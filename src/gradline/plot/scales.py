"""Compute axis limits, ticks and positions of labels, without matplotlib."""

from __future__ import annotations

import math
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


def decades(low: float, high: float, *, most: int = 9) -> list[float]:
    """Return ticks of a logarithmic axis between two positive numbers."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    count = last - first + 1
    if count >= 3:
        stride = -(-count // most)
        return [10.0**power for power in range(first, last + 1, stride)]
    ones = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1.0, 2.0, 5.0)]
    return [number for number in ones if low * (1 - 1e-9) <= number <= high * (1 + 1e-9)]


def tick(number: float) -> str:
    """Format a tick of `decades`."""
    if number == 0.0 or 1e-4 <= number < 1e5:
        return f"{number:g}"
    power = math.floor(math.log10(number) + 1e-9)
    digit = round(number / 10.0**power)
    return rf"$10^{{{power}}}$" if digit == 1 else rf"${digit}\times10^{{{power}}}$"


def apart(places: Sequence[tuple[float, float]], *, width: float, height: float) -> list[bool]:
    """Return for each label whether its box is free of earlier labels."""
    written: list[tuple[float, float]] = []
    chosen = []
    for x, y in places:
        free = all(abs(x - a) >= width or abs(y - b) >= height for a, b in written)
        chosen.append(free)
        if free:
            written.append((x, y))
    return chosen
