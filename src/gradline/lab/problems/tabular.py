"""Perceptrons on small tables, trained to the end: digits, diabetes, and Friedman's regression."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.problems.supervised import Split, build_task, cross_entropy, split, squared_error, wrong
from gradline.lab.problems.task import Task
from gradline.lab.tools.imports import import_extra

FRIEDMAN_TRAIN, FRIEDMAN_OTHERS = 400, 1000
"""Rows of Friedman's regression for training, and for validation and for testing each."""


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """Build two hidden layers with ReLU."""
    return nn.Sequential(
        *(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    )


def _standardised(values: Tensor, train: int) -> Tensor:
    """Return columns with a mean of 0 and a standard deviation of 1 over the first rows, those for training."""
    return (values - values[:train].mean(dim=0)) / values[:train].std(dim=0)


def shuffled(*arrays: Any) -> list[Tensor]:
    """Return arrays with their rows in a random order that is always the same."""
    order = np.random.default_rng(0).permutation(len(arrays[0]))
    return [torch.from_numpy(np.asarray(array)[order]) for array in arrays]


@cache
def load_digits() -> Any:
    """Return scikit-learn's digits."""
    return import_extra("sklearn.datasets", "the digits").load_digits()


@cache
def digits() -> Split:
    """Return the digits as rows of pixels in [0, 1] and class numbers."""
    pixels, labels = shuffled(load_digits().data, load_digits().target)
    return split(pixels.float() / 16.0, labels, 1200, 300)


def build_digits(seed: int) -> Task:
    """Build the task of scikit-learn's digits: 1,200 of 1,797 for training, 300 for validation."""
    return build_task(seed, lambda: perceptron(64, 64, 10), digits(), cross_entropy, wrong)


@cache
def _diabetes() -> Split:
    source = import_extra("sklearn.datasets", "the diabetes data").load_diabetes()
    rows, targets = shuffled(source.data, source.target)
    inputs, outputs = (_standardised(part.float(), 300) for part in (rows, targets[:, None]))
    return split(inputs, outputs, 300, 71)


def build_diabetes(seed: int) -> Task:
    """Build the task of scikit-learn's diabetes data: 300 of 442 for training, 71 for validation."""
    return build_task(seed, lambda: perceptron(10, 32, 1), _diabetes(), squared_error)


@cache
def _friedman() -> Split:
    source = np.random.default_rng(0)
    x = source.random((FRIEDMAN_TRAIN + 2 * FRIEDMAN_OTHERS, 10))
    smooth = 10.0 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20.0 * (x[:, 2] - 0.5) ** 2 + 10.0 * x[:, 3] + 5.0 * x[:, 4]
    targets = torch.from_numpy(smooth + source.standard_normal(len(x))).float()[:, None]
    inputs, outputs = (_standardised(part, FRIEDMAN_TRAIN) for part in (torch.from_numpy(x).float(), targets))
    return split(inputs, outputs, FRIEDMAN_TRAIN, FRIEDMAN_OTHERS)


def build_friedman(seed: int) -> Task:
    """Build the task of Friedman's first regression (1991): 5 inputs matter, 5 do not, and there is noise."""
    return build_task(seed, lambda: perceptron(10, 64, 1), _friedman(), squared_error)
