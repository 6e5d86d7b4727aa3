"""Scale down rare gradients that are far longer than usual.

The cosine does not depend on the length of a gradient, but the moments of optimizers such as Adam do: a gradient a
thousand times as long as usual dominates them for hundreds of steps.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OutlierGuard"]

_RATIO = 10.0
"""Ratio to the mean length above which a gradient is an outlier; it is scaled to the mean length."""
_WEIGHT = 0.01
"""The weight of one gradient in the mean length, after the first hundred."""


class OutlierGuard(NamedTuple):
    """Running mean of the lengths of gradients, in which an outlier counts as ten times the mean.

    Outliers therefore do not hide later ones; if gradients stay longer, the mean grows by 9 % per step.
    """

    length: float = 0.0
    seen: int = 0

    def factor(self, norm: float) -> float:
        """Return the factor for a gradient of this length: 1 unless it is an outlier."""
        return self.length / norm if self.seen and norm > _RATIO * self.length else 1.0

    def after(self, norm: float) -> OutlierGuard:
        """Return the guard updated by one gradient; lengths that are 0 or non-finite are ignored."""
        if not 0.0 < norm < float("inf"):
            return self
        norm = min(norm, _RATIO * self.length) if self.seen else norm
        return OutlierGuard(self.length + max(1.0 / (self.seen + 1), _WEIGHT) * (norm - self.length), self.seen + 1)
