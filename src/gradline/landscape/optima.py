"""Find local minima of values and sign changes of slopes (SNN-GPPs) along a line. Does not need torch.

A walk has a local minimum at step α_i if F(α_{i-1}) > F(α_i) < F(α_{i+1}), and a sign change if
F'(α_{i-1}) ≤ 0 < F'(α_i). Non-finite numbers are part of neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Interval(NamedTuple):
    """A closed range of steps."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


@dataclass(frozen=True)
class Spread:
    """Count, range, mean and deviation of some steps. Without steps all but `count` are NaN."""

    count: int
    low: float
    high: float
    mean: float
    deviation: float
    """Standard deviation, dividing by `count`."""

    @property
    def range(self) -> float:
        """Difference of the largest and the smallest step."""
        return self.high - self.low

    @staticmethod
    def of(steps: Array) -> Spread:
        """Compute the spread of steps in any order."""
        if not steps.size:
            return Spread(0, math.nan, math.nan, math.nan, math.nan)
        return Spread(steps.size, float(steps.min()), float(steps.max()), float(steps.mean()), float(steps.std()))


@dataclass(frozen=True, eq=False)
class Found:
    """Minima and sign changes found in each walk (rows) at each step (columns)."""

    steps: Array
    minima: Mask
    sign_changes: Mask

    @staticmethod
    def of(steps: Array, values: Array, slopes: Array) -> Found:
        """Find the optima of walks whose values and slopes are rows; a single walk may be a vector.

        ```python
        import numpy as np
        from gradline.landscape import Found

        steps = np.array([0.0, 1.0, 2.0, 3.0])
        found = Found.of(steps, values=(steps - 1.4) ** 2, slopes=2 * (steps - 1.4))
        assert found.steps_of_minima.tolist() == [1.0]
        assert found.steps_of_sign_changes.tolist() == [2.0]  # between 1 and 2
        assert found.ball() == (1.0, 2.0)
        ```
        """
        values, slopes = np.atleast_2d(values), np.atleast_2d(slopes)
        minima = np.zeros(values.shape, dtype=bool)
        minima[:, 1:-1] = (values[:, 1:-1] < values[:, :-2]) & (values[:, 1:-1] < values[:, 2:])
        minima[:, 1:-1] &= np.isfinite(values[:, :-2]) & np.isfinite(values[:, 1:-1]) & np.isfinite(values[:, 2:])
        changes = np.zeros(slopes.shape, dtype=bool)
        changes[:, 1:] = (slopes[:, :-1] <= 0.0) & (slopes[:, 1:] > 0.0)
        changes[:, 1:] &= np.isfinite(slopes[:, :-1]) & np.isfinite(slopes[:, 1:])
        return Found(steps, minima, changes)

    @property
    def minima_per_walk(self) -> Array:
        """Mean number of minima per walk at each step, as for a histogram."""
        return np.asarray(self.minima.mean(axis=0), dtype=np.float64)

    @property
    def sign_changes_per_walk(self) -> Array:
        """Mean number of sign changes per walk at each step."""
        return np.asarray(self.sign_changes.mean(axis=0), dtype=np.float64)

    @property
    def steps_of_minima(self) -> Array:
        """The steps of all minima in ascending order, each repeated for every walk with a minimum there."""
        return np.repeat(self.steps, self.minima.sum(axis=0))

    @property
    def steps_of_sign_changes(self) -> Array:
        """The first step after each sign change, in ascending order."""
        return np.repeat(self.steps, self.sign_changes.sum(axis=0))

    @property
    def spread_of_minima(self) -> Spread:
        """Spread of the steps of minima."""
        return Spread.of(self.steps_of_minima)

    @property
    def spread_of_sign_changes(self) -> Spread:
        """Spread of the steps of sign changes."""
        return Spread.of(self.steps_of_sign_changes)

    def ball(self, coverage: float = 1.0) -> Interval | None:
        """Estimate the ball B_ε: the smallest range of steps that contains the sign changes.

        A sign change lies between two steps, and the range contains both. The estimate is a lower bound, since rare
        mini-batches may not have been drawn. Returns `None` if there is no sign change.

        Args:
            coverage: the fraction of sign changes inside; the others are left out equally at both ends.
        """
        if not 0.0 < coverage <= 1.0:
            raise ValueError(f"coverage must be above 0 and at most 1 (it is a share), got {coverage!r}")
        places = np.repeat(np.arange(len(self.steps)), self.sign_changes.sum(axis=0))
        if not places.size:
            return None
        out = math.floor((1.0 - coverage) / 2.0 * places.size + 1e-9)  # 1 - 0.8 is a little below 0.2
        return Interval(float(self.steps[places[out] - 1]), float(self.steps[places[places.size - 1 - out]]))


@dataclass(frozen=True, eq=False)
class Optima:
    """Minima and sign changes found along a line, for each size of mini-batches."""

    steps: Array
    by_size: Mapping[int, Found]
    repeats: int
    samples: int
    """Number of samples in the data."""
    norm: float
    """‖d‖, the length of the direction."""

    def __getitem__(self, batch_size: int) -> Found:
        return self.by_size[batch_size]

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return columns for `pandas.DataFrame(...)`, with a row for each batch size and step."""
        sizes = list(self.by_size)
        return {
            "batch_size": np.repeat(np.array(sizes, dtype=np.int64), len(self.steps)),
            "step": np.tile(self.steps, len(sizes)),
            "minima_per_walk": np.concatenate([self.by_size[size].minima_per_walk for size in sizes]),
            "sign_changes_per_walk": np.concatenate([self.by_size[size].sign_changes_per_walk for size in sizes]),
        }

    def spreads(self) -> dict[str, NDArray[Any]]:
        """Return columns with a row for each batch size: the spreads of minima and of sign changes."""
        columns: dict[str, list[float]] = {"batch_size": list(self.by_size)}
        for found in self.by_size.values():
            for name, spread in (("minima", found.spread_of_minima), ("sign_changes", found.spread_of_sign_changes)):
                for what in ("count", "low", "high", "range", "mean", "deviation"):
                    columns.setdefault(f"{name}_{what}", []).append(getattr(spread, what))
        return {name: np.array(numbers) for name, numbers in columns.items()}
