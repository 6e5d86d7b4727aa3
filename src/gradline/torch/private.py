"""Every private name of torch that gradline uses, in one place (seen in all of torch 2.6 to 2.13).

Private names may change: then importing this module raises an error that names what is missing. Each has a test
(`tests/torch/test_private.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer
from torch.optim.adamw import adamw
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DispatchMode = TorchDispatchMode
BatchNorm = _BatchNorm
"""Base class of all layers with BatchNorm's running statistics."""

leaves: Callable[[Any], list[Any]] = tree_leaves
"""Return the leaves of nested lists, tuples, dicts and registered classes."""

not_compiled: Callable[..., Callable[..., Any]] = _disable_dynamo
"""Exclude a function from `torch.compile`, without importing the compiler as `torch.compiler.disable` does."""

foreach_copy_: Callable[..., None] = torch._foreach_copy_
foreach_add_: Callable[..., None] = torch._foreach_add_
foreach_sub_: Callable[..., None] = torch._foreach_sub_
foreach_mul_: Callable[..., None] = torch._foreach_mul_
foreach_div_: Callable[..., None] = torch._foreach_div_
foreach_neg_: Callable[..., None] = torch._foreach_neg_
foreach_zero_: Callable[..., None] = torch._foreach_zero_
foreach_lerp_: Callable[..., None] = torch._foreach_lerp_

set_grad: Callable[[bool], Any] = torch._C._set_grad_enabled
"""Switch gradients on or off; the public class of this name takes three times as long."""

version: Callable[[Tensor], int] = attrgetter("_version")
"""A number that grows with each in-place operation on a tensor."""

same_versions = _unsafe_preserve_version_counter
"""Context manager that sets the versions of a tuple of tensors back at its end."""

is_profiling: Callable[[], bool] = torch._C._autograd._profiler_enabled
"""Return whether a profiler is running."""


def is_watched(optimizer: Optimizer) -> bool:
    """Return whether a profiler is running, or there are hooks of the steps of an optimizer or of all optimizers."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
        or is_profiling()
    )


def leave_unwrapped(step: Callable[..., Any]) -> None:
    """Mark a method `step`, so that torch does not add the calls of hooks and of the profiler to it."""
    cast(Any, step).hooked = True


def fused_adamw_(
    parameters: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    *,
    fused: bool = True,
    **options: float,
) -> None:
    """Update parameters and moments in place by AdamW, with its options `lr`, `beta1`, `beta2`, `eps`, `weight_decay`.

    `steps` are the numbers of updates, this one included, as scalar tensors on the same device. The fused kernel goes
    through memory: for `fused`, all tensors of a parameter must be dense and have the same strides.
    """
    if fused and parameters[0].device.type in _FUSED:
        kernel: Any = torch._fused_adamw_
        kernel(parameters, gradients, means, squares, [], steps, amsgrad=False, maximize=False, **options)
        return
    before = [step - 1.0 for step in steps]  # the function below counts this update itself
    cast(Any, adamw)(parameters, gradients, means, squares, [], before, amsgrad=False, maximize=False, **options)


_FUSED = ("cpu", "cuda", "mps", "xpu")
"""Devices that have a fused kernel of AdamW."""


def foreach_norm(tensors: Sequence[Tensor], dtype: torch.dtype | None, order: float = 2.0) -> list[Tensor]:
    """Return the norm of each tensor, computed in a dtype."""
    return list(torch._foreach_norm(list(tensors), order, dtype))


def when_backward_ends(callback: Callable[[], None]) -> None:
    """Call a function at the end of the current backward pass."""
    cast(Any, torch.autograd.Variable)._execution_engine.queue_callback(callback)


def begin_ddp_forward(model: nn.Module) -> None:
    """Do what `DistributedDataParallel` does before a forward pass: synchronize buffers with the other processes."""
    cast(Any, model)._pre_forward(torch.empty(0))


def end_ddp_forward(model: nn.Module, output: Tensor) -> Tensor:
    """Do what `DistributedDataParallel` does after a forward pass: prepare to average gradients."""
    return cast(Tensor, cast(Any, model)._post_forward(output))
