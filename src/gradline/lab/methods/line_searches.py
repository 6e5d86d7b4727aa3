"""Other line searches from PyPI: SaLSA and torchzero's. They compare values, so each step has one mini-batch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradline.lab.methods.method import Peer
from gradline.lab.methods.stepper import OneBatch, Stepper, closure

if TYPE_CHECKING:
    from gradline.lab.methods.objective import Objective


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


def _method(name: str, about: str, modules: Callable[[Any], tuple[Any, ...]]) -> Peer:
    return Peer(name, about, _torchzero(modules), "torchzero", "torchzero")


METHODS = (
    Peer("salsa", "SaLSA()", _salsa, "salsa-optimizer", "salsa"),
    _method("torchzero-backtracking", "torchzero Backtracking()", lambda m: (m.Backtracking(),)),
    _method("torchzero-adaptive", "torchzero AdaptiveBacktracking()", lambda m: (m.AdaptiveBacktracking(),)),
    _method("torchzero-wolfe", "torchzero StrongWolfe()", lambda m: (m.StrongWolfe(),)),
)
