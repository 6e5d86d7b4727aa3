"""Problems whose solution is known: ill-conditioned regression, and a matrix from some of its entries."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.problems.supervised import Part, build_task, split, two_part_task
from gradline.lab.problems.task import Task

FEATURES = 40
CONDITION = 1e4
"""Condition number of the Hessian, about."""
NOISE = 0.01
ROWS, COLUMNS, RANK, FITTED_RANK = 120, 80, 4, 6


@cache
def _regression() -> Part:
    """Return inputs with very different scales along their principal axes, and targets that depend on all alike."""
    source = np.random.default_rng(0)
    plain = source.standard_normal((2000, FEATURES))
    targets = plain @ source.standard_normal(FEATURES) / np.sqrt(FEATURES) + NOISE * source.standard_normal(2000)
    lengths = np.geomspace(1.0, CONDITION**-0.5, FEATURES)
    rotation, _ = np.linalg.qr(source.standard_normal((FEATURES, FEATURES)))
    return Part(torch.from_numpy(plain * lengths @ rotation), torch.from_numpy(targets))


def build_regression(seed: int) -> Task:
    """Build the task of the regression."""

    def squares(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.squeeze(1) - targets).square()

    return two_part_task(seed, lambda: nn.Linear(FEATURES, 1, dtype=torch.float64), _regression(), 1000, squares)


class Factors(nn.Module):
    """A matrix of low rank as a product; called with places it gives its entries there."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(0.3 * torch.randn(ROWS, FITTED_RANK))
        self.columns = nn.Parameter(0.3 * torch.randn(COLUMNS, FITTED_RANK))

    def forward(self, places: Tensor) -> Tensor:
        """Return the entries at places: pairs of row and column."""
        return (self.rows[places[:, 0]] * self.columns[places[:, 1]]).sum(dim=1)


@cache
def _entries() -> Part:
    """Return places and entries in a random order."""
    source = np.random.default_rng(1)
    left, right = source.standard_normal((ROWS, RANK)), source.standard_normal((COLUMNS, RANK))
    matrix = left @ right.T / np.sqrt(RANK) + NOISE * source.standard_normal((ROWS, COLUMNS))
    places = source.permutation(ROWS * COLUMNS)
    row, column = np.divmod(places, COLUMNS)
    return Part(torch.from_numpy(np.stack([row, column], axis=1)), torch.from_numpy(matrix[row, column]).float())


def _squares(entries: Tensor, wanted: Tensor) -> Tensor:
    return (entries - wanted).square()


def build_factorisation(seed: int) -> Task:
    """Build the task of the matrix: half of its entries for training."""
    return two_part_task(seed, Factors, _entries(), ROWS * COLUMNS // 2, _squares)


def build_split_factorisation(seed: int) -> Task:
    """Build the task of the matrix: half of its entries for training, a quarter each for validation and testing."""
    parts = split(*_entries(), ROWS * COLUMNS // 2, ROWS * COLUMNS // 4)
    return build_task(seed, Factors, parts, _squares)
