"""Per-sample slopes and variances of linear layers, from their inputs a and output gradients δ.

With z_b = W a_b + c, the slope of sample b along (D, e) is δ_b · (D a_b + e), which needs no per-sample gradient. The
elementwise square of its gradient is (δ_b ∘ δ_b)(a_b ∘ a_b)ᵀ, so that a sum of squares over the batch is one matrix
product. Slopes are summed over layers. This holds for any loss whose samples do not mix.

`delta` and `gradients` are of the mean loss: ∂(mean ℓ)/∂z = δ_b/B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(slots=True)
class Layer:
    """One use of a weight and a bias, given by their indices among the parameters (`None`: absent or not ours)."""

    node: Any
    inputs: Tensor  # empty if only the bias is ours
    weight: int | None
    bias: int | None
    version: int
    delta: Tensor | None = field(default=None, kw_only=True)

    def note(self, gradients: tuple[Tensor | None, ...]) -> None:
        """Note the gradient of the output, which a hook on the node is given."""
        self.delta = gradients[0]

    def change(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the derivative of the layer's output along a direction in its parameters."""
        raise NotImplementedError

    def slopes(self, delta: Tensor, directions: Sequence[Tensor]) -> Tensor:
        """Return each sample's contribution to the slope; the sum over samples and layers is d·g."""
        bias = None if self.bias is None else directions[self.bias]
        if self.weight is not None:
            return self.change(directions[self.weight], bias).mul_(delta).flatten(start_dim=1).sum(dim=1)
        return torch.zeros_like(delta[:, 0]) if bias is None else delta.reshape(*delta.shape[:2], -1).sum(dim=2) @ bias


@dataclass(slots=True)
class Dense(Layer):
    """A linear layer on vectors. `transposed`: the weight is inputs × outputs, not outputs × inputs as in nn.Linear."""

    transposed: bool

    def change(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.nn.functional.linear(self.inputs, weight.t() if self.transposed else weight, bias)

    def own_slopes(self, delta: Tensor) -> Tensor:
        """Return each sample's contribution to the slope along the layer's mean gradient, Σ_c (δ_b·δ_c)(a_b·a_c + 1).

        Two Gram matrices of the batch replace a matrix of the weight's size if that is less work.
        """
        batch, outputs = delta.shape
        if self.weight is None:
            return torch.zeros_like(delta[:, 0]) if self.bias is None else delta @ delta.sum(dim=0)
        a = self.inputs
        if batch * (a.shape[1] + outputs) <= 2 * a.shape[1] * outputs:
            alike = a @ a.t()
            if self.bias is not None:
                alike += 1.0
            return alike.mul_(delta @ delta.t()).sum(dim=1)
        bias = None if self.bias is None else delta.sum(dim=0)
        return torch.nn.functional.linear(a, delta.t() @ a, bias).mul_(delta).sum(dim=1)

    def variances(self, delta: Tensor, gradients: Sequence[Tensor | None]) -> list[tuple[int, Tensor]]:
        """Return the variances of the components of the mean gradient, with the indices of their parameters.

        They are (B Σ_b g_b² - ḡ²)/(B - 1), with g_b the contribution of sample b to ḡ. A variance below about machine
        epsilon times mean(g²) is rounding noise; negative ones are set to 0.
        """
        batch = delta.shape[0]
        pairs: list[tuple[int, Tensor]] = []
        squares = delta.square()
        if self.weight is not None:
            left, right = (self.inputs, delta) if self.transposed else (delta, self.inputs)
            gradient = gradients[self.weight]
            mean = left.t() @ right if gradient is None else gradient
            both = (self.inputs.square(), squares) if self.transposed else (squares, self.inputs.square())
            pairs.append((self.weight, _variance(both[0].t() @ both[1], mean, batch)))
        if self.bias is not None:
            gradient = gradients[self.bias]
            mean = delta.sum(dim=0) if gradient is None else gradient
            pairs.append((self.bias, _variance(squares.sum(dim=0), mean, batch)))
        return pairs


@dataclass(slots=True)
class Convolution(Layer):
    """A convolution in any number of dimensions, possibly transposed."""

    options: tuple[Any, ...]

    def change(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.convolution(self.inputs, weight, bias, *self.options)


def _variance(squares: Tensor, mean: Tensor, batch: int) -> Tensor:
    scale = 1.0 / (batch - 1)
    return squares.mul_(batch * scale).addcmul_(mean, mean, value=-scale).clamp_(min=0.0)
