"""Training as people train: grids of learning rates with schedules over the known length of a run.

A schedule takes the length from the budget of the run. Each optimizer has one gradient a step, so that its steps are
its evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradline.lab.methods.learning_rate_free import schedule_free
from gradline.lab.methods.method import Peer
from gradline.lab.methods.stepper import Gradients, Stepper

if TYPE_CHECKING:
    from gradline.lab.methods.objective import Objective

ADAM_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)
SGD_RATES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
WARM_UP = 0.1
"""Share of a run in which the learning rate rises, with warm-up."""


def constant(done: float) -> float:
    """Factor of the learning rate after a share of the run: always 1."""
    return 1.0


def cosine(done: float) -> float:
    """Factor of the learning rate after a share of the run: from 1 to 0 along a cosine."""
    return (1.0 + math.cos(math.pi * min(done, 1.0))) / 2


def warm_up(done: float) -> float:
    """Factor of the learning rate after a share of the run: linearly up to 1, then to 0 along a cosine."""
    return done / WARM_UP if done < WARM_UP else cosine((done - WARM_UP) / (1.0 - WARM_UP))


SCHEDULES: dict[str, Callable[[float], float]] = {"constant": constant, "cosine": cosine, "warm-up": warm_up}


def scheduled(objective: Objective, optimizer: Any, schedule: Callable[[float], float]) -> Stepper:
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


def _torch(name: str, optimizer: str, schedule: str, rate: float, **options: Any) -> Peer:
    def build(objective: Objective) -> Stepper:
        kind = getattr(import_module("torch.optim"), optimizer)
        return scheduled(objective, kind(objective.parameters, lr=rate, **options), SCHEDULES[schedule])

    settings = ", ".join(f"{key}={value}" for key, value in {"lr": rate, **options}.items())
    about = f"torch.optim.{optimizer}({settings}), {schedule.replace('warm-up', 'warm-up and cosine')}"
    return Peer(f"{name}-{schedule}-{rate:g}", about, build, "torch", "torch", rate=rate)


def _schedule_free(rate: float) -> Peer:
    def build(objective: Objective) -> Stepper:
        return schedule_free(objective, lr=rate)

    about = f"AdamWScheduleFree(lr={rate:g})"
    return Peer(f"schedule-free-{rate:g}", about, build, "schedulefree", "schedulefree", rate=rate)


def _prodigy(objective: Objective) -> Stepper:
    return scheduled(objective, import_module("prodigyopt").Prodigy(objective.parameters), cosine)


_ADAMW = {key: tuple(_torch("adamw", "AdamW", key, rate) for rate in ADAM_RATES) for key in SCHEDULES}
_SGD = {key: tuple(_torch("momentum", "SGD", key, rate, momentum=0.9) for rate in SGD_RATES) for key in SCHEDULES}
GRIDS: dict[str, tuple[Peer, ...]] = {
    **{f"adamw-{schedule}": grid for schedule, grid in _ADAMW.items()},
    **{f"momentum-{schedule}": grid for schedule, grid in _SGD.items()},
    "adamw-tuned": tuple(peer for grid in _ADAMW.values() for peer in grid),
    "momentum-tuned": tuple(peer for grid in _SGD.values() for peer in grid),
    "schedule-free-tuned": tuple(_schedule_free(rate) for rate in ADAM_RATES),
}
"""Learning rates of an optimizer with one schedule, and those of all its schedules together."""
OTHERS = (Peer("prodigy-cosine", "Prodigy(), cosine", _prodigy, "prodigyopt", "prodigyopt"),)
"""Methods with a schedule and without a grid."""
