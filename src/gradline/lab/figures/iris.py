"""The paper's small example: a network with one hidden layer on the Iris data, from random weights.

The network is 4-10-3 with sigmoids, its weights and biases N(0, 1), its loss Proben1's squared error
100/K Σ (y - q)². (With the paper's steps, 100 of 0.002, this loss has its optimum inside the sampled range; the
cross-entropy does not.) The paper tells neither the number of hidden units nor the weights: seed 7 is the one of the
first dozen whose optimum along -∇L is nearest to the middle of that range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import gradline
from gradline.lab.problems.data import load

if TYPE_CHECKING:
    from torch import Tensor, nn

SEED = 7
HIDDEN = 10


def iris(*, training: int = 0) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor], tuple[Tensor, Tensor]]:
    """Return the network, the losses of its samples, and the 150 samples.

    The network is at its random start, or has been trained for so many full-batch evaluations by GOLS-I.
    """
    import torch

    samples = load("iris")
    inputs, targets = torch.from_numpy(samples.train_inputs), torch.from_numpy(samples.train_targets)
    layers = [torch.nn.Linear(4, HIDDEN), torch.nn.Sigmoid(), torch.nn.Linear(HIDDEN, 3), torch.nn.Sigmoid()]
    model = torch.nn.Sequential(*layers).double()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))

    def loss(x: Tensor, y: Tensor) -> Tensor:
        outputs: Tensor = model(x)
        return 100.0 / 3.0 * (y - outputs).square().sum(dim=1)

    optimizer = gradline.GOLSI(model.parameters())
    closure = gradline.batches.full(inputs, targets).closure(optimizer, lambda x, y: loss(x, y).mean())
    while optimizer.evaluations < training:
        optimizer.step(closure)
    model.zero_grad()
    return model, loss, (inputs, targets)
