"""CIFAR10 (its first training batch): a convolutional net with BatchNorm, and a small residual net."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn

from gradline.lab.bench.objective import Task
from gradline.lab.problems import data
from gradline.lab.problems.bench.making import mean_of, seeded
from gradline.lab.problems.bench.problem import Problem, Size

MEASURED = 300
"""Images that losses and errors are measured on, of the training ones and of the test ones."""


def convolutional() -> nn.Module:
    """Three convolutions, each with BatchNorm; every one halves the image."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Residual(nn.Module):
    """Two convolutions with BatchNorm, and the input added to what they give."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.aside = nn.Conv2d(before, after, 1, stride=stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        hidden = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.aside(x) + self.norms[1](self.second(hidden)))


def residual() -> nn.Module:
    """A first convolution and three residual blocks: a ResNet of eight layers, a quarter as wide as usual."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


@cache
def _images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = data.load("cifar10", progress=False)
    train, test = (torch.from_numpy(part).view(-1, 3, 32, 32) for part in (found.train_inputs, found.test_inputs))
    labels, test_labels = (torch.from_numpy(part).argmax(dim=1) for part in (found.train_targets, found.test_targets))
    return train, labels, test, test_labels


def _build(make: Callable[[], nn.Module], seed: int) -> Task:
    train, labels, test, test_labels = _images()
    loss = nn.functional.cross_entropy

    def losses(model: nn.Module, chosen: Tensor) -> Tensor:
        return loss(model(train[chosen]), labels[chosen], reduction="none")

    def measure(model: nn.Module) -> tuple[float, float]:
        return (
            mean_of(MEASURED, lambda some: losses(model, some)),
            mean_of(MEASURED, lambda some: model(test[some]).argmax(dim=1) != test_labels[some]),
        )

    return Task(seeded(seed, make), len(train), losses, measure)


PROBLEMS = (
    Problem(
        "cifar-conv",
        "convolutional net with BatchNorm on CIFAR10's first 10,000 images",
        (Size(16, 300, 1.83), Size(64, 200, 1.59), Size(256, 75, 1.62)),
        partial(_build, convolutional),
        held_out=False,
        error="test error",
        points=20,
    ),
    Problem(
        "cifar-resnet",
        "small residual net on CIFAR10's first 10,000 images",
        (Size(16, 250, 1.8), Size(64, 150, 1.75), Size(256, 60, 1.64)),
        partial(_build, residual),
        held_out=True,
        error="test error",
        points=20,
    ),
)
