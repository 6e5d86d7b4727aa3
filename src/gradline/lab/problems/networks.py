"""The problems' networks and losses in torch.

A network ends with its last layer's *pre-activations* z; the activation that follows belongs to the loss. So binary
cross-entropy is computed from z and stays exact where the outputs saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gradline.lab.problems.data import DataSet
from gradline.lab.problems.network import Activation, Loss, Network
from gradline.lab.problems.sampling import Purpose, chosen_samples, generator
from gradline.lab.problems.supervised import Part, mean_loss_and_error
from gradline.lab.problems.task import Measured, Task
from gradline.lab.tools.imports import import_named
from gradline.searches.arguments import require

CHUNK = 4096
"""Samples of one forward pass, where all samples are evaluated."""
ACTIVATIONS: dict[Activation, type[nn.Module]] = {Activation.SIGMOID: nn.Sigmoid, Activation.TANH: nn.Tanh}


@dataclass(frozen=True)
class Criterion:
    """The loss of each sample, from pre-activations and targets: called with (B, K) tensors it gives (B,).

    ```python
    import torch
    from gradline.lab.problems.networks import criterion
    from gradline.lab.problems import PROBLEMS

    outputs = torch.zeros(3, 2, requires_grad=True)
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    losses = criterion(PROBLEMS["bcwd-logr"])(outputs, targets)
    losses.sum().backward()
    assert losses.shape == (3,) and outputs.grad[0].tolist() == [-0.5, 0.5]
    ```
    """

    values: Callable[[Tensor, Tensor, int], Tensor]
    """Losses from pre-activations and targets whose units are counted by the given dimension."""
    deltas: Callable[[Tensor, Tensor, int], Tensor]
    """Derivatives of the losses with respect to the pre-activations, as used for training."""
    consistent: bool
    """Whether `deltas` are the true derivatives."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return losses whose gradients with respect to the pre-activations are `deltas`."""
        if self.consistent:
            return self.values(outputs, targets, 1)
        with torch.no_grad():
            values, deltas = self.values(outputs, targets, 1), self.deltas(outputs, targets, 1)
        bent = (outputs.to(deltas.dtype) * deltas).sum(dim=1)
        return bent + (values - bent).detach()


def criterion(problem: Network) -> Criterion:
    """Return the loss of a problem."""
    if problem.loss is Loss.MSE:
        sigmoid = problem.activation is Activation.SIGMOID
        squash = torch.sigmoid if sigmoid else torch.tanh

        def deltas(z: Tensor, y: Tensor, units: int) -> Tensor:
            q = squash(z)
            slope = (q if sigmoid else 1.0) - q * q
            return slope.mul_(q - y).mul_(200.0 / z.shape[units])

        return Criterion(
            lambda z, y, units: (squash(z) - y).square().sum(dim=units).mul(100.0 / z.shape[units]),
            deltas,
            True,
        )
    rule, reason = "sigmoid where the loss is a binary cross-entropy", "its outputs are probabilities"
    require(problem.activation is Activation.SIGMOID, "activation", rule, reason, problem.activation)
    if problem.loss is Loss.BCE:
        return Criterion(_bce_values, lambda z, y, units: torch.sigmoid(z).sub_(y), True)
    return Criterion(published_values, published_deltas, False)


def _bce_values(z: Tensor, y: Tensor, units: int) -> Tensor:
    """-y log q - (1 - y) log(1 - q), however small: torch's own has an error of about 1e-16 |z|."""
    on, off = functional.softplus(-z, threshold=40.0), functional.softplus(z, threshold=40.0)
    return (on * y + off * (1.0 - y)).sum(dim=units)


def published_values(z: Tensor, y: Tensor, units: int) -> Tensor:
    """Return the authors' binary cross-entropy: in log10, averaged over the outputs. The order of additions matters.

    Always in float64, as they had it: of 1e-12 beside 1 nothing would be left in float32.
    """
    q, y = torch.sigmoid(z.double()), y.double()
    logs = y * torch.log10(q + 1e-12) + (1.0 - y) * torch.log10(1.0 + 1e-12 - q)
    return logs.mean(dim=units).neg_()


def published_deltas(z: Tensor, y: Tensor, units: int) -> Tensor:
    """Return the authors' gradient of it: natural logarithm, summed, fading beyond |z| ≈ 34; in float64."""
    z, y = z.double(), y.double()
    q = torch.sigmoid(z)
    decay = torch.exp(-z.abs())  # even in z, so that large -z do not overflow
    return (q - y) / (q - q * q + 1e-15) * (decay / (1.0 + decay).square_())


