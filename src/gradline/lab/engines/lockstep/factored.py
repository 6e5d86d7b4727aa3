"""Parameters of one row of a large network, with its gradients as the factors that backpropagation gives.

The gradient of a layer on B samples is δ aᵀ, a product of rank B, and steepest descent moves along it. So neither the
point x = x0 - α g0 nor its gradient need be written to memory, which is where the time of a large network with small
batches goes:

    W a = W0 a - α δ0 (a0ᵀ a),    Wᵀ δ = W0ᵀ δ - α a0 (δ0ᵀ δ),    g0 · g = Σ (a0ᵀ a) (δ0ᵀ δ)

An evaluation reads the parameters once (all but those of the first layer twice), and an accepted step adds a product
of factors to them. The numbers are those of `Points` up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradline.lab.engines.lockstep.layers import Layers, Pass
from gradline.lab.engines.lockstep.points import fitting


class Factors:
    """A gradient: for each layer the inputs a and the deltas δ of B samples, both with samples first, (1, B, units)."""

    def __init__(self, inputs: list[Tensor], deltas: list[Tensor]) -> None:
        self.inputs, self.deltas = inputs, deltas

    @classmethod
    def of(cls, seen: Pass) -> Factors:
        """Copy the factors of an evaluation, whose workspace the next evaluation overwrites."""
        return cls(*([_samples_first(part) for part in parts] for parts in (seen.inputs, seen.deltas)))

    def dot(self, other: Factors) -> float:
        total = torch.zeros((), dtype=self.inputs[0].dtype)
        for a, delta, a0, delta0 in zip(self.inputs, self.deltas, other.inputs, other.deltas, strict=True):
            total += _inner(torch.bmm(a, a0.mT), torch.bmm(delta, delta0.mT))
        return float(total)

    def double(self) -> Factors:
        return Factors([part.double() for part in self.inputs], [part.double() for part in self.deltas])

    def add_to(self, blocks: list[Tensor], scale: float) -> None:
        """Add the gradient, scaled, to the layers' blocks [W | b]."""
        for block, a, delta in zip(blocks, self.inputs, self.deltas, strict=True):
            block.baddbmm_(delta.mT, a, alpha=scale)


class Along:
    """Corrects the products with the parameters x0 to those with x0 - α g0, and sums the product of g0 and g."""

    def __init__(self, origin: Factors, step: float) -> None:
        self._origin, self._scale = origin, -step
        self._alike: list[Tensor] = []
        self.product = torch.zeros((), dtype=origin.inputs[0].dtype)

    def forward(self, layer: int, a: Tensor, z: Tensor) -> None:
        """Correct z = W0 a, in place."""
        alike = torch.bmm(a.mT, self._origin.inputs[layer].mT)
        self._alike.append(alike)
        z.mT.baddbmm_(alike, self._origin.deltas[layer], alpha=self._scale)

    def backward(self, layer: int, delta: Tensor, back: Tensor | None) -> None:
        """Correct back = W0ᵀ δ without the bias's row, in place; there is none of the first layer."""
        alike = torch.bmm(delta.mT, self._origin.deltas[layer].mT)
        self.product += _inner(self._alike[layer], alike)
        if back is not None:
            back.mT.baddbmm_(alike, self._origin.inputs[layer][:, :, : back.shape[1]], alpha=self._scale)


class Factored:
    """The same as `Points`, for one row of a large network on mini-batches."""

    g = None  # not formed: `Layers.slope_variances` has it from the evaluation

    def __init__(self, x0: Tensor, origin: Factors | None, layers: Layers) -> None:
        self.x0 = x0
        self._layers, self._weights = layers, layers.views(x0)
        self._origin, self._step = origin, 0.0
        self._along: Along | None = None
        self._seen: Pass | None = None

    def __len__(self) -> int:
        return 1

    @property
    def x(self) -> Tensor:
        return self._moved(self.x0.clone(), -self._step)

    @property
    def g0(self) -> Tensor:
        return self._moved(torch.zeros_like(self.x0), 1.0)

    def _moved(self, point: Tensor, scale: float) -> Tensor:
        if self._origin is not None and scale != 0.0:
            self._origin.add_to(self._layers.views(point), scale)
        return point

    def go(self, steps: Sequence[float]) -> None:
        self.go_one(0, steps[0])

    def go_one(self, row: int, step: float) -> None:
        self._step = fitting(step, self.x0.dtype)

    def evaluate(self, samples: Tensor, *, values: bool, number: int) -> Pass:
        self._along = None if self._origin is None else Along(self._origin, self._step)
        self._seen = self._layers.evaluate(
            self._weights, samples, None, values=values, number=number, along=self._along
        )
        return self._seen

    def measure(self) -> list[tuple[float, float]]:
        assert self._seen is not None
        seen = Factors([part.mT for part in self._seen.inputs], [part.mT for part in self._seen.deltas])
        slope, square = 0.0 if self._along is None else -float(self._along.product), seen.dot(seen)
        if not 0.0 < square < math.inf:  # squares overflow and underflow in single precision long before lengths do
            seen = seen.double()
            slope = 0.0 if self._origin is None else -seen.dot(self._origin.double())
            square = seen.dot(seen)
        return [(slope, max(square, 0.0) if square < 0.0 else square)]

    def take(self, rows: Sequence[int]) -> None:
        if rows:
            assert self._seen is not None
            self._moved(self.x0, -self._step)
            self._origin, self._step = Factors.of(self._seen), 0.0

    def state_dict(self) -> dict[str, Any]:
        origin = self._origin
        factors = None if origin is None else [[part.clone() for part in parts] for parts in vars(origin).values()]
        return {"x0": self.x0.clone(), "origin": factors}

    @classmethod
    def restored(cls, state: dict[str, Any], layers: Layers) -> Factored:
        origin = state["origin"]
        factors = None if origin is None else Factors(*([part.clone() for part in parts] for parts in origin))
        return cls(state["x0"].clone(), factors, layers)


def _samples_first(part: Tensor) -> Tensor:
    return part.mT.clone(memory_format=torch.contiguous_format)


def _inner(left: Tensor, right: Tensor) -> Tensor:
    return torch.dot(left.flatten(), right.flatten())
