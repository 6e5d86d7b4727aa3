"""The perceptron itself: as a torch module to train it, and as numpy arrays to keep it and predict with it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import nn


class Activation(NamedTuple):
    """The function of the hidden units, in torch and in numpy."""

    module: Callable[[], nn.Module]
    function: Callable[[Any], Any]


ACTIVATIONS = {
    "identity": Activation(nn.Identity, lambda values: values),
    "logistic": Activation(nn.Sigmoid, expit),
    "tanh": Activation(nn.Tanh, np.tanh),
    "relu": Activation(nn.ReLU, lambda values: np.maximum(values, 0)),
}


class Weights(NamedTuple):
    """What a network has learned: for each layer a matrix (inputs × outputs) and a vector, as in scikit-learn."""

    coefs: list[Any]
    intercepts: list[Any]

    @classmethod
    def random(cls, sizes: Sequence[int], activation: str, generator: np.random.RandomState, dtype: Any) -> Weights:
        """Glorot's initial weights, drawn as `MLPClassifier` draws them: one seed gives both the same start."""
        factor = 2.0 if activation == "logistic" else 6.0
        coefs, intercepts = [], []
        for inputs, outputs in itertools.pairwise(sizes):
            bound = math.sqrt(factor / (inputs + outputs))
            coefs.append(generator.uniform(-bound, bound, (inputs, outputs)).astype(dtype))
            intercepts.append(generator.uniform(-bound, bound, outputs).astype(dtype))
        return cls(coefs, intercepts)

    @classmethod
    def of(cls, network: nn.Module) -> Weights:
        """A copy of what a network has learned so far."""
        layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
        coefs = [np.array(layer.weight.detach().cpu().numpy().T, order="C") for layer in layers]
        return cls(coefs, [np.array(layer.bias.detach().cpu().numpy()) for layer in layers])

    def network(self, activation: str, device: Any) -> nn.Sequential:
        """A network to train, with these weights. Nothing is drawn from torch's generators."""
        modules: list[nn.Module] = []
        for coef, intercept in zip(self.coefs, self.intercepts, strict=True):
            weight = torch.tensor(np.ascontiguousarray(coef.T))
            # Not Linear(...), which draws weights of its own.
            layer = nn.utils.skip_init(nn.Linear, *coef.shape, dtype=weight.dtype)  # type: ignore[no-untyped-call]
            with torch.no_grad():
                layer.weight.copy_(weight)
                layer.bias.copy_(torch.tensor(intercept))
            modules += [layer, ACTIVATIONS[activation].module()]
        return nn.Sequential(*modules[:-1]).to(device)

    def outputs(self, X: Any, activation: str) -> Any:
        """What the network says of inputs, dense or sparse; the last layer is linear."""
        values = X
        for place, (coef, intercept) in enumerate(zip(self.coefs, self.intercepts, strict=True)):
            if place:
                values = ACTIVATIONS[activation].function(values)
            values = values @ coef + intercept
        return values
