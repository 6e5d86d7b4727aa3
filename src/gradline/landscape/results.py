"""Results of scans, as numpy arrays. Does not need torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.landscape.optima import Array, Found


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
    """Return the index of the mini-batch or walk of each value; 0 for full sampling."""
    if values.ndim == axes:
        return np.zeros(values.size, dtype=np.int64)
    return np.repeat(np.arange(len(values)), values[0].size)
