"""Optimizers of torch and from PyPI, with the settings that their documentation gives, and grids of learning rates.

The text that describes a peer's settings is part of the keys of its results.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from gradline.lab.methods.method import Peer
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.stepper import Gradients, OneBatch, Stepper

if TYPE_CHECKING:
    from torch import nn

Schedule: TypeAlias = Callable[[float], float]
"""Returns the factor of the learning rate after a share of the run."""
Take: TypeAlias = Callable[[Any, Any], None]
"""Makes the step of an optimizer from the loss."""

STATISTICS = 20
"""Mini-batches from which BatchNorm's statistics are computed anew where a method's answer is an average."""
WARM_UP = 0.1
"""Share of a run in which the learning rate rises, with warm-up."""
SGD_RATES = (1e-2, 0.1, 1.0, 10.0, 100.0)
ADAM_RATES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Grids of odd length, so that each has a median."""
MOMENTUM_RATES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
ADAMW_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
"""Grids of learning rates with schedules."""


def _gradients(
    module: str, name: str, schedule: Schedule | None = None, take: Take | None = None, **options: Any
) -> Callable[..., Stepper]:
    """Return what builds a stepper of an optimizer that takes one gradient for each step.

    `take` makes the step of an optimizer that needs the loss.
    """

    def build(objective: Objective) -> Stepper:
        optimizer = getattr(import_module(module), name)(objective.parameters, **options)
        if schedule is not None:
            return scheduled(objective, optimizer, schedule)
        return Gradients(objective, optimizer, take=take and partial(take, optimizer))

    return build


# ---- learning rates with schedules


def cosine(done: float) -> float:
    """Return the factor after a share of the run: from 1 to 0 along a cosine."""
    return (1.0 + math.cos(math.pi * min(done, 1.0))) / 2


def warm_up(done: float) -> float:
    """Return the factor after a share of the run: linearly up to 1, then to 0 along a cosine."""
    return done / WARM_UP if done < WARM_UP else cosine((done - WARM_UP) / (1.0 - WARM_UP))


SCHEDULES: dict[str, Schedule] = {"constant": lambda done: 1.0, "cosine": cosine, "warm-up": warm_up}


def scheduled(objective: Objective, optimizer: Any, schedule: Schedule) -> Stepper:
    """Return a stepper whose learning rate follows a schedule over the budget; without a budget it is constant."""
    length = objective.budget
    rates = [group["lr"] for group in optimizer.param_groups]
    steps = 0

    def take(loss: Any) -> None:
        nonlocal steps
        # In the middle of the step, so that no step of a run is zero.
        factor = 1.0 if length is None else schedule((steps + 0.5) / length)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        optimizer.step()
        steps += 1

    return Gradients(objective, optimizer, take=take)


def _at_rate(optimizer: str, rate: float) -> Peer:
    family, about = optimizer.lower(), f"torch.optim.{optimizer}(lr={rate:g})"
    build = _gradients("torch.optim", optimizer, lr=rate)
    return Peer(f"{family}-{rate:g}", about, build, "torch", "torch", family=family, rate=rate)


def _scheduled(name: str, optimizer: str, schedule: str, rate: float, **options: Any) -> Peer:
    settings = ", ".join(f"{key}={value}" for key, value in {"lr": rate, **options}.items())
    about = f"torch.optim.{optimizer}({settings}), {schedule.replace('warm-up', 'warm-up and cosine')}"
    build = _gradients("torch.optim", optimizer, SCHEDULES[schedule], lr=rate, **options)
    return Peer(f"{name}-{schedule}-{rate:g}", about, build, "torch", "torch", rate=rate)


# ---- optimizers with a step of their own kind


def _dog(objective: Objective) -> Stepper:
    """DoG with its averager, whose model is the answer; its documentation asks for both."""
    dog = import_module("dog")
    # "Suggested value is 1e-6, unless the model uses batch-normalization, in which case the suggested value is 1e-4."
    optimizer = dog.DoG(objective.parameters, reps_rel=1e-4 if batch_norms(objective.model) else 1e-6)
    averager = dog.PolynomialDecayAverager(objective.model)

    def take(loss: Any) -> None:
        optimizer.step()
        averager.step()

    @contextmanager
    def measured() -> Iterator[nn.Module]:
        yield averager.averaged_model

    return Gradients(objective, optimizer, take=take, measured=measured)


def _schedule_free(rate: float | None = None) -> Callable[[Objective], Stepper]:
    """Schedule-Free AdamW. For evaluation BatchNorm's statistics are computed anew, as its documentation asks."""

    def build(objective: Objective) -> Stepper:
        options = {} if rate is None else {"lr": rate}
        optimizer = import_module("schedulefree").AdamWScheduleFree(objective.parameters, **options)
        optimizer.train()

        @contextmanager
        def measured() -> Iterator[nn.Module]:
            optimizer.eval()
            try:
                yield with_new_statistics(objective)
            finally:
                optimizer.train()

        return Gradients(objective, optimizer, measured=measured)

    return build


def _mechanic(base: str) -> Callable[[Objective], Stepper]:
    def build(objective: Objective) -> Stepper:
        kind = getattr(import_module("torch.optim"), base)
        optimizer = import_module("mechanic_pytorch").mechanize(kind)(objective.parameters, lr=1.0)
        return Gradients(objective, optimizer)

    return build


def _with_loss(optimizer: Any, loss: Any) -> None:
    optimizer.step(loss=loss)


