"""Which names studies, problems and methods may have: files and folders are named by them."""

from __future__ import annotations

import re

from gradline.searches.arguments import require

PATTERN = re.compile(r"[^\W_](?:[\w .,+=()-]*[\w+=()-])?")
"""Of a name. It has no separator of paths, and neither begins nor ends with a dot or a space."""
MOST_BYTES = 80
"""Of a name: that of a run has two of them, and a file's may have 255 bytes."""


def require_name(name: str, value: object) -> None:
    """Raise a `ValueError` unless a value can be part of a file's name.

    Args:
        name: of the argument.
        value: its value.
    """
    reason = "files are named by it"
    rule = "letters, digits, spaces and any of . , + = ( ) _ -, with a letter or digit first and no dot or space last"
    require(isinstance(value, str) and PATTERN.fullmatch(value) is not None, name, rule, reason, value)
    size = len(str(value).encode())
    require(size <= MOST_BYTES, name, f"of at most {MOST_BYTES} bytes", reason, f"{size} bytes: {str(value)[:30]}...")
