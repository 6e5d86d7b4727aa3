"""Helpers of several problems: seeded initial weights, and means computed in chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from gradline.lab.problems.sampling import Purpose, generator

M = TypeVar("M", bound=nn.Module)
CHUNK = 500
"""Samples of one forward pass, where many are measured."""


def seeded(seed: int, make: Callable[[], M]) -> M:
    """Build a model with the initial weights of a seed; the global generator is left as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, Purpose.WEIGHTS).integers(2**63 - 1)))
        return make()


def mean_of(samples: int, values: Callable[[Tensor], Tensor]) -> float:
    """Return the mean of a per-sample value over samples 0 to `samples` - 1, computed in chunks."""
    parts = torch.split(torch.arange(samples), CHUNK)
    return sum((float(values(part).sum(dtype=torch.float64)) for part in parts), 0.0) / samples
