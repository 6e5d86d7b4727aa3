"""The searches to begin with as optimizers, in one line each: the paper's two, and our own."""

from __future__ import annotations

from typing import Any

import torch

from gradline.searches import Angle as AngleSearch
from gradline.searches import GolsI, Prls
from gradline.torch.arguments import settings
from gradline.torch.direction import DirectionFactory
from gradline.torch.optimizer import LineSearchOptimizer

__all__ = ["GOLSI", "Angle", "PrLS"]


class GOLSI(LineSearchOptimizer):
    """GOLS-I, the paper's gradient-only line search, in one line.

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
        direction: the class of a torch optimizer whose update gives the direction; `None`: steepest descent.
        reuse_gradient: begin a search from the accepted probe's gradient; `False` evaluates its start anew.
        spread: make one probe in each `step(closure)`, and go on with the next one's batch: for trainers.
        same_noise: draw the same random numbers (dropout) in all evaluations of a search.
        model: the module that is called in training; `None`: it is found.
        process_group: the process group, if it cannot be inferred from DDP or FSDP. On all five see
            [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
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
            GolsI(**settings(options)),
            direction=direction,
            reuse_gradient=reuse_gradient,
            spread=spread,
            same_noise=same_noise,
            model=model,
            process_group=process_group,
        )


class Angle(LineSearchOptimizer):
    """Adam without a learning rate, for every batch size: each step follows from the angle of the one before.

    One evaluation a step, with or without a closure. The step is Adam's learning rate, found and adapted by the angle
    between the gradient and the way come so far (see [`gradline.searches.Angle`][gradline.searches.Angle]).

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.Angle(model.parameters())

    for _ in range(300):
        batch = torch.randint(256, (16,))
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
        loss.backward()
        optimizer.step()

    assert loss < 0.2
    ```

    Args:
        params: parameters or parameter groups; groups take Adam's options (or those of another direction), but no `lr`.
        direction: the class of a torch optimizer whose update gives the direction, or a `functools.partial` of it;
            `None`: steepest descent.
        reuse_gradient: begin a search from the accepted probe's gradient; `False` evaluates its start anew, which takes
            two evaluations a step.
        spread: make one probe in each `step(closure)`, and go on with the next one's batch: for trainers.
        same_noise: draw the same random numbers (dropout) in all evaluations of a search.
        model: the module that is called in training; `None`: it is found.
        process_group: the process group, if it cannot be inferred from DDP or FSDP. On all five see
            [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        options: settings of [`gradline.searches.Angle`][gradline.searches.Angle]: `gain`, `step_first`, `step_min`,
            `step_max`. None needs to be changed.
    """

    def __init__(
        self,
        params: Any,
        *,
        direction: DirectionFactory | None = torch.optim.Adam,
        reuse_gradient: bool | None = None,
        spread: bool = False,
        same_noise: bool = False,
        model: torch.nn.Module | None = None,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            params,
            AngleSearch(**settings(options)),
            direction=direction,
            reuse_gradient=reuse_gradient,
            spread=spread,
            same_noise=same_noise,
            model=model,
            process_group=process_group,
        )


class PrLS(LineSearchOptimizer):
    """PrLS, the probabilistic line search (Mahsereci and Hennig 2017), in one line.

    It looks at values and slopes *and how sure they are*: their variances over the samples of the mini-batch. So the
    closure returns the losses of all samples, a vector, and leaves the backward pass to the optimizer:

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

    Where a search accepts an earlier one of its probes, parameters and gradient are that probe's. How variances are
    found, and what they cost, is told in [`gradline.torch.moments`][gradline.torch.moments].

    Args:
        params: parameters or parameter groups.
        direction: the class of a torch optimizer whose update gives the direction; `None`: steepest descent.
        reuse_gradient: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        same_noise: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        model: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        process_group: see [`LineSearchOptimizer`][gradline.LineSearchOptimizer].
        diagonal: take the slope's variance as Σ d_i² var g_i, as if the components of the gradient were independent.
            The paper had it so; it costs more. `False`: the exact one, from the slopes of all samples.
        allow_batch_norm: do not refuse losses whose samples BatchNorm (in training mode) mixes. Their variances are
            then a guess.
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
            Prls(**settings(options)),
            direction=direction,
            reuse_gradient=reuse_gradient,
            same_noise=same_noise,
            model=model,
            process_group=process_group,
            diagonal=diagonal,
            allow_batch_norm=allow_batch_norm,
        )
