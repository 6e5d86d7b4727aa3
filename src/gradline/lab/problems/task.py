"""A task: a problem with the initial weights of a seed, ready to be trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn

    Chosen: TypeAlias = Tensor | slice


class Measured(NamedTuple):
    """Losses and errors of a model; NaN if a problem has no such measure."""

    train_loss: float
    train_error: float
    test_loss: float
    test_error: float
    validation_loss: float = math.nan
    """Loss of validation samples, which are not trained on and decide the choice of learning rates."""
    validation_error: float = math.nan


@dataclass(frozen=True, eq=False)
class Task:
    """A model, the losses of its training samples, and what it is judged by."""

    model: nn.Module
    samples: int
    """Number of training samples."""
    losses: Callable[[nn.Module, Chosen], Tensor]
    """Returns the loss of each of the chosen training samples (indices, or a slice of them)."""
    measure: Callable[[nn.Module], Measured]
    """Returns losses and errors of a model in evaluation mode."""
    test: Callable[[nn.Module], tuple[float, float]] | None = None
    """Returns test loss and error, measured at the end of a run only; `None`: `measure` has them."""
