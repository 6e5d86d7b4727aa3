"""The problems on which the cost of a step is measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 0


@dataclass(frozen=True)
class Problem:
    """A model with data, and how long to measure on it."""

    title: str
    model: nn.Module
    inputs: Tensor
    targets: Tensor
    loss: Callable[..., Tensor]
    batch_size: int
    targets_of: Mapping[str, float]  # the largest ratio that a method may have
    block: int  # evaluations in a timed block
    repetitions: int
    restart: int = 600  # evaluations before a return to the start
    warm_up: int = 120  # most evaluations before each measurement

    @property
    def parameters(self) -> int:
        """How many numbers there are to train."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def logistic_regression() -> Problem:
    from sklearn.datasets import load_breast_cancer  # slow to import, and only needed here

    inputs, targets = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(SEED).permutation(len(inputs))[:400]
    scored = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return Problem(
        "logistic regression 30-1 on BCWD",
        nn.Linear(30, 1),
        torch.tensor(scored[rows], dtype=torch.float32),
        torch.tensor(targets[rows], dtype=torch.float32)[:, None],
        functional.binary_cross_entropy_with_logits,
        batch_size=50,
        targets_of={"GOLSI": 1.25, "GOLSI, direction=Adam": 1.4, "Angle": 1.5},
        block=40,
        repetitions=50,
    )


def mlp() -> Problem:
    inputs = torch.rand(6000, 784)
    return Problem(
        "MLP 784-800-10, synthetic",
        nn.Sequential(nn.Linear(784, 800), nn.Sigmoid(), nn.Linear(800, 10)),
        inputs,
        taught(inputs),
        functional.cross_entropy,
        batch_size=100,
        targets_of={"GOLSI": 1.15, "GOLSI, direction=Adam": 1.3, "Angle": 1.4},
        block=10,
        repetitions=12,
        warm_up=24,
    )


def conv() -> Problem:
    inputs = torch.randn(2048, 3, 32, 32)
    widths = (3, 32, 64, 128)
    blocks = [
        layer
        for before, after in itertools.pairwise(widths)
        for layer in (nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    ]
    return Problem(
        "convolutional net, synthetic",
        nn.Sequential(*blocks, nn.Flatten(), nn.Linear(2048, 440), nn.ReLU(), nn.Linear(440, 10)),
        inputs,
        taught(inputs.flatten(1)),
        functional.cross_entropy,
        batch_size=64,
        targets_of={"GOLSI": 1.03},
        block=4,
        repetitions=6,
        warm_up=20,
    )


def deep() -> Problem:
    inputs = torch.randn(4096, 64)
    layers = [layer for _ in range(29) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return Problem(
        "30 layers of 64, synthetic",
        nn.Sequential(*layers, nn.Linear(64, 64)),
        inputs,
        taught(inputs),
        functional.cross_entropy,
        batch_size=64,
        targets_of={"GOLSI": 1.2, "GOLSI, direction=Adam": 1.3, "Angle": 1.4},
        block=20,
        repetitions=24,
    )


class Transformer(nn.Module):
    """Predict each next symbol of a sequence: 4 layers of width 128."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.read = nn.Linear(128, 64)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(64))

    def forward(self, symbols: Tensor) -> Tensor:
        """Return the logits, with the classes in the second dimension."""
        logits: Tensor = self.read(self.layers(self.embed(symbols), mask=self.mask, is_causal=True))
        return logits.transpose(1, 2)


def transformer() -> Problem:
    symbols = torch.randint(64, (512, 65)).cumsum(1) % 64
    return Problem(
        "transformer 4x128, 16 sequences of 64, synthetic",
        Transformer(),
        symbols[:, :-1].contiguous(),
        symbols[:, 1:].contiguous(),
        functional.cross_entropy,
        batch_size=16,
        targets_of={"GOLSI": 1.02, "GOLSI, direction=Adam": 1.05, "Angle": 1.05},
        block=4,
        repetitions=6,
        warm_up=20,
    )


def taught(inputs: Tensor, noise: float = 0.2) -> Tensor:
    """Ten classes by a random linear teacher; a part of the labels is drawn anew, so that no model fits them all."""
    labels = ((inputs - inputs.mean(dim=0)) @ torch.randn(inputs.shape[1], 10)).argmax(dim=1)
    return torch.where(torch.rand(len(labels)) < noise, torch.randint(10, labels.shape), labels)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "logreg": logistic_regression,
    "mlp": mlp,
    "deep": deep,
    "transformer": transformer,
    "conv": conv,
}


def load(name: str, quick: bool) -> Problem:
    torch.manual_seed(SEED)
    problem = PROBLEMS[name]()
    if quick:
        problem = replace(problem, batch_size=max(2, problem.batch_size // 16), block=2, repetitions=2, restart=40)
    return problem
