"""Every private name of Lightning that gradline uses (last seen in Lightning 2.6), each with a fallback."""

from __future__ import annotations

from typing import Any

__all__ = ["logs_are_due", "skips_backward"]


def logs_are_due(trainer: Any) -> bool:
    """Whether the trainer will write values logged now; `True` if that is unknown."""
    return bool(getattr(getattr(trainer, "_logger_connector", None), "should_update_logs", True))


def skips_backward(trainer: Any) -> bool:
    """Whether the trainer makes no backward passes, as for the BatchNorm statistics of averaged weights."""
    return bool(getattr(trainer.fit_loop, "_skip_backward", False))
