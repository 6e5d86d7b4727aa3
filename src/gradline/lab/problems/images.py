"""CIFAR10 (its first training batch): a convolutional net with BatchNorm, and a small residual net."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from gradline.lab.problems import data
from gradline.lab.problems.supervised import Part, cross_entropy, plain_task, wrong
from gradline.lab.problems.task import Task

MEASURED = 300
"""Images that losses and errors are measured on, of the training ones and of the test ones."""


def convolutional(norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Module:
    """Build three convolutions, each with a norm; every one halves the image."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), norm(after), nn.ReLU()]
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
        hidden = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.aside(x) + self.norms[1](self.second(hidden)))


def residual() -> nn.Module:
    """Build a first convolution and three residual blocks: a ResNet of eight layers, a quarter as wide as usual."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def loaded(name: str, shape: tuple[int, ...], z_score: Literal["train", "none"] = "train") -> tuple[Part, Part]:
    """Return training and test images of a data set in a shape, with class numbers."""
    found = data.load(name, z_score=z_score, progress=False)
    pairs = ((found.train_inputs, found.train_targets), (found.test_inputs, found.test_targets))
    train, test = (
        Part(torch.from_numpy(images).view(-1, *shape), torch.from_numpy(targets).argmax(dim=1))
        for images, targets in pairs
    )
    return train, test


@cache
def _cifar() -> tuple[Part, Part]:
    return loaded("cifar10", (3, 32, 32))


def build_convolutional(seed: int) -> Task:
    """Build the task of the convolutional net."""
    return plain_task(seed, convolutional, *_cifar(), cross_entropy, wrong, MEASURED)


def build_residual(seed: int) -> Task:
    """Build the task of the residual net."""
    return plain_task(seed, residual, *_cifar(), cross_entropy, wrong, MEASURED)
