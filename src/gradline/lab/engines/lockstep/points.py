"""Parameters of n rows: origins x0 with gradients g0, and the points x under evaluation with gradients g.

Steepest descent moves along d = -g0, so directions need no room of their own: x = x0 - α g0, always from x0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradline.lab.engines.lockstep.layers import Layers, Pass


class Points:
    """Four vectors for each row. If all rows accept their points, x0 and x (and g0 and g) swap roles without a copy."""

    def __init__(self, tensor: Tensor, layers: Layers, side: int = 0) -> None:
        self._tensor = tensor  # (points or gradients, one side or the other, rows, parameters)
        self._layers = layers
        self._side = side
        self._blocks: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._assign()

    @classmethod
    def at(cls, starts: Sequence[Tensor], layers: Layers) -> Points:
        """Return rows at their initial parameters, without gradients."""
        tensor = torch.zeros(2, 2, len(starts), len(starts[0]), dtype=starts[0].dtype)
        for row, start in enumerate(starts):
            tensor[0, 0, row] = start
        return cls(tensor, layers)

    def _assign(self) -> None:
        here, there = self._side, 1 - self._side
        self.x0, self.x = self._tensor[0, here], self._tensor[0, there]
        self.g0, self.g = self._tensor[1, here], self._tensor[1, there]

    def __len__(self) -> int:
        return self._tensor.shape[2]

    def evaluate(self, samples: Tensor, *, values: bool, number: int) -> Pass:
        """Evaluate all rows; see `Layers.evaluate`."""
        if self._side not in self._blocks:  # always the same two pairs, so they are made once
            self._blocks[self._side] = self._layers.views(self.x), self._layers.views(self.g)
        weights, gradients = self._blocks[self._side]
        return self._layers.evaluate(weights, samples, gradients, values=values, number=number)

    def evaluate_some(self, rows: Sequence[int], samples: Tensor, *, values: bool, number: int) -> Pass:
        chosen = torch.tensor(rows)
        g = torch.empty(len(rows), self.x.shape[1], dtype=self.x.dtype)
        weights, gradients = self._layers.views(self.x.index_select(0, chosen)), self._layers.views(g)
        seen = self._layers.evaluate(weights, samples, gradients, values=values, number=number)
        self.g.index_copy_(0, chosen, g)
        return seen

    def go(self, steps: Sequence[float]) -> None:
        torch.addcmul(self.x0, self.g0, torch.tensor(steps, dtype=self.x.dtype)[:, None], value=-1.0, out=self.x)

    def go_one(self, row: int, step: float) -> None:
        torch.add(self.x0[row], self.g0[row], alpha=-fitting(step, self.x.dtype), out=self.x[row])

    def measure(self) -> list[tuple[float, float]]:
        """Return the slope along -g0 and the squared length of g, for each row."""
        # A product of its own for each row: what a matrix product rounds depends on the row's neighbours and column.
        products = torch.linalg.vecdot(self._tensor[1], self.g).tolist()
        slopes, squares = products[self._side], products[1 - self._side]
        measured = [(-slope, square) for slope, square in zip(slopes, squares, strict=True)]
        if self.x.dtype != torch.float64:
            for row, square in enumerate(squares):
                if not 0.0 < square < math.inf:
                    measured[row] = self._closer(row)
        return measured

    def _closer(self, row: int) -> tuple[float, float]:
        """Return the same for one row, computed in float64: squares overflow and underflow long before lengths do."""
        g = self.g[row].double()
        return -float(torch.dot(self.g0[row].double(), g)), float(torch.dot(g, g))

    def take(self, rows: Sequence[int]) -> None:
        """Make what was evaluated the new x0 and g0 of some rows."""
        if len(rows) == len(self):
            self._side = 1 - self._side
            self._assign()
        elif rows:
            chosen = torch.tensor(rows)
            self.x0.index_copy_(0, chosen, self.x.index_select(0, chosen))
            self.g0.index_copy_(0, chosen, self.g.index_select(0, chosen))

    def keep(self, rows: Sequence[int]) -> None:
        self._tensor = self._tensor.index_select(2, torch.tensor(rows))
        self._blocks.clear()
        self._assign()

    def state_dict(self) -> dict[str, Any]:
        return {"tensor": self._tensor.clone(), "side": self._side}

    @classmethod
    def restored(cls, state: dict[str, Any], layers: Layers) -> Points:
        return cls(state["tensor"].clone(), layers, state["side"])


def fitting(step: float, dtype: torch.dtype) -> float:
    """Return the step, or infinity if it exceeds the range of the dtype, which torch refuses."""
    return step if step <= torch.finfo(dtype).max else math.inf
