"""Problems whose solution is known: ill-conditioned regression, and a matrix from some of its entries."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.bench.objective import Task
from gradline.lab.problems.bench.making import seeded
from gradline.lab.problems.bench.problem import Problem, Size

FEATURES = 40
CONDITION = 1e4
"""Of the Hessian, about."""
NOISE = 0.01
ROWS, COLUMNS, RANK, FITTED_RANK = 120, 80, 4, 6


@cache
def _regression() -> tuple[Tensor, Tensor]:
    """Inputs whose directions have very different lengths, of which all matter equally for the targets."""
    source = np.random.default_rng(0)
    plain = source.standard_normal((2000, FEATURES))
    targets = plain @ source.standard_normal(FEATURES) / np.sqrt(FEATURES) + NOISE * source.standard_normal(2000)
    lengths = np.geomspace(1.0, CONDITION**-0.5, FEATURES)
    turn, _ = np.linalg.qr(source.standard_normal((FEATURES, FEATURES)))
    return torch.from_numpy(plain * lengths @ turn), torch.from_numpy(targets)


def _build_regression(seed: int) -> Task:
    inputs, targets = _regression()

    def squares(model: nn.Module, rows: Tensor | slice) -> Tensor:
        errors: Tensor = model(inputs[rows]).squeeze(1) - targets[rows]
        return errors.square()

    def measure(model: nn.Module) -> tuple[float, float]:
        return float(squares(model, slice(1000)).mean()), float(squares(model, slice(1000, None)).mean())

    return Task(seeded(seed, lambda: nn.Linear(FEATURES, 1, dtype=torch.float64)), 1000, squares, measure)


class Factors(nn.Module):
    """A matrix of low rank as a product; called with places it gives its entries there."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(0.3 * torch.randn(ROWS, FITTED_RANK))
        self.columns = nn.Parameter(0.3 * torch.randn(COLUMNS, FITTED_RANK))

    def forward(self, row: Tensor, column: Tensor) -> Tensor:
        """Entries."""
        return (self.rows[row] * self.columns[column]).sum(dim=1)


@cache
def _entries() -> tuple[Tensor, Tensor, Tensor, int]:
    """Rows, columns and entries in a random order; so many of them are for training, half of the matrix."""
    source = np.random.default_rng(1)
    left, right = source.standard_normal((ROWS, RANK)), source.standard_normal((COLUMNS, RANK))
    matrix = left @ right.T / np.sqrt(RANK) + NOISE * source.standard_normal((ROWS, COLUMNS))
    places = source.permutation(ROWS * COLUMNS)
    row, column = np.divmod(places, COLUMNS)
    entries = torch.from_numpy(matrix[row, column]).float()
    return torch.from_numpy(row), torch.from_numpy(column), entries, len(places) // 2


def _build_factors(seed: int) -> Task:
    row, column, entries, training = _entries()

    def squares(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        errors: Tensor = model(row[chosen], column[chosen]) - entries[chosen]
        return errors.square()

    def measure(model: nn.Module) -> tuple[float, float]:
        test = float(squares(model, slice(training, None)).mean())
        return float(squares(model, slice(training)).mean()), test

    return Task(seeded(seed, Factors), training, squares, measure)


PROBLEMS = (
    Problem(
        "regression",
        "linear regression whose Hessian has a condition number of about 10,000",
        (Size(10, 1000, 0.22), Size(100, 1000, 0.052), Size(1000, 1000, 1.4e-3)),
        _build_regression,
        held_out=False,
        error="test loss",
    ),
    Problem(
        "factorisation",
        "a matrix of rank 4 from half of its entries",
        (Size(50, 1000, 0.026), Size(500, 1000, 1e-4), Size(4800, 1000, 7.5e-5)),
        _build_factors,
        held_out=False,
        error="test loss",
    ),
)
