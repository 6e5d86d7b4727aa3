"""Optimizers for the paper's two searches: `GOLSI` and `PrLS`."""

from __future__ import annotations

from typing import Any

import torch

from gradline.searches import GolsI, Prls
from gradline.torch.arguments import directed_search_of
from gradline.torch.direction import DirectionFactory
from gradline.torch.optimizer import LineSearchOptimizer


class GOLSI(LineSearchOptimizer):
    """Optimizer that finds its steps by GOLS-I, the gradient-only line search of the paper.

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.GOLSI(model.parameters())

    for _ in range(300):
        batch = torch.randint(256, (64,))
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
        loss.backward()
        optimizer.step()

    assert loss < 0.1
    ```

    Args:
        params: parameters or parameter groups.
        direction: a torch optimizer class whose update is the direction; `None`: steepest descent. This and the next
            five are explained at [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        reuse_gradient: start each search from the gradient of the accepted probe; `False` evaluates it again.
        spread: make one probe per `step(closure)` and continue with the next mini-batch, for trainers.
        same_noise: draw the same random numbers (dropout masks) in all evaluations of a search.
        model: the module called in training; `None`: detect it.
        process_group: the process group, if it cannot be inferred from DDP or FSDP2.
        options: settings of [`gradline.searches.GolsI`][gradline.searches.GolsI]: `step_first`, `growth`, `overshoot`,
            `step_min`, `step_max`, `strict`, `max_probes`. None needs to be changed.
    """

    def __init__(
        self,
        params: Any,
        *,
        direction: DirectionFactory | None = None,
        reuse_gradient: bool | None = None,
        spread: bool = False,
        same_noise: bool = False,
        model: torch.nn.Module | None = None,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            params,
            directed_search_of(GolsI, options, "GOLSI"),
            direction=direction,
            reuse_gradient=reuse_gradient,
            spread=spread,
            same_noise=same_noise,
            model=model,
            process_group=process_group,
        )


class PrLS(LineSearchOptimizer):
    """Optimizer that finds its steps by PrLS, the probabilistic line search (Mahsereci and Hennig 2017).

    The search uses values, slopes and the variances of both over the samples of the mini-batch. The closure therefore
    returns the vector of per-sample losses and does not call `backward()`:

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.PrLS(model.parameters())

    def closure():
        batch = torch.randint(256, (64,))  # a new batch for each evaluation
        return (model(inputs[batch]) - targets[batch]).square().sum(dim=1)  # 64 losses

    for _ in range(200):
        loss = optimizer.step(closure)  # the mean loss at the accepted step

    assert loss < 0.1
    ```

    If a search accepts an earlier probe, parameters and gradients are set to those of that probe. For the computation
    of the variances and its cost see [`gradline.torch.moments`][gradline.torch.moments].

    Args:
        params: parameters or parameter groups.
        direction: a torch optimizer class whose update is the direction; `None`: steepest descent.
        reuse_gradient: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        same_noise: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        model: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        process_group: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        diagonal: compute the variance of the slope as Σ d_i² var g_i, as if the components of the gradient were
            independent. This is the paper's method and more expensive. `False`: the exact variance, from the slopes of
            all samples.
        allow_batch_norm: accept models in which BatchNorm in training mode mixes the samples. The variances are then
            only approximate.
        options: settings of [`gradline.searches.Prls`][gradline.searches.Prls].
    """

    def __init__(
        self,
        params: Any,
        *,
        direction: DirectionFactory | None = None,
        reuse_gradient: bool | None = None,
        same_noise: bool = False,
        model: torch.nn.Module | None = None,
        process_group: Any = None,
        diagonal: bool = False,
        allow_batch_norm: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            params,
            directed_search_of(Prls, options, "PrLS"),
            direction=direction,
            reuse_gradient=reuse_gradient,
            same_noise=same_noise,
            model=model,
            process_group=process_group,
            diagonal=diagonal,
            allow_batch_norm=allow_batch_norm,
        )
