"""A fully connected network for many parameter vectors at once: forward, backward and variances by batched products.

The parameters of one row are one flat vector, layer after layer as blocks [W | b] of outputs × (inputs + 1): the bias
is the weight of an input that is always 1. Activations have samples along the last axis and end with that 1, so a layer
is one product forward (W a), one for its gradient (δ aᵀ) and one backward (Wᵀ δ), for all rows in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradline.study.networks import Criterion, Data, criterion, initial_weights, sizes, wrong
from gradline.study.problems import Activation, Problem

CHUNK = 2**22
"""Passes over all samples go in pieces of about so many activations of one layer."""


@dataclass(slots=True)
class Pass:
    """What one evaluation of n rows left behind: activations before each layer and gradients after it (of the mean)."""

    inputs: list[Tensor]
    deltas: list[Tensor]
    losses: Tensor | None

    @property
    def size(self) -> int:
        """Samples of each row."""
        return self.deltas[0].shape[2]

    def only(self, rows: Sequence[int]) -> Pass:
        """The same for some of the rows."""
        if len(rows) == len(self.deltas[0]):
            return self
        chosen = torch.tensor(rows)
        return Pass(
            [part.index_select(0, chosen) for part in self.inputs],
            [part.index_select(0, chosen) for part in self.deltas],
            None if self.losses is None else self.losses.index_select(0, chosen),
        )


class Layers:
    """A problem's network and data. `width` is the number of its parameters."""

    def __init__(self, problem: Problem, data: Data) -> None:
        self.problem = problem
        self.dtype: torch.dtype = getattr(torch, problem.dtype)
        self.sizes = sizes(problem, data)
        self.width = sum((before + 1) * after for before, after in pairwise(self.sizes))
        self.criterion: Criterion = criterion(problem)
        self.train = self._table(data.train_inputs, data.train_targets)
        self.test = self._table(data.test_inputs, data.test_targets)
        sigmoid = problem.activation is Activation.SIGMOID
        self._squash: Any = torch.sigmoid if sigmoid else torch.tanh
        self._squash_back: Any = torch.ops.aten.sigmoid_backward if sigmoid else torch.ops.aten.tanh_backward
        self._spaces: dict[tuple[int, int], _Space] = {}
        self._data = data

    def _table(self, inputs: NDArray[Any], targets: NDArray[Any]) -> Tensor:
        """Samples as rows [inputs, 1, targets]: a batch is gathered in one go."""
        table = torch.ones(len(inputs), inputs.shape[1] + 1 + targets.shape[1], dtype=self.dtype)
        table[:, : inputs.shape[1]] = torch.from_numpy(np.asarray(inputs))
        table[:, inputs.shape[1] + 1 :] = torch.from_numpy(np.asarray(targets))
        return table

    def start(self, problem: Problem, seed: int) -> Tensor:
        """The parameters at the start of a run."""
        point = torch.empty(1, self.width, dtype=self.dtype)
        given = initial_weights(problem, self._data, seed)
        for block, weight, bias in zip(self.views(point), given[::2], given[1::2], strict=True):
            block[0, :, :-1] = torch.from_numpy(weight)
            block[0, :, -1] = torch.from_numpy(bias)
        return point[0]

    def views(self, vectors: Tensor) -> list[Tensor]:
        """The layers' blocks [W | b] of n parameter vectors."""
        blocks, begin = [], 0
        for before, after in pairwise(self.sizes):
            end = begin + (before + 1) * after
            blocks.append(vectors[:, begin:end].view(-1, after, before + 1))
            begin = end
        return blocks

    def gather(self, indices: Tensor, rows: int) -> Tensor:
        """The samples of all rows' batches, (n, B, columns). They stay until the next batches of this shape."""
        space = self._space(rows, len(indices) // rows)
        torch.index_select(self.train, 0, indices, out=space.samples)
        return space.samples.view(rows, -1, self.train.shape[1])

    def whole(self, rows: int) -> Tensor:
        """All training samples for each row, without a copy."""
        return self.train.expand(rows, *self.train.shape)

    def evaluate(self, x: Tensor, samples: Tensor, g: Tensor, *, values: bool) -> Pass:
        """The gradients of the mean losses at n points on n batches, into `g`; with the losses, if asked."""
        weights, gradients = self.views(x), self.views(g)
        inputs, z, targets = self._forward(weights, samples, self._space(len(x), samples.shape[1]).hidden)
        losses = self.criterion.values(z, targets, 1) if values else None
        delta = self.criterion.deltas(z, targets, 1).mul_(1.0 / samples.shape[1]).to(self.dtype)
        deltas = [delta]
        direct = len(x) == 1 or len(weights) == 1  # batched products are fast only into contiguous memory
        for weight, gradient, a in zip(reversed(weights), reversed(gradients), reversed(inputs), strict=True):
            if direct:
                torch.bmm(delta, a.transpose(1, 2), out=gradient)
            else:
                gradient.copy_(torch.bmm(delta, a.transpose(1, 2)))
            if a is not inputs[0]:
                back = torch.bmm(weight[:, :, :-1].transpose(1, 2), delta)
                delta = self._squash_back(back, a[:, :-1])
                deltas.append(delta)
        return Pass(inputs, deltas[::-1], losses)

    def _forward(
        self, weights: list[Tensor], samples: Tensor, hidden: list[Tensor]
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        table = samples.transpose(1, 2)
        inputs = [table[:, : self.sizes[0] + 1]]
        for weight, room in zip(weights, hidden, strict=False):
            self._squash(torch.bmm(weight, inputs[-1]), out=room[:, :-1])
            inputs.append(room)
        return inputs, torch.bmm(weights[-1], inputs[-1]), table[:, self.sizes[0] + 1 :]

    def slope_variances(self, seen: Pass, g: Tensor, *, diagonal: bool) -> Tensor:
        """The variances of the mean slopes along each row's own gradient, (n,): exact, or Σ g_i² var g_i."""
        size = seen.size
        if diagonal:
            total = torch.zeros(len(g), dtype=self.dtype)
            for a, delta, block in zip(seen.inputs, seen.deltas, self.views(g), strict=True):
                squares = block.square()
                total.add_(torch.bmm(squares, a.square()).mul_(delta.square()).sum(dim=(1, 2)), alpha=size)
                total.sub_(squares.square_().sum(dim=(1, 2)))
            return total.div_(size - 1).clamp_(min=0.0)
        slopes = torch.zeros(len(g), size, dtype=self.dtype)
        for a, delta, block in zip(seen.inputs, seen.deltas, self.views(g), strict=True):
            if size * (block.shape[1] + block.shape[2]) <= block.shape[1] * block.shape[2]:
                alike = torch.bmm(a.transpose(1, 2), a).mul_(torch.bmm(delta.transpose(1, 2), delta))
                slopes += alike.sum(dim=2)
            else:
                slopes += torch.bmm(block, a).mul_(delta).sum(dim=1)
        return slopes.mul_(size).var(dim=1).div_(size)

    def measure(self, points: Tensor, table: Tensor) -> list[list[float]]:
        """Mean loss and part of wrong classes on the samples of a table, for n points."""
        weights, count = self.views(points), len(table)
        if count == 0:
            return [[float("nan")] * 2 for _ in points]
        total = torch.zeros(2, len(points), dtype=torch.float64)
        step = max(1, CHUNK // (max(self.sizes) * len(points)))
        for part in torch.split(table, step):
            samples = part.expand(len(points), *part.shape)
            _, z, targets = self._forward(
                weights, samples, _Space.rooms(self.sizes, len(points), len(part), self.dtype)
            )
            total[0] += self.criterion.values(z, targets, 1).sum(dim=1, dtype=torch.float64)
            total[1] += wrong(z, targets, 1).sum(dim=1)
        pairs: list[list[float]] = total.div_(count).t().tolist()
        return pairs

    def full_gradient(self, point: Tensor) -> Tensor:
        """The gradient of the mean loss on all training samples at one point, (P,), in float64."""
        total = torch.zeros(1, self.width, dtype=torch.float64)
        part = torch.empty(1, self.width, dtype=self.dtype)
        for table in torch.split(self.train, max(1, CHUNK // max(self.sizes))):
            self.evaluate(point[None], table[None], part, values=False)
            total.add_(part, alpha=len(table) / len(self.train))
        return total[0]

    def _space(self, rows: int, size: int) -> _Space:
        key = rows, size
        if key not in self._spaces:
            if len(self._spaces) > 16:
                self._spaces.clear()
            self._spaces[key] = _Space(self, rows, size)
        return self._spaces[key]


class _Space:
    """Room for the samples and hidden activations of n rows with batches of B, used again and again."""

    def __init__(self, layers: Layers, rows: int, size: int) -> None:
        self._layers, self._shape = layers, (rows, size)
        self.hidden = self.rooms(layers.sizes, rows, size, layers.dtype)
        self._samples: Tensor | None = None

    @property
    def samples(self) -> Tensor:
        """Room for samples; whoever looks at the data itself needs none."""
        if self._samples is None:
            rows, size = self._shape
            self._samples = torch.empty(rows * size, self._layers.train.shape[1], dtype=self._layers.dtype)
        return self._samples

    @staticmethod
    def rooms(sizes: Sequence[int], rows: int, size: int, dtype: torch.dtype) -> list[Tensor]:
        """Hidden activations, with the 1 that carries the bias."""
        return [torch.ones(rows, units + 1, size, dtype=dtype) for units in sizes[1:-1]]
