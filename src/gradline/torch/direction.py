"""Search directions: steepest descent, and the update of any torch optimizer.

A direction is computed once per search, from the gradient at the origin.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradline.torch.distributed.sharded import local
from gradline.torch.line import Gradients, Line
from gradline.torch.private import (
    foreach_add_,
    foreach_copy_,
    foreach_div_,
    foreach_sub_,
    foreach_zero_,
    fused_adamw_,
)

DirectionFactory: TypeAlias = Callable[..., Optimizer]
"""Builds a torch optimizer from parameter groups and a learning rate: an optimizer class, or a partial of it."""

_INDEPENDENT = (
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.SGD,
)
"""Optimizers whose update, but for weight decay, does not depend on the values of the parameters."""
_FUSED = (torch.optim.Adam, torch.optim.AdamW)
"""Those with a fused kernel on CPUs."""
_CHOSEN = ("amsgrad", "maximize", "foreach", "capturable", "differentiable")
"""Options that choose another update or implementation."""


class SteepestDescent:
    """Direction d = -g. Slope and length follow from the length of the gradient."""

    def aim(self, line: Line, gradients: Gradients, gradient_norm: float) -> tuple[float, float]:
        """Write the direction into the line; return its slope and its length."""
        line.aim_downhill(gradients)
        return -gradient_norm * gradient_norm, gradient_norm


class Update:
    """Direction d = the update of a torch optimizer per unit of learning rate, so that α *is* its learning rate.

    The optimizer's state (momentum, second moments) advances once per direction, not per probe.

    Torch's own optimizers whose update does not depend on the parameters' values compute it at a learning rate of 1 in
    buffers of zeros that stand in for the parameters: no digit is lost, and on a CPU fused kernels can be used.
    Decoupled weight decay is added afterwards. All others move the parameters themselves at a learning rate of 2^32,
    and the difference is divided by it: a power of two is exact, and at 1 the digits of a small update would be lost
    when it is added to a large parameter. For float16, whose range is too small, the learning rate is 1.
    """

    def __init__(self, base: Optimizer) -> None:
        check_direction(type(base))
        self.base = base
        self._replaced: tuple[list[tuple[Tensor, Tensor]], list[tuple[dict[str, Any], float]]] = ([], [])
        self._trusted: Line | None = None  # the line for which the base left other parameters unchanged

    def aim(self, line: Line, gradients: Gradients, gradient_norm: float) -> tuple[float, float]:
        """Write the direction into the line; return its slope and its length."""
        # Squares of such gradients may overflow, and an infinite second moment remains infinite.
        risky = gradient_norm * gradient_norm > min(torch.finfo(part.dtype).max for part in line.parts) / 4.0
        kept = self._kept_state() if risky else None
        if not self._stands_in(line):
            self._move(line)
        elif not self._write_fused(line, gradients):
            self._write(line)
        if kept is not None and line.ranks.any(not self._is_finite()):
            self._put_back(kept)
            return math.nan, math.nan
        length, slope = line.measure_direction(gradients)
        return slope, length

    def _stands_in(self, line: Line) -> bool:
        """Return whether zeros may stand in for the parameters."""
        if type(self.base) not in _INDEPENDENT or line.sharded:
            return False
        return all(not group["weight_decay"] or _is_decoupled(self.base, group) for group in self.base.param_groups)

    def _write_fused(self, line: Line, gradients: Gradients) -> bool:
        """Write Adam's update by its fused kernel, as `_write` would; return False where that is not possible.

        The first update of a parameter is the optimizer's own, which creates its state.
        """
        base, first = self.base, line.parameters[0]
        if type(base) not in _FUSED or not all(p.is_cpu and p.dtype == first.dtype for p in line.parameters):
            return False
        places = {id(parameter): place for place, parameter in enumerate(line.parameters)}
        calls = []
        for group in base.param_groups:
            if any(map(group.get, _CHOSEN)) or group.get("fused") is False:
                return False
            moving = [p for p in group["params"] if id(p) in places]
            held = [base.state.get(parameter, {}) for parameter in moving]
            if not all("exp_avg" in state for state in held):
                return False
            chosen = [places[id(parameter)] for parameter in moving]
            lists = [[tensors[place] for place in chosen] for tensors in (line.directions, gradients.tensors)]
            lists += [[state[name] for state in held] for name in ("exp_avg", "exp_avg_sq", "step")]
            if not all(all(map(Tensor.is_contiguous, tensors)) for tensors in lists):  # the kernel goes through memory
                return False
            if moving:
                calls.append((group, lists))
        foreach_zero_(line.directions)  # not a product by 0, which keeps NaN
        for group, lists in calls:
            beta1, beta2 = group["betas"]
            foreach_add_(lists[-1], 1.0)
            fused_adamw_(*lists, lr=1.0, beta1=float(beta1), beta2=float(beta2), eps=group["eps"], weight_decay=0.0)
        self._add_decay(line)
        return True

    def _write(self, line: Line) -> None:
        """Have the base optimizer add its update to zeros in place of the parameters."""
        groups, parameters, directions = self.base.param_groups, line.parameters, line.directions
        foreach_zero_(directions)
        self._replaced = (
            [(parameter, parameter.data) for parameter in parameters],
            [(group, group["lr"]) for group in groups],
        )
        try:
            for group in groups:
                set_lr(group, 1.0)
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.data = direction
            with line.ranks.telling():
                self.base.step()
        finally:
            self.restore()
        self._add_decay(line)

    def _add_decay(self, line: Line) -> None:
        """Add decoupled weight decay to the direction."""
        for group in self.base.param_groups:
            if group["weight_decay"]:
                chosen = set(map(id, group["params"]))
                for parameter, direction in zip(line.parameters, line.directions, strict=True):
                    if id(parameter) in chosen:
                        direction.add_(parameter, alpha=-group["weight_decay"])

    def restore(self) -> None:
        """Put back the parameters that zeros stand in for; after an interrupt it can be called again."""
        parameters, groups = self._replaced
        for parameter, value in parameters:
            parameter.data = value
        for group, lr in groups:
            set_lr(group, lr)
        self._replaced = ([], [])

    def _move(self, line: Line) -> None:
        """Have the base optimizer move the parameters, and take the difference."""
        groups = self.base.param_groups
        shown = [group["lr"] for group in groups]
        unit = 1.0 if any(part.dtype == torch.float16 for part in line.parts) else 2.0**32
        everything = [] if line is self._trusted else line.others(p for group in groups for p in group["params"])
        others = [local(other).detach() for other in everything]
        before = [other.clone() for other in others]
        try:
            for group in groups:
                set_lr(group, unit)
            line.leave()
            with line.ranks.telling():
                self.base.step()
            foreach_copy_(line.directions, line.parts)
            foreach_sub_(line.directions, line.origins)
            foreach_div_(line.directions, unit)
        finally:
            line.home()
            for group, lr in zip(groups, shown, strict=True):
                set_lr(group, lr)
        moved = [other for other, was in zip(others, before, strict=True) if not torch.equal(other, was)]
        if moved:
            foreach_copy_(others, before)
            raise TypeError(
                f"direction must be an optimizer that leaves parameters without a gradient alone, but "
                f"{type(self.base).__name__} moved one of shape {tuple(moved[0].shape)}"
            )
        self._trusted = line

    def _kept_state(self) -> dict[Tensor, dict[str, Any]]:
        return {
            parameter: {name: value.clone() if isinstance(value, Tensor) else value for name, value in held.items()}
            for parameter, held in self.base.state.items()
        }

    def _put_back(self, kept: dict[Tensor, dict[str, Any]]) -> None:
        """Restore the base's state in place, since other code may hold its tensors."""
        state = self.base.state
        for parameter in [parameter for parameter in state if parameter not in kept]:
            del state[parameter]
        for parameter, held in kept.items():
            now = state[parameter]
            for name in [name for name in now if name not in held]:
                del now[name]
            for name, value in held.items():
                if isinstance(value, Tensor) and isinstance(now.get(name), Tensor):
                    now[name].copy_(value)
                else:
                    now[name] = value

    def _is_finite(self) -> bool:
        """Whether the base's state is finite."""
        state = (value for held in self.base.state.values() for value in held.values())
        return all(bool(local(value).isfinite().all()) for value in state if isinstance(value, Tensor))

    def __getstate__(self) -> dict[str, Any]:
        # torch's optimizers copy only state and groups; some, such as Lion, have further attributes.
        return {"kind": type(self.base), "attributes": own_attributes(self.base)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.base = state["kind"].__new__(state["kind"])
        self.base.__setstate__(state["attributes"])
        self._replaced = ([], [])
        self._trusted = None


def check_direction(kind: type[Optimizer]) -> None:
    """Raise a `TypeError` if the update of an optimizer cannot be a direction."""
    closure = inspect.signature(kind.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise TypeError(
            f"direction must be an optimizer whose step() needs no closure (its update is the direction, and "
            f"the probes are gradline's), got {kind.__name__}"
        )
    if issubclass(kind, torch.optim.ASGD | torch.optim.Rprop | torch.optim.Adafactor):
        raise TypeError(
            f"direction must be an optimizer whose update is proportional to its learning rate (the search takes "
            f"the learning rate's place), got {kind.__name__}"
        )


def set_lr(group: dict[str, Any], lr: float) -> None:
    """Set the learning rate of a group, also if it refuses that to others."""
    dict.__setitem__(group, "lr", lr)


def _is_decoupled(base: Optimizer, group: dict[str, Any]) -> bool:
    """Return whether weight decay shrinks the parameters by a factor, instead of being added to the gradient."""
    return isinstance(base, torch.optim.AdamW) or bool(group.get("decoupled_weight_decay"))


def own_attributes(optimizer: Optimizer) -> dict[str, Any]:
    """Return the attributes that a copy of an optimizer needs: all but hooks and a `step` patched by a scheduler."""
    return {
        name: value
        for name, value in vars(optimizer).items()
        if not name.startswith("_optimizer_") and name not in ("step", "grad_scale", "found_inf")
    }
