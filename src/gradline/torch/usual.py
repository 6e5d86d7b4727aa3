"""The usual length of a gradient, and how much of an unusually long one counts.

The sign of an inner product does not feel the size of a gradient, but the moments of an optimizer such as Adam do: one
that is a thousand times as long as usual is what they are made of for the next hundreds of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Usual"]

_UNUSUAL = 10.0
"""A gradient so many times as long as usual is an outlier. It counts as one of the usual length."""
_LATE = 0.01
"""The weight of one gradient in the usual length, after the first hundred."""


@dataclass(frozen=True)
class Usual:
    """The running mean of the gradients' lengths, an outlier's taken as ten times the mean.

    So outliers cannot hide later ones, but where gradients have become longer for good the mean follows, by 9 % a step.
    """

    length: float = 0.0
    seen: int = 0

    def part(self, norm: float) -> float:
        """The part of a gradient of this length that counts: 1, unless it is an outlier."""
        return self.length / norm if 0.0 < _UNUSUAL * self.length < norm else 1.0

    def after(self, norm: float) -> Usual:
        """The same after one more gradient; one of length 0 or of no finite length tells nothing."""
        if not 0.0 < norm < float("inf"):
            return self
        norm = min(norm, _UNUSUAL * self.length) if self.length else norm
        return Usual(self.length + max(1.0 / (self.seen + 1), _LATE) * (norm - self.length), self.seen + 1)
