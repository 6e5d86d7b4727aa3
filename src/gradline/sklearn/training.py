"""Train a perceptron: weights as numpy arrays, to store and to predict with, samples and passes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn

from gradline import searches
from gradline.protocol import Search, Value, observes
from gradline.torch import Angle, LineSearchOptimizer, batches

Losses: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs and targets to per-sample losses."""

AT_ONCE = 4096
"""Number of samples evaluated at once for the loss of all samples."""


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


@dataclass(frozen=True)
class Samples:
    """Inputs (a tensor or a CSR matrix), targets, and optional weights whose mean is 1."""

    inputs: Any
    targets: Tensor
    weights: Tensor | None

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, chosen: Tensor) -> Samples:
        """Return the samples of some indices, with dense inputs."""
        here = chosen.to(self.targets.device)
        if isinstance(self.inputs, Tensor):
            inputs = self.inputs[here]
        else:
            inputs = torch.from_numpy(self.inputs[chosen.numpy()].toarray()).to(here.device)
        return Samples(inputs, self.targets[here], None if self.weights is None else self.weights[here])


class Training:
    """A network, its samples and its optimizer.

    Searches on `Value` use one mini-batch per search, all others a new one per evaluation. The loss of a mini-batch is
    an unbiased estimate of the loss of all samples, sample weights included. Both include the L2 penalty, `decay` / 2
    times the sum of squared weights.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Samples,
        losses: Losses,
        search: Search[Any, Any],
        *,
        direction: Any,
        decay: float,
        batch_size: int,
        seed: int,
    ) -> None:
        self.network = network
        self.samples = samples
        self.losses = losses
        self.decay = decay
        self.steps: list[float] = []
        self.evaluations = 0
        """Number of mini-batches whose gradient was computed."""
        self.optimizer = _optimizer(network, search, direction)
        self.optimizer.register_search_hook(lambda record: self.steps.append(record.step))
        draw = batches.static if observes(search) is Value else batches.dynamic
        stream = draw(torch.arange(len(samples), device="cpu"), batch_size=batch_size, seed=seed)
        self._closure = stream.closure(self.optimizer, self._of_batch)
        self._per_sample = getattr(self.optimizer, "per_sample", False)
        self._batches = len(samples) // batch_size

    def go(self) -> None:
        """Train for one pass: as many evaluations as there are mini-batches, and until the search has ended."""
        goal = self.evaluations + self._batches
        while self._step() or self.evaluations < goal:
            pass

    def _step(self) -> bool:
        """Call the optimizer once; return whether the first search of `Angle` goes on."""
        self.optimizer.step(self._closure)
        return self.optimizer.probing and self.optimizer.param_groups[0]["lr"] == 0.0

    @torch.no_grad()
    def loss(self) -> float:
        """Return the loss of all samples at the present parameters."""
        parts = torch.split(torch.arange(len(self.samples), device="cpu"), AT_ONCE)
        total = sum(float(self._of_samples(self.samples.take(chosen)).sum()) for chosen in parts)
        return total / len(self.samples) + float(self._penalty())

    def state(self) -> dict[str, Any]:
        """Return the optimizer's state_dict with its tensors copied to the CPU."""
        saved = self.optimizer.state_dict()
        for held in saved["state"].values():
            held.update({name: value.to("cpu", copy=True) for name, value in held.items() if isinstance(value, Tensor)})
        return saved

    def _of_batch(self, chosen: Tensor) -> Tensor:
        self.evaluations += 1
        losses = self._of_samples(self.samples.take(chosen))
        return (losses if self._per_sample else losses.mean()) + self._penalty()

    def _of_samples(self, samples: Samples) -> Tensor:
        losses = self.losses(self.network(samples.inputs), samples.targets)
        return losses if samples.weights is None else losses * samples.weights

    def _penalty(self) -> Tensor:
        layers = (layer for layer in self.network.modules() if isinstance(layer, nn.Linear))
        squares = [layer.weight.square().sum() for layer in layers]
        return 0.5 * self.decay * torch.stack(squares).sum()


def _optimizer(network: nn.Module, search: Search[Any, Any], direction: Any) -> Angle | LineSearchOptimizer:
    """Return the optimizer of a search: `gradline.Angle` unless it is another search or direction."""
    if isinstance(search, searches.Angle) and direction is None:
        return Angle(network.parameters(), weight_decay=0.0, **dataclasses.asdict(search))  # `alpha` is the decay
    return LineSearchOptimizer(network.parameters(), search, direction=direction)
