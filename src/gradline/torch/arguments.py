"""Checks of the optimizers' arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, TypeVar, cast

from torch import nn
from torch.optim import Optimizer

from gradline.protocol import Value, observes
from gradline.searches.arguments import require
from gradline.torch.base import caller

T = TypeVar("T")


def check_params(params: Any) -> None:
    """Check that parameters are not a model or an optimizer."""
    if isinstance(params, Optimizer):
        kind = type(params).__name__
        raise TypeError(
            f"params must be parameters, not an optimizer: to search along its updates, give its class as "
            f"direction=torch.optim.{kind} of gradline.LineSearchOptimizer or gradline.GOLSI"
        )
    if isinstance(params, nn.Module):
        raise TypeError("params must be parameters, not a model: write model.parameters()")


def check_arguments(params: Any, direction: Any) -> None:
    """Check the types of parameters and direction."""
    check_params(params)
    if direction is not None and (isinstance(direction, Optimizer) or not callable(direction)):
        raise TypeError(
            f"direction must be the class of a torch optimizer or a functools.partial of it (it is built over the same "
            f"parameters), got {direction!r}"
        )


def check_no_variances(search: Any, **options: bool) -> None:
    """Check that options for variances are not given to a search without variances."""
    for name, value in options.items():
        if value:
            raise ValueError(
                f"{name} must not be given (it tells how variances are found, and {type(search).__name__} looks at "
                f"none), got {value!r}"
            )


def check_spread(search: Any, spread: bool) -> None:
    """Check that `spread` is not used with a search on values, whose probes need one mini-batch."""
    if type(spread) is not bool:
        raise TypeError(f"spread must be True or False (whether a search goes over several steps), got {spread!r}")
    if spread and issubclass(observes(search), Value):
        raise ValueError(
            f"spread must be False for {type(search).__name__} (it compares values of one batch, and each probe would "
            f"have its own), got {spread!r}"
        )


def check_decay(group: dict[str, Any]) -> None:
    """Check that a group has no weight decay, which steepest descent would ignore."""
    if group.get("weight_decay"):
        raise ValueError(
            f"weight_decay must be 0 without a direction (it is part of an optimizer's update): give "
            f"direction=torch.optim.AdamW or functools.partial(torch.optim.SGD, weight_decay=...), got "
            f"{group['weight_decay']!r}"
        )


def check_group(group: dict[str, Any]) -> None:
    """Check the options of a parameter group of `Angle`."""
    betas, eps, decay, scale = (group[name] for name in ("betas", "eps", "weight_decay", "lr_scale"))
    pair = isinstance(betas, tuple | list) and len(betas) == 2 and all(isinstance(beta, float | int) for beta in betas)
    good = pair and all(0.0 <= beta < 1.0 for beta in betas)
    require(good, "betas", "two numbers in [0, 1)", "Schedule-Free's interpolation and a decay rate", betas)
    for name, value, reason in (
        ("eps", eps, "it is added to a root"),
        ("weight_decay", decay, "it shrinks the parameters"),
        ("lr_scale", scale, "it is a factor of the step"),
    ):
        good = isinstance(value, float | int) and 0.0 <= value < math.inf
        require(good, name, "a finite number of at least 0", reason, value)


def search_of(kind: type[T], options: dict[str, Any], owner: str) -> T:
    """Return a search with these settings, without `lr`; raise an error for options that it does not have."""
    names = [field.name for field in fields(cast(Any, kind))]
    for name, value in (options := without_lr(options)).items():
        if name not in names:
            raise TypeError(
                f"{name} must be left out ({owner} has no such option; the settings of its search are "
                f"{', '.join(names)}), got {value!r}"
            )
    return kind(**options)


def directed_search_of(kind: type[T], options: dict[str, Any], owner: str) -> T:
    """Return a search with these settings, as `search_of` does; raise an error for options of its direction."""
    for name in ("betas", "dampening", "eps", "momentum", "nesterov", "weight_decay"):
        if name in options:
            other = "SGD" if name in ("dampening", "momentum", "nesterov") else "AdamW"
            raise TypeError(
                f"{name} must be given to a direction (it is an option of an optimizer's update, which the search goes "
                f"along): direction=functools.partial(torch.optim.{other}, {name}=...), or another optimizer's class, "
                f"got {options[name]!r}"
            )
    return search_of(kind, options, owner)


def without_lrs(params: Iterable[Any]) -> list[Any]:
    """Return parameters or parameter groups; groups without their `lr`, which must be `None` if given."""
    return [
        without_lr(group, f" of parameter group {place}") if isinstance(group, dict) else group
        for place, group in enumerate(params)
    ]


def without_lr(options: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Return options without `lr`, which must be `None` if given, as some trainers do."""
    if options.get("lr") is not None:
        raise ValueError(
            f"lr{where} must be None or not given (the search finds the step; group['lr'] shows it; gradline.Angle "
            f"takes lr_scale for a group's share of it), got {options['lr']!r}"
        )
    return {name: value for name, value in options.items() if name != "lr"}


def ignoring_lr(group: dict[str, Any]) -> dict[str, Any]:
    """Return an added parameter group without its `lr`; warn if it has one, as those of some trainers have."""
    if group.get("lr") is not None:
        warnings.warn(
            f"gradline: lr of an added parameter group has no effect (the search finds the step): for smaller steps in "
            f"this group set lr_scale, which gradline.Angle takes, also afterwards "
            f"(optimizer.param_groups[-1]['lr_scale'] = 0.1), got {group['lr']!r}",
            UserWarning,
            stacklevel=caller(),
        )
    return {name: value for name, value in group.items() if name != "lr"}
