"""Every private name of torch that gradline uses, in one place (last seen in torch 2.13).

Private names may change. Each has a test (`tests/torch/test_private.py`) and, if possible, a fallback to public names;
the others raise an error that names what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode

__all__ = [
    "DispatchMode",
    "begin_ddp_forward",
    "end_ddp_forward",
    "foreach_add_",
    "foreach_copy_",
    "foreach_div_",
    "foreach_lerp_",
    "foreach_mul_",
    "foreach_neg_",
    "foreach_norm",
    "foreach_sub_",
    "foreach_zero_",
    "fused_adamw_",
    "leaves",
    "not_compiled",
    "own_buffers",
    "own_parameters",
    "set_grad",
    "submodules",
    "version",
    "when_backward_ends",
]


def _foreach(name: str) -> Callable[..., Any]:
    """Return torch's foreach kernel of a name, or a loop over tensors if there is none."""
    kernel = getattr(torch, f"_foreach_{name}", None)
    return cast("Callable[..., Any]", kernel) if kernel is not None else loop(name)


def loop(name: str) -> Callable[..., Any]:
    """Return a function that applies an in-place method to tensors one by one."""

    def each(tensors: Sequence[Tensor], *others: Any, **options: Any) -> None:
        for place, tensor in enumerate(tensors):
            operands = [other[place] if isinstance(other, list | tuple) else other for other in others]
            getattr(tensor, name)(*operands, **options)

    return each


foreach_copy_ = _foreach("copy_")
foreach_add_ = _foreach("add_")
foreach_sub_ = _foreach("sub_")
foreach_mul_ = _foreach("mul_")
foreach_div_ = _foreach("div_")
foreach_neg_ = _foreach("neg_")
foreach_zero_ = _foreach("zero_")
foreach_lerp_ = _foreach("lerp_")


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
    """Update parameters and moments in place by AdamW.

    Args:
        parameters: the tensors to update.
        gradients: their gradients.
        means: first moments.
        squares: second moments.
        steps: number of updates of each, this one included, as scalar tensors on the same device.
        fused: use the fused kernel if there is one. It goes through memory, so that all tensors of a parameter must be
            dense and have the same strides.
        options: `lr`, `beta1`, `beta2`, `eps` and `weight_decay`.
    """
    kernel = getattr(torch, "_fused_adamw_", None)
    if fused and kernel is not None and parameters[0].device.type in _FUSED:
        kernel(parameters, gradients, means, squares, [], steps, amsgrad=False, maximize=False, **options)
        return
    before = [step - 1.0 for step in steps]  # the function below counts this update itself
    cast(Any, adamw)(parameters, gradients, means, squares, [], before, amsgrad=False, maximize=False, **options)


_FUSED = ("cpu", "cuda", "mps", "xpu")
"""Devices that have a fused kernel of AdamW."""


def foreach_norm(tensors: Sequence[Tensor], dtype: torch.dtype | None) -> list[Tensor]:
    """Return the 2-norm of each tensor, computed in a dtype."""
    if hasattr(torch, "_foreach_norm"):
        return list(torch._foreach_norm(list(tensors), 2, dtype))
    return [torch.linalg.vector_norm(tensor, dtype=dtype) for tensor in tensors]


set_grad: Callable[[bool], Any] = getattr(torch._C, "_set_grad_enabled", torch.set_grad_enabled)
"""Switch gradients on or off; the public class of this name takes three times as long."""

version: Callable[[Tensor], int] = attrgetter("_version") if hasattr(Tensor, "_version") else lambda _: 0
"""A number that grows with each in-place operation on a tensor; 0 where torch does not tell."""


def submodules(module: nn.Module) -> list[nn.Module]:
    """Return the direct submodules, also of unhashable and scripted modules."""
    return [part for part in list(module._modules.values()) if part is not None]


def own_parameters(module: nn.Module) -> list[Tensor]:
    """Return the parameters of a module without its submodules."""
    return [parameter for parameter in list(module._parameters.values()) if parameter is not None]


def own_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """Return the dict of buffers of a module without its submodules."""
    return module._buffers


def not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude a function from `torch.compile`, without importing the compiler as `torch.compiler.disable` does."""
    try:
        from torch._compile import _disable_dynamo
    except ImportError:
        return cast("Callable[..., Any]", cast(Any, torch.compiler).disable(function))
    return _disable_dynamo(function)


def leaves(tree: Any) -> Iterable[Any]:
    """Return the leaves of nested lists, tuples, dicts and registered classes."""
    try:
        from torch.utils._pytree import tree_leaves
    except ImportError:
        parts = tree.values() if isinstance(tree, dict) else tree
        return [leaf for part in parts for leaf in leaves(part)] if isinstance(tree, list | tuple | dict) else [tree]
    return cast("Iterable[Any]", tree_leaves(tree))


def when_backward_ends(callback: Callable[[], None]) -> None:
    """Call a function at the end of the current backward pass."""
    cast(Any, torch.autograd.Variable)._execution_engine.queue_callback(callback)


def begin_ddp_forward(model: nn.Module) -> None:
    """Do what `DistributedDataParallel` does before a forward pass: synchronize buffers with the other processes.

    A process whose closure failed before its forward pass calls this so that the others do not wait.
    """
    cast(Any, model)._pre_forward(torch.empty(0))


def end_ddp_forward(model: nn.Module, output: Tensor) -> Tensor:
    """Do what `DistributedDataParallel` does after a forward pass: prepare to average gradients."""
    return cast(Tensor, cast(Any, model)._post_forward(output))
