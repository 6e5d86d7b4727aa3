"""A fully connected network for many parameter vectors at once: forward, backward and variances by batched products.

The parameters of one row are one flat vector, layer after layer as blocks [W | b] of outputs × (inputs + 1): the bias
is the weight of an input that is always 1. Activations have units along the second axis, that 1 at the end, and samples
along the third, so a layer is one product forward (W a), one for its gradient (δ aᵀ) and one backward (Wᵀ δ), for all
rows in one call.

A large network is evaluated row by row. In memory its activations have samples first, and its blocks are filled up with
columns of zeros (inputs, weights and gradients alike) to where rows of memory begin: products are faster so, by up to
30%. For a small network with few outputs it is the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradline.lab.problems import Activation, Network
from gradline.lab.problems.data import DataSet
from gradline.lab.problems.networks import Criterion, criterion, initial_weights, largest, sizes

if TYPE_CHECKING:
    from gradline.lab.engines.lockstep.factored import Along

CHUNK = 2**22
"""Activations of one layer that a pass over all samples computes at once, about."""
LARGE = 2**20
"""Bytes of parameters above which a network is large."""
ALIGNED = 64
"""Bytes of a cache line."""
VECTORS = 32
"""Most numbers that torch computes by one vectorized operation: two vectors of 16."""
ASIDE = -1
"""Number of the workspace of passes that are not counted as evaluations."""


@dataclass(slots=True)
class Pass:
    """Results of one evaluation of n rows: inputs of each layer, and gradients of the mean loss at its outputs."""

    inputs: list[Tensor]
    deltas: list[Tensor]
    losses: Tensor | None

    @property
    def size(self) -> int:
        """Number of samples of each row."""
        return self.deltas[0].shape[2]

    def only(self, rows: Sequence[int]) -> Pass:
        if len(rows) == len(self.deltas[0]):
            return self
        chosen = torch.tensor(rows)
        return Pass(
            [_select(part, chosen) for part in self.inputs],
            [_select(part, chosen) for part in self.deltas],
            None if self.losses is None else self.losses.index_select(0, chosen),
        )


class Layers:
    """A problem's network and data.

    `width` is the number of parameters of a row, padding included. `large` networks are evaluated one row at a time.
    """

    def __init__(self, problem: Network, data: DataSet) -> None:
        self.problem = problem
        self.dtype: torch.dtype = getattr(torch, problem.dtype)
        self.sizes = sizes(problem, data)
        numbers = sum((before + 1) * after for before, after in pairwise(self.sizes))
        self.large = numbers * self.dtype.itemsize >= LARGE
        fill = ALIGNED // self.dtype.itemsize if self.large else 1
        self._columns = [-(-(before + 1) // fill) * fill for before in self.sizes[:-1]]
        self.width = sum(columns * after for columns, after in zip(self._columns, self.sizes[1:], strict=True))
        self.criterion: Criterion = criterion(problem)
        self.train = self._table(data.train_inputs, data.train_targets)
        self.test = self._table(data.test_inputs, data.test_targets)
        sigmoid = problem.activation is Activation.SIGMOID
        self._squash: Any = torch.sigmoid if sigmoid else torch.tanh
        self._squash_back: Any = torch.ops.aten.sigmoid_backward if sigmoid else torch.ops.aten.tanh_backward
        self._workspaces: dict[tuple[int, int, int], tuple[Tensor, list[Tensor]]] = {}
        self._data = data

    def _table(self, inputs: NDArray[Any], targets: NDArray[Any]) -> Tensor:
        """Return samples as rows [inputs, 1, targets], so that a batch is gathered by one call."""
        table = torch.zeros(len(inputs), self._columns[0] + targets.shape[1], dtype=self.dtype)
        table[:, : inputs.shape[1]] = torch.from_numpy(np.asarray(inputs))
        table[:, inputs.shape[1]] = 1.0
        table[:, self._columns[0] :] = torch.from_numpy(np.asarray(targets))
        return table

    def start(self, problem: Network, seed: int) -> Tensor:
        """Return the initial parameters of a run."""
        point = torch.zeros(1, self.width, dtype=self.dtype)
        given = initial_weights(problem, self._data, seed)
        for block, weight, bias in zip(self.views(point), given[::2], given[1::2], strict=True):
            block[0, :, : weight.shape[1]] = torch.from_numpy(weight)
            block[0, :, weight.shape[1]] = torch.from_numpy(bias)
        return point[0]

    def views(self, vectors: Tensor) -> list[Tensor]:
        """Return the layers' blocks [W | b] of n parameter vectors, as views."""
        blocks, begin = [], 0
        for columns, after in zip(self._columns, self.sizes[1:], strict=True):
            end = begin + columns * after
            blocks.append(vectors[:, begin:end].view(-1, after, columns))
            begin = end
        return blocks

    def gather(self, indices: Tensor, rows: int, number: int = 0) -> Tensor:
        """Return the samples of all rows' batches, (n, B, columns), in the workspace with a number."""
        samples, _ = self._workspace(rows, len(indices) // rows, number)
        torch.index_select(self.train, 0, indices, out=samples)
        return samples.view(rows, -1, self.train.shape[1])

    def whole(self, rows: int) -> Tensor:
        """Return all training samples for each row, without a copy."""
        return self.train.expand(rows, *self.train.shape)

    def evaluate(
        self,
        weights: list[Tensor],
        samples: Tensor,
        gradients: list[Tensor] | None,
        *,
        values: bool,
        number: int = 0,
        along: Along | None = None,
    ) -> Pass:
        """Compute the gradients of the mean losses of n rows, each at its point on its batch.

        The result is valid until the next evaluation of the same shape with the same workspace.

        Args:
            weights: the points, as blocks (see `views`).
            samples: the batches, (n, B, columns).
            gradients: the blocks to write the gradients to; `None`: the result has their factors.
            values: whether to compute the losses too.
            number: of the workspace. Passes whose results are needed at the same time have different ones.
            along: the points are a step away from `weights`.
        """
        rows = len(weights[0])
        size = samples.shape[1]
        _, hidden = self._workspace(rows, size, number)
        inputs, z, targets = self._forward(weights, samples, hidden, along)
        z, targets = self._padded(z), self._padded(targets)
        losses = self.criterion.values(z, targets, 1)[:, :size] if values else None
        delta = self.criterion.deltas(z, targets, 1)[:, :, :size].mul_(1.0 / size).to(self.dtype)
        deltas = [delta]
        direct = rows == 1 or len(weights) == 1  # batched products are fast only into contiguous memory
        for layer in reversed(range(len(weights))):
            if gradients is None:
                pass
            elif direct:
                torch.bmm(delta, inputs[layer].transpose(1, 2), out=gradients[layer])
            else:
                gradients[layer].copy_(torch.bmm(delta, inputs[layer].transpose(1, 2)))
            units = self.sizes[layer]
            back = self._product(weights[layer][:, :, :units].transpose(1, 2), delta) if layer else None
            if along is not None:
                along.backward(layer, delta, back)
            if back is not None:
                delta = self._squash_back(back, inputs[layer][:, :units])
                deltas.append(delta)
        return Pass(inputs, deltas[::-1], losses)

    def _forward(
        self, weights: list[Tensor], samples: Tensor, hidden: list[Tensor], along: Along | None
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        table = samples.transpose(1, 2)
        inputs = [table[:, : self._columns[0]]]
        for layer, weight in enumerate(weights):
            z = self._product(weight, inputs[-1])
            if along is not None:
                along.forward(layer, inputs[-1], z)
            if layer < len(hidden):
                self._squash(z, out=hidden[layer][:, : weight.shape[1]])
                inputs.append(hidden[layer])
        return inputs, z, table[:, self._columns[0] :]

    def _product(self, weights: Tensor, activations: Tensor) -> Tensor:
        """Return weights times activations, units × samples; for large networks with samples first in memory."""
        if self.large:
            return torch.bmm(activations.transpose(1, 2), weights.transpose(1, 2)).transpose(1, 2)
        return torch.bmm(weights, activations)

    def _padded(self, outputs: Tensor) -> Tensor:
        """Return outputs or targets, padded by samples of zeros to a multiple of `VECTORS`.

        Torch computes exponentials and logarithms of a tensor's last few numbers by other instructions, which round
        otherwise. Without padding, these would belong to other samples whenever the number of rows changes.
        """
        over = -outputs.shape[2] % VECTORS
        return outputs if self.large or over == 0 else torch.nn.functional.pad(outputs, (0, over))

    def _hidden(self, rows: int, size: int) -> list[Tensor]:
        """Return buffers for hidden activations, with the 1 that carries the bias."""
        buffers = []
        for units, columns in zip(self.sizes[1:-1], self._columns[1:], strict=True):
            shape = (rows, size, columns) if self.large else (rows, columns, size)
            buffer = torch.zeros(shape, dtype=self.dtype)
            buffers.append(buffer.transpose(1, 2) if self.large else buffer)
            buffers[-1][:, units] = 1.0
        return buffers

    def slope_variances(self, seen: Pass, g: Tensor | None) -> Tensor:
        """Return the variances of the mean slopes along each row's own gradient, (n,), as Σ g_i² var g_i.

        `g` has the gradients of the pass; `None`: they are computed from the pass.
        """
        size = seen.size
        blocks = [None] * len(seen.deltas) if g is None else self.views(g)
        total = torch.zeros(len(seen.deltas[0]), dtype=self.dtype)
        for a, delta, block in zip(seen.inputs, seen.deltas, blocks, strict=True):
            if block is None and (size * (size + 1) // 2) ** 2 * (len(a[0]) + len(delta[0])) <= (
                2 * size * len(a[0]) * len(delta[0])
            ):
                total.add_(_fourth_powers(a, delta))
                continue
            squares = torch.bmm(delta, a.mT).square_() if block is None else block.square()
            total.add_(_products(torch.bmm(squares, a.square()), delta.square()), alpha=size)
            total.sub_(_products(squares, squares))
        return total.div_(size - 1).clamp_(min=0.0)

    def measure(self, points: Tensor, table: Tensor) -> list[list[float]]:
        """Return mean loss and share of wrong classes on the samples of a table, for n points."""
        weights, count = self.views(points), len(table)
        if count == 0:
            return [[float("nan")] * 2 for _ in points]
        total = torch.zeros(2, len(points), dtype=torch.float64)
        step = max(1, CHUNK // (max(self.sizes) * len(points)))
        for part in torch.split(table, step):
            samples = part[:, : self._columns[0]].t()
            z = self._product(weights[0], samples.expand(len(points), *samples.shape))
            for weight, room in zip(weights[1:], self._workspace(len(points), len(part), ASIDE)[1], strict=True):
                self._squash(z, out=room[:, : z.shape[1]])
                z = self._product(weight, room)
            targets = part[:, self._columns[0] :].t()
            losses = self.criterion.values(self._padded(z), self._padded(targets[None]), 1)[:, : len(part)]
            total[0] += losses.sum(dim=1, dtype=torch.float64)
            total[1] += (largest(z, 1) != largest(targets, 0)).sum(dim=1)
        pairs: list[list[float]] = total.div_(count).t().tolist()
        return pairs

    def full_gradient(self, point: Tensor) -> Tensor:
        """Return the gradient of the mean loss on all training samples at one point, (P,), in float64."""
        total = torch.zeros(1, self.width, dtype=torch.float64)
        part = torch.empty(1, self.width, dtype=self.dtype)
        for table in torch.split(self.train, max(1, CHUNK // max(self.sizes))):
            self.evaluate(self.views(point[None]), table[None], self.views(part), values=False, number=ASIDE)
            total.add_(part, alpha=len(table) / len(self.train))
        return total[0]

    def _workspace(self, rows: int, size: int, number: int) -> tuple[Tensor, list[Tensor]]:
        """Return buffers for `rows` rows with batches of `size` samples: their samples, and their hidden activations.

        Evaluations of one shape use them again and again; those with different numbers have different ones.
        """
        key = rows, size, number
        if key not in self._workspaces:
            if len(self._workspaces) >= 64:  # of shapes that do not come again
                self._workspaces.clear()
            samples = torch.empty(rows * size, self.train.shape[1], dtype=self.dtype)
            self._workspaces[key] = samples, self._hidden(rows, size)
        return self._workspaces[key]


def variances_of_means(values: Tensor) -> Tensor:
    """Return the variance of the mean of each row, (n,), from the values of its samples, (n, B).

    It does not call `torch.var`, whose rounding depends on the number of rows.
    """
    size = values.shape[1]
    return (values - values.mean(dim=1, keepdim=True)).square_().sum(dim=1).div_(size * (size - 1))


def _select(part: Tensor, rows: Tensor) -> Tensor:
    """Return some of the rows in the same memory layout: products of another layout round otherwise."""
    if part.stride(1) == 1:
        return part.transpose(1, 2).index_select(0, rows).transpose(1, 2)
    return part.index_select(0, rows)


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Return the inner product of both tensors for each row, (n,)."""
    products: Tensor = torch.linalg.vecdot(left.flatten(1), right.flatten(1))
    return products


def _fourth_powers(a: Tensor, delta: Tensor) -> Tensor:
    """Return B Σ g² (δ²) (a²)ᵀ - Σ g⁴ of g = δ aᵀ, summed over all entries, (n,), from pairs of samples without g.

    g² is a sum over pairs k, l of δ_k δ_l a_k a_l, so both sums are over products of pairs with pairs. Pairs k < l
    count twice.
    """
    size = a.shape[2]
    first, second = torch.triu_indices(size, size)
    same = first == second
    weights = torch.where(same, 1.0, 2.0).to(a.dtype)
    pairs = (part.mT[:, first] * part.mT[:, second] for part in (a, delta))
    left, right = (torch.bmm(pair, pair.mT) for pair in pairs)
    products = left.mul_(right)
    found: Tensor = (products @ (size * same.to(a.dtype) - weights)) @ weights
    return found
