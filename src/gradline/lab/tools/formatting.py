"""Format numbers, times and sizes for display."""

from __future__ import annotations

import math
from collections.abc import Iterable


def number(value: float, digits: int = 3) -> str:
    """Format a number with about `digits` significant digits; NaN is `-`."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.{digits - 2}e}".replace("e-0", "e-").replace("e+0", "e+")


def percent(value: float) -> str:
    """Format a fraction as a percentage, without the sign."""
    return "-" if math.isnan(value) else f"{100 * value:.2g}" if value < 0.1 else f"{100 * value:.1f}"


def count(value: float) -> str:
    """Format a number rounded to an integer, with thousands separators."""
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Format seconds in a suitable unit, from `0.5 s` to `2.5 days`."""
    if seconds < 60:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    if seconds < 600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f"{hours / 24:.1f} days"


def clock(seconds: float) -> str:
    """Format seconds as `1:02:03` or `2:03`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def size(count: float) -> str:
    """Format a number of bytes in a suitable unit: `10 bytes`, `2.0 kB`."""
    from rich.filesize import decimal

    return decimal(round(count))


def plural(number_of: int, word: str) -> str:
    """Format a count with its noun: `1 run`, `2 runs`."""
    return f"{number_of:,} {word}" if number_of == 1 else f"{number_of:,} {word}s"


def ranges(numbers: Iterable[int]) -> str:
    """Format integers as `0 to 9` if they are consecutive, else as a comma-separated list."""
    values = sorted(numbers)
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(str(value) for value in values)
