"""Every private name of Lightning that gradline uses (last seen in Lightning 2.6), each with a fallback."""

from __future__ import annotations

from typing import Any


def accumulated_batches(closure: Any) -> int:
    """Return `accumulate_grad_batches` of the trainer that passes this closure to `step`; 1 for other closures.

    Lightning's closure is a `functools.partial` of `Precision._wrap_closure`, whose first argument is the module.
    """
    if getattr(getattr(closure, "func", None), "__name__", "") != "_wrap_closure" or not closure.args:
        return 1
    trainer = getattr(closure.args[0], "_trainer", None)
    return int(getattr(trainer, "accumulate_grad_batches", 1))


def logs_are_due(trainer: Any) -> bool:
    """Whether the trainer will write values logged now; `True` if that is unknown."""
    return bool(getattr(getattr(trainer, "_logger_connector", None), "should_update_logs", True))


def skips_backward(trainer: Any) -> bool:
    """Whether the trainer makes no backward passes, as for the BatchNorm statistics of averaged weights."""
    return bool(getattr(trainer.fit_loop, "_skip_backward", False))
