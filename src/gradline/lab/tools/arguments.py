"""Checks of arguments that the lab's values share: names that become parts of file names, and counts."""

from __future__ import annotations

import re

from gradline.searches.arguments import require

PATTERN = re.compile(r"[^\W_](?:[\w .,+=()-]*[\w+=()-])?")
"""A valid name: no path separator, and no dot or space at either end."""
MOST_BYTES = 80
"""Largest size of a name: a file name has two of them and at most 255 bytes."""


def require_name(name: str, value: object) -> None:
    """Raise a `ValueError` unless `value`, the argument called `name`, can be part of a file name."""
    reason = "files are named by it"
    rule = "letters, digits, spaces and any of . , + = ( ) _ -, with a letter or digit first and no dot or space last"
    require(isinstance(value, str) and PATTERN.fullmatch(value) is not None, name, rule, reason, value)
    size = len(str(value).encode())
    require(size <= MOST_BYTES, name, f"of at most {MOST_BYTES} bytes", reason, f"{size} bytes: {str(value)[:30]}...")


def require_count(name: str, value: object, what: str, *, optional: bool = False) -> None:
    """Raise a `ValueError` unless `value` counts something: a whole number above 0, or `None` if it is optional."""
    good = type(value) is int and value > 0
    rule = f"a whole number above 0{', or None' if optional else ''}"
    require(good or (optional and value is None), name, rule, f"it counts {what}", value)


def require_counts(name: str, values: tuple[object, ...], what: str) -> None:
    """Raise a `ValueError` unless all values are whole numbers above 0."""
    good = all(type(value) is int and value > 0 for value in values)
    require(good, name, "whole numbers above 0", f"they count {what}", values)