def sizes(problem: Network, data: DataSet) -> tuple[int, ...]:
    """Return the numbers of units from the inputs to the outputs."""
    return data.train_inputs.shape[1], *problem.hidden, data.train_targets.shape[1]


def initial_weights(problem: Network, data: DataSet, seed: int) -> list[NDArray[np.float64]]:
    """Return the initial weights and biases, all N(0, scale²), in the order and shapes of `nn.Linear`'s parameters."""
    source = generator(seed, Purpose.WEIGHTS)
    shapes = [shape for before, after in pairwise(sizes(problem, data)) for shape in ((after, before), (after,))]
    return [source.standard_normal(shape) * problem.scale for shape in shapes]


def network(problem: Network, data: DataSet, *, seed: int) -> nn.Module:
    """Return the network of a problem with the initial weights of a seed; it ends with the last pre-activations."""
    dtype = getattr(torch, problem.dtype)
    if problem.model is not None:
        model = built(problem.model, seed).to(dtype)
        _check_outputs(model, problem, data)
        return model
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes(problem, data)):
        layers += [nn.Linear(before, after, dtype=dtype, device="meta"), ACTIVATIONS[problem.activation]()]
    model = nn.Sequential(*layers[:-1]).to_empty(device="cpu")  # the global generator is left alone
    with torch.no_grad():
        for parameter, values in zip(model.parameters(), initial_weights(problem, data, seed), strict=True):
            parameter.copy_(torch.from_numpy(values))
    return model


def built(name: str, seed: int) -> nn.Module:
    """Import and call "package.module:function", which builds a module from a generator."""
    build = import_named("model", name, "function", "it builds the network")
    number = int(generator(seed, Purpose.WEIGHTS).integers(2**63 - 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)  # for models that draw their weights as torch does
        model = build(torch.Generator().manual_seed(number))
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must build an nn.Module (it is trained), but {name} returned {model!r}")
    return model


@torch.no_grad()
def _check_outputs(model: nn.Module, problem: Network, data: DataSet) -> None:
    """Raise unless a model gives as many outputs as there are targets; broadcasting would hide it."""
    some = torch.from_numpy(np.asarray(data.train_inputs[:2])).to(getattr(torch, problem.dtype))
    training = model.training
    model.eval()
    shape, wanted = tuple(model(some).shape), np.asarray(data.train_targets[:2]).shape
    model.train(training)
    if shape != wanted:
        raise ValueError(
            f"model must give an output for each target of each sample, of shape {wanted} for two samples of "
            f"{problem.data}, but {problem.model} gave {shape}"
        )


def task(problem: Network, data: DataSet, *, seed: int) -> Task:
    """Return the task of a problem on its data."""
    dtype, loss = getattr(torch, problem.dtype), criterion(problem)
    arrays = (data.train_inputs, data.train_targets, data.test_inputs, data.test_targets)
    inputs, targets, *test = (torch.from_numpy(np.asarray(array)).to(dtype) for array in arrays)

    def losses(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        if isinstance(chosen, slice):
            return loss(model(inputs[chosen]), targets[chosen])
        return loss(model(inputs.index_select(0, chosen)), targets.index_select(0, chosen))  # faster than brackets

    def measure(model: nn.Module) -> Measured:
        found: list[float] = []
        for part, (some, wanted) in enumerate(((inputs, targets), (test[0], test[1]))):
            chosen = chosen_samples(seed, len(some), problem.error_samples, part)
            if chosen is not None:
                some, wanted = some[torch.from_numpy(chosen)], wanted[torch.from_numpy(chosen)]
            found += mean_loss_and_error(model, Part(some, wanted), loss, wrong_classes, CHUNK)
        return Measured(*found)

    return Task(network(problem, data, seed=seed), len(inputs), losses, measure)


def wrong_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return whether the largest output of each sample is another one than the largest target."""
    return largest(outputs, 1) != largest(targets, 1)


def largest(outputs: Tensor, units: int) -> Tensor:
    """Return the number of each sample's largest output, its class. Activations keep the order: none is needed."""
    return outputs.max(dim=units).indices  # argmax is the same, and many times slower along any but the last dimension


def angle_between(left: Tensor, right: Tensor) -> float:
    """Return the angle between two vectors in radians, exact for small ones; NaN where one has no direction."""
    lengths = float(left.norm()), float(right.norm())
    if not (min(lengths) > 0.0 and max(lengths) < math.inf):
        return math.nan
    left, right = left / lengths[0], right / lengths[1]
    return 2.0 * math.atan2(float((left - right).norm()), float((left + right).norm()))
