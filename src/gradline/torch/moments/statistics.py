"""Compute means over a mini-batch, and the variances of these means."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_FEW = 256


def mean_and_variance(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of the mean, over the last dimension.

    The variance is Σ (x - mean)² / (B (B - 1)), which is (mean(x²) - mean(x)²)/(B - 1) computed from centred numbers.
    It is computed in float64 (in float32 on MPS), because squares overflow and underflow long before the numbers do.
    B = 1 raises an error.
    """
    if vectors.ndim == 0 or vectors.shape[-1] < 2:
        raise too_few_samples(vectors)
    vectors = vectors.float() if vectors.device.type == "mps" else vectors.double()
    variance, mean = torch.var_mean(vectors, dim=-1)
    return mean, variance / vectors.shape[-1]


def plain_mean_and_variance(vector: Tensor) -> tuple[float, float]:
    """Return `mean_and_variance` of one vector as floats; for short vectors Python is faster than torch."""
    count = vector.shape[0]
    if not 1 < count <= _FEW:
        mean, variance = torch.stack(mean_and_variance(vector)).tolist()
        return mean, variance
    numbers: list[float] = vector.tolist()
    mean = sum(numbers) / count
    if not math.isfinite(mean):
        return mean, math.nan
    return mean, sum([(number - mean) * (number - mean) for number in numbers]) / (count * (count - 1))


def too_few_samples(losses: Tensor) -> ValueError:
    """Return the error for a variance of fewer than 2 samples."""
    return ValueError(
        f"losses must have at least 2 samples (the variance of a mean is estimated from how samples differ), got shape "
        f"{tuple(losses.shape)}; use larger batches (drop_last=True in a DataLoader), or a search of slopes only"
    )


class RunningVariance:
    """Running mean and sum of squared deviations of per-sample tensors that are added in chunks."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        self.count = 0
        self.means = [torch.zeros_like(tensor, requires_grad=False) for tensor in like]
        self.squares = [torch.zeros_like(tensor, requires_grad=False) for tensor in like]

    def add(self, chunk: Sequence[Tensor]) -> None:
        """Add samples; the first dimension of each tensor counts them."""
        new = chunk[0].shape[0]
        total = self.count + new
        for mean, squares, rows in zip(self.means, self.squares, chunk, strict=True):
            centre = rows.mean(dim=0)
            moved = centre - mean
            squares += (rows - centre).square_().sum(dim=0)
            squares.addcmul_(moved, moved, value=self.count * new / total)
            mean.add_(moved, alpha=new / total)
        self.count = total

    def variances(self) -> list[Tensor]:
        """Return the variances of the means."""
        return [squares / (self.count * (self.count - 1)) for squares in self.squares]
