"""Make text and numbers small: gzip, then base64. A report page unpacks them with its DecompressionStream.

Numbers become float32 with few bits of fraction (twelve: to about 1 in 8,000), and the first bytes of all of them are
put before the second bytes and so on, which packs better. Numbers of a wide range are packed as their logarithms.
"""

from __future__ import annotations

import base64
import gzip
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 12
"""Bits of the fraction of a packed number."""


def plain_number(value: Any, digits: int) -> Any:
    """Return a number for JSON: with so many digits, and as a text if it is NaN or infinite. Others are as they are."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)


def pack_text(text: str) -> str:
    """Pack a text."""
    return _pack(text.encode("utf-8"))


def pack_numbers(values: NDArray[np.float64], bits: int = BITS) -> str:
    """Pack numbers, with so many bits of the fraction; NaN and infinities too."""
    planes = round_numbers(values, bits).view(np.uint8).reshape(-1, 4).T
    return _pack(planes.tobytes())


def round_numbers(values: NDArray[np.float64], bits: int = BITS) -> NDArray[np.float32]:
    """Return numbers as they are when they have been packed."""
    with np.errstate(over="ignore"):  # a loss of 1e300 is infinite here
        single = np.ascontiguousarray(values, dtype="<f4").ravel()
    whole, drop = single.view("<u4"), np.uint32(23 - bits)
    half = np.uint32((1 << (23 - bits)) >> 1)
    return np.where(np.isfinite(single), (whole + half) >> drop << drop, whole).astype("<u4").view("<f4")


def unpack_numbers(text: str) -> NDArray[np.float64]:
    """Unpack what `pack_numbers` packed."""
    planes = np.frombuffer(gzip.decompress(base64.b64decode(text, validate=True)), np.uint8)
    return planes.reshape(4, -1).T.copy().view("<f4").ravel().astype(np.float64)


def _pack(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")
