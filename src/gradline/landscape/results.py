"""What a scan returns: arrays, with the ways to read them. Numbers only: no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.landscape.optima import Array, Found


@dataclass(frozen=True, eq=False)
class Curves:
    """Value F(α) and slope F'(α) at each step (the last axis).

    With a row for each static mini-batch, or for each dynamic walk; the curve of all the data is a vector.
    """

    steps: Array
    values: Array
    slopes: Array

    def found(self) -> Found:
        """Where the rows have local minima and sign changes."""
        return Found.of(self.steps, self.values, self.slopes)


@dataclass(frozen=True, eq=False)
class Line:
    """A loss along a direction, under full, static and dynamic sampling. What was not asked for is `None`."""

    steps: Array
    full: Curves | None
    """All the data: vectors."""
    static: Curves | None
    """A row for each mini-batch, which is the same at all steps."""
    dynamic: Curves | None
    """A row for each walk, with a new mini-batch at each step."""
    batches: tuple[NDArray[np.int64], ...]
    """The samples of the static mini-batches, by number (empty where a loader drew them)."""
    batch_size: int | None
    norm: float
    """‖d‖, the length of the direction: a step of α moves the parameters by α·‖d‖."""

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Columns of equal length, for `pandas.DataFrame(...)`: a row for each evaluation."""
        parts = _parts(self.full, self.static, self.dynamic)
        return {
            "sampling": np.concatenate([np.full(curves.values.size, name) for name, curves in parts]),
            "number": np.concatenate([_numbers(curves.values, 1) for _, curves in parts]),
            "step": np.concatenate([np.broadcast_to(self.steps, curves.values.shape).ravel() for _, curves in parts]),
            "value": np.concatenate([curves.values.ravel() for _, curves in parts]),
            "slope": np.concatenate([curves.slopes.ravel() for _, curves in parts]),
        }


@dataclass(frozen=True, eq=False)
class Surfaces:
    """Value, and slope along one direction, over a plane: the last two axes are y and x, as matplotlib has them.

    With a surface for each mini-batch or walk; that of all the data has two axes only.
    """

    values: Array
    slopes: Array


@dataclass(frozen=True, eq=False)
class Plane:
    """A loss over two directions, under full, static and dynamic sampling. What was not asked for is `None`."""

    x: Array
    """Steps along the first direction."""
    y: Array
    """Steps along the second direction."""
    full: Surfaces | None
    static: Surfaces | None
    dynamic: Surfaces | None
    batches: tuple[NDArray[np.int64], ...]
    """The samples of the static mini-batches, by number (empty where a loader drew them)."""
    batch_size: int | None
    center: tuple[float, float] | None
    """Over two single weights: what they are where x = y = 0. Add it to `x` and `y` to have the weights themselves."""

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Columns of equal length, for `pandas.DataFrame(...)`: a row for each evaluation."""
        parts = _parts(self.full, self.static, self.dynamic)
        x, y = np.meshgrid(self.x, self.y)
        return {
            "sampling": np.concatenate([np.full(part.values.size, name) for name, part in parts]),
            "number": np.concatenate([_numbers(part.values, 2) for _, part in parts]),
            "x": np.concatenate([np.broadcast_to(x, part.values.shape).ravel() for _, part in parts]),
            "y": np.concatenate([np.broadcast_to(y, part.values.shape).ravel() for _, part in parts]),
            "value": np.concatenate([part.values.ravel() for _, part in parts]),
            "slope": np.concatenate([part.slopes.ravel() for _, part in parts]),
        }


def _parts(full: Any, static: Any, dynamic: Any) -> list[tuple[str, Any]]:
    named = [("full", full), ("static", static), ("dynamic", dynamic)]
    return [(name, part) for name, part in named if part is not None]


def _numbers(values: Array, axes: int) -> NDArray[np.int64]:
    """Which mini-batch or walk each value is of; 0 for all the data."""
    if values.ndim == axes:
        return np.zeros(values.size, dtype=np.int64)
    return np.repeat(np.arange(len(values)), values[0].size)