def batch_norms(model: nn.Module) -> list[Any]:
    """Return the layers of a model that have BatchNorm's running statistics."""
    kind: type = import_module("gradline.torch.private").BatchNorm
    return [module for module in model.modules() if isinstance(module, kind)]


def with_new_statistics(objective: Objective) -> nn.Module:
    """Return the model with BatchNorm's statistics computed anew for its present parameters: a copy, if it has any."""
    if not batch_norms(objective.model):
        return objective.model
    model = copy.deepcopy(objective.model).train()
    for module in batch_norms(model):
        module.reset_running_stats()
        module.momentum = None  # the mean of all batches, not a moving one
    objective.uncounted(model, STATISTICS)
    return model


# ---- line searches, which compare values: each step has one mini-batch


def _lbfgs(objective: Objective) -> Stepper:
    kind = import_module("torch.optim").LBFGS
    return OneBatch(objective, kind(objective.parameters, line_search_fn="strong_wolfe"))


def _salsa(objective: Objective) -> Stepper:
    return OneBatch(objective, import_module("salsa.SaLSA").SaLSA(objective.parameters), ("backwards", False))


def _torchzero(name: str, module: str) -> Peer:
    def build(objective: Objective) -> Stepper:
        torchzero = import_module("torchzero")
        optimizer = torchzero.Optimizer(objective.parameters, getattr(torchzero.m, module)())
        return OneBatch(objective, optimizer, ("backward", True))

    return Peer(f"torchzero-{name}", f"torchzero {module}()", build, "torchzero", "torchzero")


_LBFGS_SETTINGS = 'torch.optim.LBFGS(line_search_fn="strong_wolfe"), one mini-batch a step'
SEARCHES = (
    Peer("salsa", "SaLSA()", _salsa, "salsa-optimizer", "salsa"),
    _torchzero("backtracking", "Backtracking"),
    _torchzero("adaptive", "AdaptiveBacktracking"),
    _torchzero("wolfe", "StrongWolfe"),
    Peer("lbfgs", _LBFGS_SETTINGS, _lbfgs, "torch", "torch"),
)
"""Other line searches."""
_ALIG = _gradients("pytorch_optimizer", "AliG", take=lambda optimizer, loss: optimizer.step(lambda: float(loss)))
# fmt: off
FREE = (
    Peer("prodigy", "Prodigy()", _gradients("prodigyopt", "Prodigy"), "prodigyopt", "prodigyopt"),
    Peer("d-adapt-adam", "DAdaptAdam()", _gradients("dadaptation", "DAdaptAdam"), "dadaptation", "dadaptation"),
    Peer("dog", "DoG() and PolynomialDecayAverager()", _dog, "dog-optimizer", "dog"),
    Peer("schedule-free", "AdamWScheduleFree()", _schedule_free(), "schedulefree", "schedulefree"),
    Peer("cocob", "COCOB()", _gradients("parameterfree", "COCOB"), "parameterfree", "parameterfree"),
    Peer("mechanic-sgd", "mechanize(SGD)(lr=1.0)", _mechanic("SGD"), "mechanic-pytorch", "mechanic_pytorch"),
    Peer("mechanic-adamw", "mechanize(AdamW)(lr=1.0)", _mechanic("AdamW"), "mechanic-pytorch", "mechanic_pytorch"),
    Peer("momo", "Momo()", _gradients("momo", "Momo", take=_with_loss), "momo-opt", "momo"),
    Peer("momo-adam", "MomoAdam()", _gradients("momo", "MomoAdam", take=_with_loss), "momo-opt", "momo"),
    Peer("alig", "AliG(), of pytorch-optimizer", _ALIG, "pytorch-optimizer", "pytorch_optimizer"),
)
# fmt: on
"""Optimizers that find their own learning rate."""
_PRODIGY = _gradients("prodigyopt", "Prodigy", cosine)
_ADAMW = {key: tuple(_scheduled("adamw", "AdamW", key, rate) for rate in ADAMW_RATES) for key in SCHEDULES}
_MOMENTUM = {
    key: tuple(_scheduled("momentum", "SGD", key, rate, momentum=0.9) for rate in MOMENTUM_RATES) for key in SCHEDULES
}

PEERS: dict[str, tuple[Peer, ...]] = {
    "searches": SEARCHES,
    "learning-rate-free": FREE,
    "sgd": tuple(_at_rate("SGD", rate) for rate in SGD_RATES),
    "adam": tuple(_at_rate("Adam", rate) for rate in ADAM_RATES),
    "scheduled": (Peer("prodigy-cosine", "Prodigy(), cosine", _PRODIGY, "prodigyopt", "prodigyopt"),),
    **{f"adamw-{schedule}": grid for schedule, grid in _ADAMW.items()},
    **{f"momentum-{schedule}": grid for schedule, grid in _MOMENTUM.items()},
    "adamw-tuned": tuple(peer for grid in _ADAMW.values() for peer in grid),
    "momentum-tuned": tuple(peer for grid in _MOMENTUM.values() for peer in grid),
    "schedule-free-tuned": tuple(
        Peer(
            *(f"schedule-free-{rate:g}", f"AdamWScheduleFree(lr={rate:g})", _schedule_free(rate)),
            *("schedulefree", "schedulefree"),
            rate=rate,
        )
        for rate in ADAMW_RATES
    ),
}
"""Peers by group. A group of one optimizer's learning rates is a grid; `-tuned` has those of all its schedules."""
