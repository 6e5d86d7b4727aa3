"""A guard against rare gradients that are far longer than usual.

A cosine does not depend on the length of a gradient, but the moments of an optimizer such as Adam do: one gradient that
is a thousand times as long as usual dominates them for the next hundreds of steps.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OutlierGuard"]

_RATIO = 10.0
"""A gradient longer than so many times the mean length is an outlier. It counts as one of the mean length."""
_WEIGHT = 0.01
"""The weight of one gradient in the mean length, after the first hundred."""


class OutlierGuard(NamedTuple):
    """The running mean of the gradients' lengths, in which an outlier counts as ten times the mean.

    So outliers cannot hide later ones; where gradients have become longer for good, the mean follows by 9 % a step.
    """

    length: float = 0.0
    seen: int = 0

    def factor(self, norm: float) -> float:
        """Return what a gradient of this length is to be multiplied by: 1, unless it is an outlier."""
        return self.length / norm if self.seen and norm > _RATIO * self.length else 1.0

    def after(self, norm: float) -> OutlierGuard:
        """Return the guard after one more gradient; one of length 0 or of no finite length tells nothing."""
        if not 0.0 < norm < float("inf"):
            return self
        norm = min(norm, _RATIO * self.length) if self.seen else norm
        return OutlierGuard(self.length + max(1.0 / (self.seen + 1), _WEIGHT) * (norm - self.length), self.seen + 1)
