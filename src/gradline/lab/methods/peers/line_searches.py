"""Other line searches from PyPI: SaLSA and torchzero's. They compare values, so each step has one mini-batch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from gradline.lab.bench.objective import Objective
from gradline.lab.methods.peers.method import Method
from gradline.lab.methods.peers.stepping import OneBatch, Stepper, closure


def _salsa(objective: Objective) -> Stepper:
    optimizer = import_module("salsa.SaLSA").SaLSA(objective.parameters)
    evaluate = closure(objective, optimizer, "backwards")

    def take() -> None:
        optimizer.zero_grad()
        optimizer.step(closure=evaluate)

    return OneBatch(objective, take)


def _torchzero(modules: Callable[[Any], tuple[Any, ...]]) -> Callable[[Objective], Stepper]:
    def build(objective: Objective) -> Stepper:
        torchzero = import_module("torchzero")
        optimizer = torchzero.Optimizer(objective.parameters, *modules(torchzero.m))
        evaluate = closure(objective, optimizer, "backward")
        return OneBatch(objective, lambda: optimizer.step(evaluate))

    return build


def _method(name: str, about: str, modules: Callable[[Any], tuple[Any, ...]]) -> Method:
    return Method(name, about, _torchzero(modules), "searches", "torchzero", "torchzero")


METHODS = (
    Method("salsa", "SaLSA()", _salsa, "searches", "salsa-optimizer", "salsa"),
    _method("torchzero-backtracking", "torchzero Backtracking()", lambda m: (m.Backtracking(),)),
    _method("torchzero-adaptive", "torchzero AdaptiveBacktracking()", lambda m: (m.AdaptiveBacktracking(),)),
    _method("torchzero-wolfe", "torchzero StrongWolfe()", lambda m: (m.StrongWolfe(),)),
)
