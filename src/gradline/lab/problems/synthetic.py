"""Problems whose solution is known: ill-conditioned regression, and a matrix from some of its entries."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.problems.supervised import build_task, split, two_part_task
from gradline.lab.problems.task import Task

FEATURES = 40
CONDITION = 1e4
"""Condition number of the Hessian, about."""
NOISE = 0.01
ROWS, COLUMNS, RANK, FITTED_RANK = 120, 80, 4, 6


@cache
def _regression() -> tuple[Tensor, Tensor]:
    """Return inputs with very different scales along their principal axes, and targets that depend on all alike."""
    source = np.random.default_rng(0)
    plain = source.standard_normal((2000, FEATURES))
    targets = plain @ source.standard_normal(FEATURES) / np.sqrt(FEATURES) + NOISE * source.standard_normal(2000)
    lengths = np.geomspace(1.0, CONDITION**-0.5, FEATURES)
    rotation, _ = np.linalg.qr(source.standard_normal((FEATURES, FEATURES)))
    return torch.from_numpy(plain * lengths @ rotation), torch.from_numpy(targets)


def build_regression(seed: int) -> Task:
    """Build the task of the regression."""
    inputs, targets = _regression()

    def squares(model: nn.Module, rows: Tensor | slice) -> Tensor:
        errors: Tensor = model(inputs[rows]).squeeze(1) - targets[rows]
        return errors.square()

    return two_part_task(seed, lambda: nn.Linear(FEATURES, 1, dtype=torch.float64), 1000, squares)


class Factors(nn.Module):
    """A matrix of low rank as a product; called with places it gives its entries there."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(0.3 * torch.randn(ROWS, FITTED_RANK))
        self.columns = nn.Parameter(0.3 * torch.randn(COLUMNS, FITTED_RANK))

    def forward(self, row: Tensor, column: Tensor) -> Tensor:
        """Return the entries at these rows and columns."""
        return (self.rows[row] * self.columns[column]).sum(dim=1)


@cache
def _entries() -> tuple[Tensor, Tensor, Tensor, int]:
    """Return rows, columns and entries in a random order, and the number for training: half of the matrix."""
    source = np.random.default_rng(1)
    left, right = source.standard_normal((ROWS, RANK)), source.standard_normal((COLUMNS, RANK))
    matrix = left @ right.T / np.sqrt(RANK) + NOISE * source.standard_normal((ROWS, COLUMNS))
    places = source.permutation(ROWS * COLUMNS)
    row, column = np.divmod(places, COLUMNS)
    entries = torch.from_numpy(matrix[row, column]).float()
    return torch.from_numpy(row), torch.from_numpy(column), entries, len(places) // 2


def build_factorisation(seed: int) -> Task:
    """Build the task of the matrix."""
    row, column, entries, training = _entries()

    def squares(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        errors: Tensor = model(row[chosen], column[chosen]) - entries[chosen]
        return errors.square()

    return two_part_task(seed, Factors, training, squares)


def build_split_factorisation(seed: int) -> Task:
    """Build the task of the matrix: half of its entries for training, a quarter each for validation and testing."""
    row, column, entries, training = _entries()
    parts = split(torch.stack([row, column], dim=1), entries, training, training // 2)

    def call(model: nn.Module, places: Tensor) -> Tensor:
        found: Tensor = model(places[:, 0], places[:, 1])
        return found

    return build_task(seed, Factors, parts, lambda found, wanted: (found - wanted).square(), call=call)
