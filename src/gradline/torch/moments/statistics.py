"""Compute means over a mini-batch, and the variances of these means."""

from __future__ import annotations

import math

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
