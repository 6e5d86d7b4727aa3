"""`GradlineOptimizer`: what all of gradline's optimizers have in common."""

from __future__ import annotations

import copy
import sys
import warnings
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradline.driver import Driver
from gradline.protocol import Record, Search, Stop
from gradline.torch.checkpoint import SEARCH, read, reporting_damage
from gradline.torch.context import ModuleContext
from gradline.torch.direction import own_attributes, set_lr
from gradline.torch.distributed.sharded import local_gradient
from gradline.torch.line import Gradients
from gradline.torch.private import foreach_mul_, is_profiling, is_watched, leave_unwrapped, not_compiled, set_grad

SearchHook: TypeAlias = Callable[[Record[Any, Any]], None]
"""Hook of `register_search_hook`."""
F = TypeVar("F", bound=Callable[..., Any])


class Group(dict[str, Any]):
    """Parameter group in which some options are fixed: code that sets them, such as a scheduler, gets a warning, once.

    `lr` shows the step; `set_lr` sets it.
    """

    fixed: ClassVar[Mapping[str, str]] = {
        "lr": "the search finds each step, and group['lr'] only shows it. If a trainer must have a scheduler, give it "
        "gradline.NoSchedule"
    }
    """Names of these options, and why they cannot be set."""
    told: tuple[str, ...] = ()

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.fixed or name not in self:  # copies begin without
            super().__setitem__(name, value)
        elif name not in self.told and value != self[name]:
            self.told += (name,)
            warnings.warn(
                f"gradline: something set group['{name}'], a scheduler perhaps. That has no effect: {self.fixed[name]}",
                UserWarning,
                stacklevel=caller(),
            )


