"""Per-sample slopes and variances of functions of the parameters, by `torch.func`.

`function(parameters, ...)` is a function for `torch.func`; for a module, use `torch.func.functional_call`. For an
optimizer's closure, use [`Evaluated`][gradline.torch.moments.Evaluated].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from gradline.torch.moments.statistics import Spread, too_few

Parameters: TypeAlias = Mapping[str, Tensor]

_ROOM = 2**24


def forward_slopes(
    function: Callable[[dict[str, Tensor]], Tensor], parameters: Parameters, directions: Parameters
) -> tuple[Tensor, Tensor]:
    """Return losses and slopes d·∇ℓ_b of all samples, each of shape (B,), by one forward-mode pass.

    ```python
    import torch
    from torch.func import functional_call
    from gradline.torch.moments import forward_slopes

    model, inputs = torch.nn.Linear(3, 1), torch.randn(8, 3)
    parameters = dict(model.named_parameters())
    directions = {name: torch.ones_like(parameter) for name, parameter in parameters.items()}
    losses, slopes = forward_slopes(lambda p: functional_call(model, p, inputs).square().sum(1), parameters, directions)
    assert losses.shape == slopes.shape == (8,)
    ```
    """
    with warnings.catch_warnings():  # torch itself calls a deprecated function
        warnings.filterwarnings("ignore", ".*torch.jit.script.*", DeprecationWarning)
        return cast("tuple[Tensor, Tensor]", torch.func.jvp(function, (dict(parameters),), (dict(directions),)))


def gradient_variances(
    function: Callable[..., Tensor], parameters: Parameters, *batch: Tensor, chunk: int | None = None
) -> dict[str, Tensor]:
    """Return the variance of each component of the mean gradient, from per-sample gradients computed in chunks.

    Args:
        function: the loss of *one* sample, `function(parameters, *sample)`.
        parameters: the parameters by name.
        batch: tensors whose first dimension counts the samples.
        chunk: number of samples per chunk; `None`: as many as fit into 2²⁴ numbers.
    """
    size = len(batch[0])
    if size < 2:
        raise too_few(batch[0])
    held = {name: parameter.detach() for name, parameter in parameters.items()}
    if chunk is None:
        chunk = max(1, _ROOM // max(1, sum(parameter.numel() for parameter in held.values())))
    elif chunk < 1:
        raise ValueError(f"chunk must be at least 1 (samples are taken by so many), got {chunk}")
    per_sample: Callable[..., Any] = torch.func.vmap(torch.func.grad(function), in_dims=(None, *(0,) * len(batch)))
    spread = Spread(list(held.values()))
    for parts in zip(*(torch.split(tensor, chunk) for tensor in batch), strict=True):
        rows = per_sample(held, *parts)
        spread.add([rows[name] for name in held])
    return dict(zip(held, spread.variances(), strict=True))
