"""The perceptron: a torch module for training, numpy arrays for storage and prediction."""

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
    """Activation function of the hidden units, in torch and in numpy."""

    module: Callable[[], nn.Module]
    function: Callable[[Any], Any]


ACTIVATIONS = {
    "identity": Activation(nn.Identity, lambda values: values),
    "logistic": Activation(nn.Sigmoid, expit),
    "tanh": Activation(nn.Tanh, np.tanh),
    "relu": Activation(nn.ReLU, lambda values: np.maximum(values, 0)),
}


class Weights(NamedTuple):
    """Weights of a network: for each layer a matrix (inputs × outputs) and a bias vector, as in scikit-learn."""

    coefs: list[Any]
    intercepts: list[Any]

    @classmethod
    def random(cls, sizes: Sequence[int], activation: str, generator: np.random.RandomState, dtype: Any) -> Weights:
        """Draw Glorot initial weights as `MLPClassifier` does: equal seeds give equal weights."""
        factor = 2.0 if activation == "logistic" else 6.0
        coefs, intercepts = [], []
        for inputs, outputs in itertools.pairwise(sizes):
            bound = math.sqrt(factor / (inputs + outputs))
            coefs.append(generator.uniform(-bound, bound, (inputs, outputs)).astype(dtype))
            intercepts.append(generator.uniform(-bound, bound, outputs).astype(dtype))
        return cls(coefs, intercepts)

    @classmethod
    def of(cls, network: nn.Module) -> Weights:
        """Copy the weights of a network."""
        layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
        coefs = [np.array(layer.weight.detach().cpu().numpy().T, order="C") for layer in layers]
        return cls(coefs, [np.array(layer.bias.detach().cpu().numpy()) for layer in layers])

    def network(self, activation: str, device: Any) -> nn.Sequential:
        """Return a torch network with these weights, without drawing from torch's generators."""
        modules: list[nn.Module] = []
        for coef, intercept in zip(self.coefs, self.intercepts, strict=True):
            weight = torch.tensor(np.ascontiguousarray(coef.T), device="cpu")
            # Linear(...) would draw random weights.
            layer = nn.utils.skip_init(nn.Linear, *coef.shape, dtype=weight.dtype)  # type: ignore[no-untyped-call]
            with torch.no_grad():
                layer.weight.copy_(weight)
                layer.bias.copy_(torch.tensor(intercept, device="cpu"))
            modules += [layer, ACTIVATIONS[activation].module()]
        return nn.Sequential(*modules[:-1]).to(device)

    def outputs(self, X: Any, activation: str) -> Any:
        """Return the outputs of the linear last layer for dense or sparse inputs."""
        values = X
        for place, (coef, intercept) in enumerate(zip(self.coefs, self.intercepts, strict=True)):
            if place:
                values = ACTIVATIONS[activation].function(values)
            values = values @ coef + intercept
        return values
