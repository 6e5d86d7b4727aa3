"""torch's own optimizers: SGD and Adam over grids of learning rates, and LBFGS."""

from __future__ import annotations

import torch

from gradline.lab.bench.objective import Objective
from gradline.lab.methods.peers.method import Method
from gradline.lab.methods.peers.stepping import Gradients, OneBatch, Stepper, closure

SGD_RATES = (1e-2, 0.1, 1.0, 10.0, 100.0)
ADAM_RATES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Grids of odd length, so that each has a median."""


def _sgd(rate: float) -> Method:
    def build(objective: Objective) -> Stepper:
        return Gradients(objective, torch.optim.SGD(objective.parameters, lr=rate))

    name = f"sgd-{rate:g}"
    return Method(name, f"torch.optim.SGD(lr={rate:g})", build, "tuned", "torch", "torch", family="sgd", rate=rate)


def _adam(rate: float) -> Method:
    def build(objective: Objective) -> Stepper:
        return Gradients(objective, torch.optim.Adam(objective.parameters, lr=rate))

    name = f"adam-{rate:g}"
    return Method(name, f"torch.optim.Adam(lr={rate:g})", build, "tuned", "torch", "torch", family="adam", rate=rate)


def _lbfgs(objective: Objective) -> Stepper:
    optimizer = torch.optim.LBFGS(objective.parameters, line_search_fn="strong_wolfe")
    evaluate = closure(objective, optimizer)
    return OneBatch(objective, lambda: optimizer.step(evaluate))  # type: ignore[no-untyped-call]


METHODS = (
    *map(_sgd, SGD_RATES),
    *map(_adam, ADAM_RATES),
    Method(
        "lbfgs",
        'torch.optim.LBFGS(line_search_fn="strong_wolfe"), one mini-batch a step',
        _lbfgs,
        "searches",
        "torch",
        "torch",
    ),
)
