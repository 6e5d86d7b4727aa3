"""Losses and errors at accepted points: small networks wait until there are enough of them for one batched pass."""

from __future__ import annotations

import torch
from torch import Tensor

from gradline.lab.engines.lockstep.layers import Layers
from gradline.lab.jobs.result import Table
from gradline.lab.jobs.runs import Run
from gradline.lab.problems.networks import angle_between
from gradline.lab.problems.sampling import chosen_samples

MOST = 32
"""Points of one batched pass."""
ROOM = 2**22
"""Bytes of activations of one batched pass."""


class Measures:
    """Measures points of runs into their tables."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        samples = max(len(layers.train), len(layers.test))
        if layers.large or layers.problem.error_samples is not None:
            self._most = 1  # each has more than enough to do, or its own samples
        else:
            self._most = max(1, min(MOST, ROOM // (8 * samples * sum(layers.sizes))))
        self._points = torch.empty(self._most, layers.width, dtype=layers.dtype)
        self._waiting: list[tuple[Run, Table, int, float]] = []

    def add(self, run: Run, table: Table, point: Tensor, angle: float) -> None:
        """Measure a point for the last iteration of a table, now or later."""
        self._points[len(self._waiting)] = point
        self._waiting.append((run, table, table.iterations, angle))
        if len(self._waiting) == self._most:
            self.flush()

    @torch.inference_mode()
    def flush(self) -> None:
        """Measure all points that are waiting."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        tables = (
            _part(table, waiting[0][0], part) for part, table in enumerate((self._layers.train, self._layers.test))
        )
        found = [self._layers.measure(self._points[: len(waiting)], table) for table in tables]
        for (_, table, iteration, angle), on_train, on_test in zip(waiting, *found, strict=True):
            table.measure(iteration, (*on_train, *on_test), angle)

    def angle(self, point: Tensor, gradient: Tensor) -> float:
        """Return the angle between a gradient and that of all samples at the same point, in radians."""
        return angle_between(gradient.double(), self._layers.full_gradient(point))


def _part(table: Tensor, run: Run, part: int) -> Tensor:
    chosen = chosen_samples(run.seed, len(table), getattr(run.problem, "error_samples", None), part)
    return table if chosen is None else table[torch.from_numpy(chosen)]