class GradlineOptimizer(Optimizer):
    """Base class of gradline's optimizers: torch optimizers that find the size of each step themselves.

    `group["lr"]` shows the last step and is not an input.
    """

    # GradScaler then calls step() after an overflow too, instead of leaving the parameters at a bad probe.
    _step_supports_amp_scaling = True

    _group: type[Group] = Group
    _driver: Driver
    _context: ModuleContext
    _optimizer_search_hooks: OrderedDict[int, SearchHook]

    @property
    def search(self) -> Search[Any, Any]:
        """The line search that finds the step sizes, with its settings."""
        return self._driver.search

    @property
    def evaluations(self) -> int:
        """Number of gradient evaluations: closure calls, and `step()` calls without a closure."""
        return self._driver.evaluations

    @property
    def iterations(self) -> int:
        """Number of finished searches. Each step of `gradline.Angle` counts as one."""
        return self._driver.iterations

    @property
    def last(self) -> Record[Any, Any]:
        """Record of the last search: its `.step`, `.evaluations`, `.stop`, `.transcript`; a step of 0 before."""
        return self._driver.record

    @property
    @abstractmethod
    def probing(self) -> bool:
        """Whether `eval()` would move the parameters, because training is at another point than it evaluates."""

    @abstractmethod
    def eval(self) -> ExitStack:
        """Set the parameters to the values to evaluate or save, until `train()`; also a context manager."""

    def _until_exit(self, previously: bool) -> ExitStack:
        """Return a context manager that calls `train()` at exit, unless `eval()` was in force previously."""
        mode = ExitStack()
        if not previously:
            mode.callback(self.train)
        return mode

    @abstractmethod
    def train(self) -> None:
        """End `eval()`: set the parameters back to where training continues."""

    @abstractmethod
    def refresh(self) -> None:
        """Discard the gradient that the last step used; call it after changing or freezing parameters."""

    def continue_from_here(self) -> None:
        """Train on from the current parameters, which other code has set in `eval()`, such as the best model's."""
        self.refresh()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to `None`, or to zero with `set_to_none=False`."""
        if is_profiling() or not set_to_none:
            super().zero_grad(set_to_none)
            return
        for group in self.param_groups:  # without a record for a profiler, which takes longer than this
            for parameter in group["params"]:
                parameter.grad = None

    def register_search_hook(self, hook: SearchHook) -> RemovableHandle:
        """Register a hook that is called as `hook(record)` after each search; the record is `optimizer.last`.

        Returns:
            A handle; `handle.remove()` removes the hook.
        """
        handle = RemovableHandle(self._optimizer_search_hooks)
        self._optimizer_search_hooks[handle.id] = hook
        return handle

    def _refuse_in_closure(self, call: str) -> None:
        if self._context.stepping:
            raise RuntimeError(
                f"{call} must be called between steps, not in a closure (the parameters are at a probe, and the "
                f"search goes on from what it knows): do it before or after step()"
            )

    def _forget_scaler(self) -> None:
        """Delete the attributes GradScaler sets for one step, so that a failed step does not scale the next one too."""
        for name in ("grad_scale", "found_inf"):
            vars(self).pop(name, None)

    def _refuse_closure_of_scaler(self) -> None:
        if hasattr(self, "found_inf"):
            self._forget_scaler()
            raise RuntimeError(
                "GradScaler.step() must be called without a closure (it looks for overflows before the closure has "
                "run): call backward() before, or unscale in the closure and call step(closure) yourself"
            )

    def _show(self, step: float) -> None:
        """Show a step in all groups' `lr`."""
        groups = self.param_groups
        for place, group in enumerate(groups):
            if type(group) is not self._group:  # new, or loaded
                groups[place] = group = self._group(group)
            set_lr(group, self._shown_in(group, step))

    def _shown_in(self, group: dict[str, Any], step: float) -> float:
        """Return the learning rate of a group at a step."""
        return step

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _gradients(self) -> Gradients:
        """Return the parameters that have a gradient, with their gradients, divided by GradScaler's scale."""
        found = self._with_gradient()
        scale = vars(self).get("grad_scale")
        if scale is not None:  # GradScaler leaves the division to us; an overflow reaches the search unchanged
            foreach_mul_(found.tensors, float(1.0 / scale))
        return found

    def _with_gradient(self) -> Gradients:
        """Return the parameters that have a gradient, with it; raise an error if there are none, or sparse ones."""
        parameters, gradients = [], []
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is not None:
                    if gradient.is_sparse:
                        raise TypeError(
                            f"gradients must be dense (a slope is a sum over all entries), but a parameter of shape "
                            f"{tuple(parameter.shape)} has a sparse one; use sparse=False in its layer"
                        )
                    parameters.append(parameter)
                    plain = type(parameter) is nn.Parameter
                    gradients.append(gradient if plain else local_gradient(parameter, gradient))
        if not parameters:
            raise RuntimeError(
                "no parameter has a gradient: call loss.backward() before step(), or in the closure, "
                "on parameters that require gradients"
            )
        return Gradients(parameters, gradients)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a result of `state_dict()`. An unsuitable one raises an error and changes nothing."""
        self._refuse_in_closure("load_state_dict()")
        with reporting_damage():
            packed = read(state_dict)
            saved = self._unpack(state_dict, packed)
        before = [(owner, dict(vars(owner))) for owner in self._loaded()]
        try:
            with reporting_damage():
                super().load_state_dict(state_dict)
                self.param_groups[0][SEARCH] = repr(self.search)
                self._restore(state_dict, saved)
                self._context.listen()  # the model may have been loaded too, with other running statistics
                self._show_step()
        except BaseException:  # loading replaces attributes and does not change objects in place
            for owner, attributes in before:
                vars(owner).clear()
                vars(owner).update(attributes)
            raise

    @abstractmethod
    def _unpack(self, state_dict: dict[str, Any], packed: dict[str, Any]) -> Any:
        """Return what `_restore` needs; raise an error if a state_dict does not fit, and change nothing."""

    @abstractmethod
    def _restore(self, state_dict: dict[str, Any], saved: Any) -> None:
        """Restore what `_unpack` returned, after torch has loaded groups and state."""

    def _loaded(self) -> list[object]:
        """Return the objects whose attributes loading replaces."""
        return [self]

    @abstractmethod
    def _show_step(self) -> None:
        """Show the last step in all groups' `lr`."""

    def _keep_types(self, state_dict: dict[str, Any], names: Collection[str]) -> None:
        """Restore state of another dtype than its parameter, such as NAdam's `mu_product`, which torch converts."""
        places = [place for group in state_dict["param_groups"] for place in group["params"]]
        for place, parameter in zip(places, self._parameters(), strict=True):
            for name, value in state_dict["state"].get(place, {}).items():
                if name in names and isinstance(value, Tensor):
                    loaded = self.state[parameter][name]
                    self.state[parameter][name] = value.to(loaded.device, copy=True)

    def _refuse_complex(self, group: dict[str, Any]) -> None:
        """Remove the group just added, and raise an error, if one of its parameters is complex."""
        for parameter in group["params"]:
            if parameter.is_complex():
                self.param_groups.pop()
                raise TypeError(
                    f"parameters must be real (slopes along complex ones are not supported), got one of shape "
                    f"{tuple(parameter.shape)} and {parameter.dtype}; make torch.view_as_real of it the parameter, and "
                    f"use torch.view_as_complex of that in the model"
                )

    def __getstate__(self) -> dict[str, Any]:
        # torch's own method omits everything but state and groups.
        self._refuse_in_closure("copying it")
        return own_attributes(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_optimizer_search_hooks" not in self.__dict__:
            self._optimizer_search_hooks = OrderedDict()
        if "defaults" in state:  # a copy of the whole optimizer, not a state_dict
            self._context.listen()

    def __deepcopy__(self, memo: dict[int, Any]) -> GradlineOptimizer:
        # A copy keeps the process group; a pickle may be read in another process.
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._context.process_group = self._context.process_group
        return copied

    def _call_hooks(self, record: Record[Any, Any]) -> None:
        if self._optimizer_search_hooks:
            for hook in list(self._optimizer_search_hooks.values()):
                hook(record)


def require_gradline(optimizer: Any, done: str) -> None:
    """Require an optimizer of gradline, whose searches something is done with."""
    if not isinstance(optimizer, GradlineOptimizer):
        raise TypeError(
            f"optimizer must be a gradline optimizer (its searches are {done}; of a trainer's wrapper give the one "
            f"inside), got {type(optimizer).__name__}"
        )


def step_method(step: F) -> F:
    """Decorate `step` as torch does (hooks, a record for the profiler, no gradients), at less cost.

    Torch's own wrapper takes longer than the update of a small model. It is used only if there are hooks or a profiler.
    A step is run outside of `torch.compile`, which would recompile parts of it for each step without any gain.
    """

    @wraps(step)
    def run(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        before = torch.is_grad_enabled()
        try:
            set_grad(False)
            return step(self, closure)
        finally:
            set_grad(before)

    wrapped: Callable[..., Any] = Optimizer.profile_hook_step(run)
    uncompiled = not_compiled(wrapped)

    @wraps(step)
    def quick(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        if torch.compiler.is_compiling():
            return uncompiled(self, closure)
        if is_watched(self) and type(self).step is quick:  # a subclass with its own `step` has called the hooks
            return wrapped(self) if closure is None else wrapped(self, closure)
        return run(self, closure)

    leave_unwrapped(quick)
    return cast(F, quick)


def warn_of(record: Record[Any, Any]) -> None:
    """Warn of a search that ended because numbers were not finite."""
    if record.stop in (Stop.NON_FINITE, Stop.NON_FINITE_ORIGIN):
        probes = f"{record.evaluations} probe{'' if record.evaluations == 1 else 's'}"
        warnings.warn(f"gradline: {record.stop} ({probes})", RuntimeWarning, stacklevel=caller())


def caller() -> int:
    """Return the `stacklevel` of a warning at the line that called gradline, beyond torch's wrappers of `step`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_INSIDE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


_INSIDE = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
"""Folders of this package and of torch."""
