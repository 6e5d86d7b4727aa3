"""Results of scans as numpy arrays, and the minima and sign changes (SNN-GPPs) found in them. Does not need torch.

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

from gradline.searches.arguments import require

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
        require(0.0 < coverage <= 1.0, "coverage", "above 0 and at most 1", "it is a share", coverage)
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


@dataclass(frozen=True, eq=False)
class Curves:
    """Value F(α) and slope F'(α) at each step (the last axis).

    There is one row per static mini-batch or dynamic walk; for full sampling the arrays are vectors.
    """

    steps: Array
    values: Array
    slopes: Array

    def found(self) -> Found:
        """Find the local minima and sign changes of each row."""
        return Found.of(self.steps, self.values, self.slopes)


@dataclass(frozen=True, eq=False)
class Line:
    """Loss along a direction, under full, static and dynamic sampling; `None` for those not requested."""

    steps: Array
    full: Curves | None
    """Full sampling: vectors."""
    static: Curves | None
    """One row per mini-batch, which is used at all steps."""
    dynamic: Curves | None
    """One row per walk, with a new mini-batch at each step."""
    batches: tuple[NDArray[np.int64], ...]
    """Sample indices of each static mini-batch (empty if a loader drew them)."""
    batch_size: int | None
    norm: float
    """‖d‖, the length of the direction: a step of α moves the parameters by α·‖d‖."""

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return columns for `pandas.DataFrame(...)`, with a row for each evaluation."""
        return _columns(self, step=self.steps)


@dataclass(frozen=True, eq=False)
class Surfaces:
    """Value, and slope along one direction, over a plane. The last two axes are y and x, as in matplotlib.

    The first axis counts static mini-batches or dynamic walks; for full sampling there is none.
    """

    values: Array
    slopes: Array


@dataclass(frozen=True, eq=False)
class Plane:
    """Loss over two directions, under full, static and dynamic sampling; `None` for those not requested."""

    x: Array
    """Steps along the first direction."""
    y: Array
    """Steps along the second direction."""
    full: Surfaces | None
    static: Surfaces | None
    dynamic: Surfaces | None
    batches: tuple[NDArray[np.int64], ...]
    """Sample indices of each static mini-batch (empty if a loader drew them)."""
    batch_size: int | None
    center: tuple[float, float] | None
    """If both directions are single weights, their values at x = y = 0; add them to `x` and `y`."""

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return columns for `pandas.DataFrame(...)`, with a row for each evaluation."""
        x, y = np.meshgrid(self.x, self.y)
        return _columns(self, x=x, y=y)


@dataclass(frozen=True, eq=False)
class Projections:
    """Slopes along random unit vectors u, at x + λu: directions are rows, distances columns.

    The paper calls x a non-negative gradient projection point (NN-GPP) if the slope of the loss at x + λu along u is
    not negative for every u and every λ in (0, r]. It is a stochastic one (SNN-GPP) if a mini-batch's slope there is
    not negative with a probability above 0.
    """

    distances: Array
    """The distances λ from the point."""
    full: Array
    """Slopes of the loss of all data, shape (directions, distances)."""
    slopes: Array
    """Slopes of mini-batches, shape (mini-batches, directions, distances)."""

    @property
    def probabilities(self) -> Array:
        """The fraction of mini-batches whose slope is not negative, shape (directions, distances)."""
        return np.asarray((self.slopes >= 0.0).mean(axis=0), dtype=np.float64)

    @property
    def is_nn_gpp(self) -> bool:
        """Whether no slope of all data is negative, in any direction at any distance."""
        return bool((self.full >= 0.0).all())

    @property
    def is_snn_gpp(self) -> bool:
        """Whether in each direction and at each distance some mini-batch has a slope that is not negative."""
        return bool((self.probabilities > 0.0).all())


def _columns(seen: Line | Plane, **at: Array) -> dict[str, NDArray[Any]]:
    """Return a row for each evaluation: sampling, number of the mini-batch or walk (0 for full), where, what."""
    tables: list[dict[str, NDArray[Any]]] = []
    for sampling in ("full", "static", "dynamic"):
        part = getattr(seen, sampling)
        if part is not None:
            rows = part.values.reshape(-1, next(iter(at.values())).size)
            table = {"sampling": np.full(rows.size, sampling), "number": np.arange(len(rows)).repeat(rows.shape[1])}
            table |= {name: np.tile(steps.ravel(), len(rows)) for name, steps in at.items()}
            tables.append(table | {"value": part.values.ravel(), "slope": part.slopes.ravel()})
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
