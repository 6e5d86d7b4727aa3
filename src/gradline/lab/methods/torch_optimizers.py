"""torch's own optimizers: SGD and Adam over grids of learning rates, and LBFGS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.methods.method import Peer
from gradline.lab.methods.stepper import Gradients, OneBatch, Stepper, closure

if TYPE_CHECKING:
    from gradline.lab.methods.objective import Objective

SGD_RATES = (1e-2, 0.1, 1.0, 10.0, 100.0)
ADAM_RATES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Grids of odd length, so that each has a median."""


def _at_rate(optimizer: str, rate: float) -> Peer:
    def build(objective: Objective) -> Stepper:
        import torch

        return Gradients(objective, getattr(torch.optim, optimizer)(objective.parameters, lr=rate))

    family, about = optimizer.lower(), f"torch.optim.{optimizer}(lr={rate:g})"
    return Peer(f"{family}-{rate:g}", about, build, "torch", "torch", family=family, rate=rate)


def _lbfgs(objective: Objective) -> Stepper:
    import torch

    optimizer = torch.optim.LBFGS(objective.parameters, line_search_fn="strong_wolfe")
    evaluate = closure(objective, optimizer)
    return OneBatch(objective, lambda: optimizer.step(evaluate))  # type: ignore[no-untyped-call]


SGD = tuple(_at_rate("SGD", rate) for rate in SGD_RATES)
ADAM = tuple(_at_rate("Adam", rate) for rate in ADAM_RATES)
LBFGS = Peer(
    "lbfgs", 'torch.optim.LBFGS(line_search_fn="strong_wolfe"), one mini-batch a step', _lbfgs, "torch", "torch"
)
