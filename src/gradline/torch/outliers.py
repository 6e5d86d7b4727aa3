"""Recognise gradients that are far longer than usual, or far shorter than the first one.

The cosine does not depend on the length of a gradient, but the moments of optimizers such as Adam do: a gradient a
thousand times as long as usual dominates them for hundreds of steps. So it is scaled down. If, besides, the loss
increases along the last step, and does so on the next mini-batch too, the step was too long for the curvature there,
and it is halved. In the first search a gradient that is far longer than at its start, or far shorter, tells that its
step is far too long: where outputs are huge or saturated, slopes have either sign. Later, a gradient that is far
shorter than the first one tells that its mini-batch is fitted, so that it must not lengthen the steps much further.
"""

from __future__ import annotations

from typing import NamedTuple

LOOKS = 2
"""Evaluations in a row that may be rejected: the first is repeated on the next mini-batch, the second halves a step."""

_SCALE = 30.0
"""Ratio to the mean length, or its inverse, beyond which a gradient ends the first search."""
_RATIO = 10.0
"""Ratio to the mean length above which a gradient is an outlier; it is scaled to the mean length."""
_FADED = 0.01
"""Ratio to the first length below which a gradient has faded: the mini-batch is fitted."""
_WEIGHT = 0.01
"""The weight of one gradient in the mean length, after the first hundred."""


class OutlierGuard(NamedTuple):
    """Running mean of the lengths of gradients, in which an outlier counts as ten times the mean.

    Outliers therefore do not hide later ones; if gradients stay longer, the mean grows by 9 % per step.
    """

    length: float = 0.0
    seen: int = 0
    start: float = 0.0
    """Length of the gradient with which training began."""

    def is_outlier(self, norm: float) -> bool:
        """Return whether a gradient of this length is far longer than usual."""
        return self.seen > 0 and norm > _RATIO * self.length

    def is_off_scale(self, norm: float) -> bool:
        """Return whether a gradient of this length is far longer or far shorter than usual."""
        return self.seen > 0 and not self.length / _SCALE <= norm <= _SCALE * self.length

    def has_faded(self, norm: float) -> bool:
        """Return whether a gradient of this length is far shorter than the one with which training began."""
        return norm < _FADED * self.start

    def factor(self, norm: float) -> float:
        """Return the factor for a gradient of this length: 1 unless it is an outlier."""
        return self.length / norm if self.is_outlier(norm) else 1.0

    def after(self, norm: float) -> OutlierGuard:
        """Return the guard updated by one gradient; lengths that are 0 or non-finite are ignored."""
        if not 0.0 < norm < float("inf"):
            return self
        norm = min(norm, _RATIO * self.length) if self.seen else norm
        length = self.length + max(1.0 / (self.seen + 1), _WEIGHT) * (norm - self.length)
        return OutlierGuard(length, self.seen + 1, self.start or norm)
