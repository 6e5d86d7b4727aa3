"""Train neural networks without choosing a learning rate: `Angle`, and the line searches `GOLSI` and `PrLS`."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from gradline import protocol as protocol
from gradline import searches as searches
from gradline.function import solve
from gradline.installing import needs

if TYPE_CHECKING:
    from gradline import landscape as landscape
    from gradline import plot as plot
    from gradline import sklearn as sklearn
    from gradline import testing as testing
    from gradline.torch import (
        GOLSI,
        Angle,
        LateAverage,
        LineSearchOptimizer,
        NoSchedule,
        PrLS,
        StepRecorder,
        batches,
        find_lr,
        log_scalars,
    )

__version__ = version("gradline")

__all__ = [
    "GOLSI",
    "Angle",
    "LateAverage",
    "LineSearchOptimizer",
    "NoSchedule",
    "PrLS",
    "StepRecorder",
    "batches",
    "find_lr",
    "log_scalars",
    "solve",
]

_NEEDS_TORCH = set(__all__) - {"solve"}
_PARTS = {"landscape", "plot", "sklearn", "testing"}


def __getattr__(name: str) -> Any:
    """Import what needs torch, and what training does without, when it is asked for."""
    if name in _PARTS:
        return import_module(f"gradline.{name}")
    if name not in _NEEDS_TORCH:
        raise AttributeError(f"module 'gradline' has no attribute {name!r}")
    with needs(f"gradline.{name}", "torch"):
        value = getattr(import_module("gradline.torch"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | _NEEDS_TORCH | _PARTS)
