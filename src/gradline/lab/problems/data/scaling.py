"""Z-scores: each input dimension with mean 0 and standard deviation 1 over the rows it was fitted on.

The standard deviation divides by n − 1. A dimension that is constant over the fitted rows (a border pixel of MNIST)
becomes 0 in every row, also in rows where it is not constant: a network cannot have learned anything from it. Means
and deviations are computed in double precision by blocks of rows, so that bytes are not expanded all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 2048  # rows in double precision at a time: 50 MB of CIFAR10


@dataclass(frozen=True, eq=False)
class ZScore:
    """Means and standard deviations of input dimensions; `constant` marks those without variance."""

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    constant: npt.NDArray[np.bool_]

    @staticmethod
    def fit(parts: Sequence[npt.NDArray[Any]]) -> ZScore:
        """Return the scaling by the rows of all parts together."""
        rows = sum(len(part) for part in parts)
        inputs = parts[0].shape[1]
        total, squares = np.zeros(inputs), np.zeros(inputs)
        low, high = np.full(inputs, np.inf), np.full(inputs, -np.inf)
        for block in _blocks(parts):
            total += block.sum(axis=0)
            np.minimum(low, block.min(axis=0), out=low)
            np.maximum(high, block.max(axis=0), out=high)
        # Compared, not computed: the mean of many 0.1 is not exactly 0.1, and their variance not exactly zero.
        constant = low == high
        mean = np.where(constant, low, total / rows)
        for block in _blocks(parts):
            squares += ((block - mean) ** 2).sum(axis=0)
        deviation = np.sqrt(squares / max(1, rows - 1))
        # A spread too small to square (below 1e-154) has no deviation to divide by either.
        constant |= deviation == 0.0
        return ZScore(mean=mean, deviation=np.where(constant, 1.0, deviation), constant=constant)

    def apply(self, inputs: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return scaled inputs, computed in double precision and stored as `dtype`."""
        scaled: npt.NDArray[np.floating] = np.empty(inputs.shape, dtype=dtype)
        start = 0
        for block in _blocks([inputs]):
            scaled[start : start + len(block)] = (block - self.mean) / self.deviation
            start += len(block)
        scaled[:, self.constant] = 0.0
        return scaled


def _blocks(parts: Sequence[npt.NDArray[Any]]) -> Iterator[npt.NDArray[np.float64]]:
    for part in parts:
        for start in range(0, len(part), BLOCK):
            yield part[start : start + BLOCK].astype(np.float64)
