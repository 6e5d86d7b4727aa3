"""Detect BatchNorm in training mode, which makes the samples of a mini-batch dependent, by graph or by model."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

_REASON = (
    "in training mode it makes each loss depend on the whole batch, so per-sample slopes are not defined and their "
    "variance is not that of the mean"
)
_REMEDY = "put it in eval mode, or use GroupNorm or LayerNorm"


def refuse_batch_norm(model: nn.Module) -> None:
    """Raise an error if a model has BatchNorm in training mode; for graphs that hide it, such as compiled ones."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"model must have no BatchNorm that is training ({_REASON}), but {name or 'it'} is a "
                f"{type(module).__name__}; {_REMEDY}"
            )


def find_batch_norm(losses: Tensor) -> str | None:
    """Return the name of a BatchNorm node that uses batch statistics in the graph of the losses, or `None`."""
    size = losses.shape[0]
    seen: set[Any] = set()
    waiting: list[Any] = [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = type(node).__name__
        if "BatchNorm" in name and getattr(node, "_saved_training", True) and not _by_instance(node, size):
            return name
        waiting.extend(source for source, _ in node.next_functions)
    return None


def batch_norm_error(name: str) -> ValueError:
    """Return the error for losses whose samples mix."""
    return ValueError(
        f"losses must be computed without BatchNorm that is training ({_REASON}), but their graph has a {name}; "
        f"{_REMEDY}, or pass allow_batch_norm=True"
    )


def _by_instance(node: Any, size: int) -> bool:
    """Whether a node is InstanceNorm, which normalises one batch of B·C channels and does not mix samples."""
    outputs = getattr(node, "_input_metadata", ())
    shape = tuple(outputs[0].shape) if outputs else ()
    return size > 1 and len(shape) > 1 and shape[0] == 1 and shape[1] % size == 0
