"""Optimizers from PyPI that find their own learning rate, with the settings that their documentation gives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradline.lab.methods.method import Peer
from gradline.lab.methods.stepper import Gradients, Stepper

if TYPE_CHECKING:
    from torch import nn

    from gradline.lab.methods.objective import Objective

STATISTICS = 20
"""Mini-batches from which BatchNorm's statistics are found anew where a method's answer is an average."""


def _plain(module: str, name: str, **options: Any) -> Callable[[Objective], Stepper]:
    def build(objective: Objective) -> Stepper:
        return Gradients(objective, getattr(import_module(module), name)(objective.parameters, **options))

    return build


def _dog(objective: Objective) -> Stepper:
    """DoG with its averager, whose model is the answer; its documentation asks for both."""
    dog = import_module("dog")
    # "Suggested value is 1e-6, unless the model uses batch-normalization, in which case the suggested value is 1e-4."
    optimizer = dog.DoG(objective.parameters, reps_rel=1e-4 if has_batch_norm(objective.model) else 1e-6)
    averager = dog.PolynomialDecayAverager(objective.model)

    def take(loss: Any) -> None:
        optimizer.step()
        averager.step()

    @contextmanager
    def measured() -> Iterator[nn.Module]:
        yield averager.averaged_model

    return Gradients(objective, optimizer, take=take, measured=measured)


def schedule_free(objective: Objective, **options: Any) -> Stepper:
    """Schedule-Free AdamW. For evaluation BatchNorm's statistics are found anew, as its documentation asks."""
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


def _mechanic(base: str) -> Callable[[Objective], Stepper]:
    def build(objective: Objective) -> Stepper:
        kind = getattr(import_module("torch.optim"), base)
        optimizer = import_module("mechanic_pytorch").mechanize(kind)(objective.parameters, lr=1.0)
        return Gradients(objective, optimizer)

    return build


def _momo(module: str, name: str) -> Callable[[Objective], Stepper]:
    def build(objective: Objective) -> Stepper:
        optimizer = getattr(import_module(module), name)(objective.parameters)
        return Gradients(objective, optimizer, take=lambda loss: optimizer.step(loss=loss))

    return build


def _alig(objective: Objective) -> Stepper:
    optimizer = import_module("pytorch_optimizer").AliG(objective.parameters)
    return Gradients(objective, optimizer, take=lambda loss: optimizer.step(lambda: float(loss)))


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a model has BatchNorm's running statistics."""
    return any(_is_batch_norm(module) for module in model.modules())


def _is_batch_norm(module: nn.Module) -> bool:
    kind: type = import_module("torch.nn.modules.batchnorm")._BatchNorm
    return isinstance(module, kind)


def with_new_statistics(objective: Objective) -> nn.Module:
    """Return the model with BatchNorm's statistics computed anew for its present parameters: a copy, if it has any."""
    if not has_batch_norm(objective.model):
        return objective.model
    model = copy.deepcopy(objective.model).train()
    norms: list[Any] = [module for module in model.modules() if _is_batch_norm(module)]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # the mean of all batches, not a moving one
    objective.uncounted(model, STATISTICS)
    return model


def _method(name: str, about: str, build: Callable[[Objective], Stepper], package: str, module: str) -> Peer:
    return Peer(name, about, build, package, module)


METHODS = (
    _method("prodigy", "Prodigy()", _plain("prodigyopt", "Prodigy"), "prodigyopt", "prodigyopt"),
    _method("d-adapt-adam", "DAdaptAdam()", _plain("dadaptation", "DAdaptAdam"), "dadaptation", "dadaptation"),
    _method("dog", "DoG() and PolynomialDecayAverager()", _dog, "dog-optimizer", "dog"),
    _method("schedule-free", "AdamWScheduleFree()", schedule_free, "schedulefree", "schedulefree"),
    _method("cocob", "COCOB()", _plain("parameterfree", "COCOB"), "parameterfree", "parameterfree"),
    _method("mechanic-sgd", "mechanize(SGD)(lr=1.0)", _mechanic("SGD"), "mechanic-pytorch", "mechanic_pytorch"),
    _method(
        "mechanic-adamw",
        "mechanize(AdamW)(lr=1.0)",
        _mechanic("AdamW"),
        "mechanic-pytorch",
        "mechanic_pytorch",
    ),
    _method("momo", "Momo()", _momo("momo", "Momo"), "momo-opt", "momo"),
    _method("momo-adam", "MomoAdam()", _momo("momo", "MomoAdam"), "momo-opt", "momo"),
    _method("alig", "AliG(), of pytorch-optimizer", _alig, "pytorch-optimizer", "pytorch_optimizer"),
)
