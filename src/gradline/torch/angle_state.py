"""The state of `Angle`: its tensors and numbers, the average, saving and loading."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradline.codec import CodecError, Plain, count, number, pack_driver, unpack_driver, unpack_memory
from gradline.driver import Driver
from gradline.searches import Angle as AngleSearch
from gradline.searches.angle import AngleMemory
from gradline.torch.arguments import check_group
from gradline.torch.base import GradlineOptimizer, Group
from gradline.torch.buckets import (
    AGE,
    AVERAGE,
    DISPLACEMENT,
    EXACT,
    ITERATE,
    ORIGIN,
    SQUARE,
    Bucket,
    average_of,
    dtype_of,
    set_to_average,
    stores_average,
)
from gradline.torch.checkpoint import check_fields, saved_tensors, with_fields, written
from gradline.torch.context import ModuleContext
from gradline.torch.distributed.sharded import is_sharded, local, whole
from gradline.torch.outliers import OutlierGuard

POINT = "point"


class Phase(Enum):
    """What the next gradient is used for; the table at the head of `angle_steps` says how."""

    START = "to begin the first search"
    FIRST = "for the first search"
    STEPS = "to take a step"


class AngleGroup(Group):
    """Parameter group of `Angle`: `betas` stay as they are."""

    fixed: ClassVar = {**Group.fixed, "betas": "the average is computed with those that training began with"}


class AngleState(GradlineOptimizer):
    """Torch optimizer with the state of `Angle`."""

    _group = AngleGroup

    def __init__(
        self, params: Any, defaults: dict[str, Any], search: AngleSearch, context: ModuleContext, *, average: bool
    ) -> None:
        self.average = average
        """Whether `eval()` uses an average of the points."""
        self._driver = Driver(search)
        self._evaluating = False
        self._points: dict[Tensor, Tensor] = {}  # in `eval()`: where training continues (of shards, the local ones)
        self._between = False  # while `eval()` or `train()` moves the parameters, or after an interrupt of it
        self._guard = OutlierGuard()
        self._failures = 0  # evaluations in a row that were rejected
        self._heading = (0.0, 0.0)  # g·w and ‖g‖‖w‖ at the last step
        self._before: AngleMemory = self._driver.memory  # memory before the last step
        self._buckets: list[Bucket] | None = None
        self._collecting: list[int] = []  # ids of the parameters that had a gradient when the buckets were made
        self._context = context
        self._unsettled = False  # a state was loaded, and no step taken since
        self._in_model = ""  # the tensors that the model has, if the state was saved in `eval()` without them
        self._optimizer_search_hooks = OrderedDict()
        super().__init__(params, defaults)

    @property
    def search(self) -> AngleSearch:
        """The rule that finds the step sizes, with its settings."""
        return self._driver.search  # type: ignore[return-value]

    @property
    def _phase(self) -> Phase:
        """What the next gradient is used for."""
        state = self._driver.state
        if state.pending is not None:
            return Phase.FIRST
        return Phase.STEPS if state.memory.taken else Phase.START

    def _show_step(self) -> None:
        self._show(self._driver.state.memory.step if self._phase is Phase.STEPS else 0.0)

    def _known(self) -> list[Tensor]:
        return [parameter for parameter in self._parameters() if ORIGIN in self.state.get(parameter, {})]

    def _conform(self) -> None:
        """Convert all tensors to the parameters' current dtype and device, which `model.double()` changes."""
        for parameter in self._known():
            held = self.state[parameter]
            part = local(parameter)
            for name, value in held.items():
                if name == AGE or value.shape != parameter.shape:
                    continue
                dtype = dtype_of(name, part)
                if (value.dtype, value.device) != (dtype, parameter.device):
                    held[name] = whole(local(value).to(part.device, dtype), parameter)
                    self._buckets = None

    def _begin_evaluation(self) -> None:
        """Note where training continues; if there is too little memory for that, nothing is changed."""
        if self._unsettled:
            self._settle()
        points = {}
        if self._phase is not Phase.START:
            self._conform()
            points = {parameter: local(parameter).detach().clone() for parameter in self._known()}
        self._points, self._between, self._evaluating = points, True, True

    def _move_to_evaluated(self) -> None:
        """Set the parameters to the average, or to the accepted point; after an interrupt it can be repeated."""
        self._between = True
        for parameter, group in self._grouped(list(self._points)):
            held, point = self.state[parameter], self._points[parameter]
            if self.average and self._phase is Phase.STEPS:
                set_to_average(local(parameter), point, held, group)
            else:
                local(parameter).copy_(local(held[ORIGIN]))
        self._context.ranks.moved()
        self._between = False

    def _move_to_points(self) -> None:
        """Set the parameters to where training continues; after an interrupt it can be repeated."""
        self._between = True
        for parameter, point in self._points.items():
            local(parameter).copy_(point)
        self._context.ranks.moved()
        self._evaluating = self._between = False
        self._points = {}

    def _grouped(self, parameters: list[Tensor]) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """Yield these parameters with their groups."""
        ids = set(map(id, parameters))
        for group in self.param_groups:
            for parameter in group["params"]:
                if id(parameter) in ids:
                    yield parameter, group

    def _average(self, parameter: Tensor, point: Tensor, group: dict[str, Any]) -> Tensor:
        """Return the average of a parameter at a point, before the first step its start (the local shard)."""
        held = self.state[parameter]
        if self._phase is Phase.STEPS:
            return average_of(point, held, group)
        start = point if self._phase is Phase.START else local(held[ORIGIN])
        return start.to(dtype_of(AVERAGE, start), copy=True)

    def _drop_averages(self) -> None:
        """Remove the averages that can be computed from the state."""
        for parameter, group in self._grouped(self._known()):
            if not stores_average(parameter, group):
                self.state[parameter].pop(AVERAGE, None)

    @property
    def _swapped(self) -> bool:
        """Whether training continues elsewhere than where the parameters are, because those are to be evaluated."""
        return self._evaluating and bool(self._points)

    @property
    def _evaluated(self) -> str:
        """Name of the tensors that `eval()` sets the parameters to."""
        return AVERAGE if self.average else ORIGIN

    @torch.inference_mode(False)  # training goes on with these tensors if they are loaded
    @torch.no_grad()
    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, so that training can resume bit for bit.

        It consists of tensors, numbers, strings, lists and dicts, so that `torch.load(weights_only=True)` can read it.
        It may be saved inside or outside `eval()`, independently of the model.
        """
        self._refuse_in_closure("state_dict()")
        packed: dict[str, Any] = super().state_dict()
        state = {place: {name: _own(part) for name, part in held.items()} for place, held in packed["state"].items()}
        places = {id(parameter): place for place, parameter in enumerate(self._parameters())}
        known = self._known()
        if self._swapped:
            for parameter, group in self._grouped(known):  # here, parameters and averages (or origins) are exchanged
                held, part, point = state[places[id(parameter)]], local(parameter).detach(), self._points[parameter]
                dtype = dtype_of(self._evaluated, part)
                exact = part.clone() if part.dtype == dtype else self._average(parameter, point, group)
                held[EXACT] = whole(exact, parameter)
                held[self._evaluated] = whole(point.to(part.device, dtype, copy=True), parameter)
        elif self.average:
            for parameter, group in self._grouped(known):
                held = state[places[id(parameter)]]
                if AVERAGE not in held:
                    held[AVERAGE] = whole(self._average(parameter, local(parameter).detach(), group), parameter)
        return written(packed, state, self._pack(self._driver))

    def _pack(self, driver: Driver) -> dict[str, Plain]:
        packed = {
            "direction": "Angle",
            "driver": pack_driver(driver),
            "swapped": self._evaluated if self._swapped else "",
            "guard": list(self._guard),
            "failures": self._failures,
            "heading": list(self._heading),
            "before": list(self._before),
        }
        return with_fields(packed, driver)

    def _unpack(self, state_dict: dict[str, Any], packed: dict[str, Plain]) -> tuple[dict[str, Any], str]:
        """Return the attributes to load, and which tensors the parameters were exchanged with for evaluation."""
        if packed.get("direction") != "Angle":
            raise ValueError(
                f"state_dict must be of gradline.Angle (another optimizer's means something else), got one of a search "
                f"along {packed.get('direction')}"
            )
        check_fields(packed, self._pack(Driver(self.search)))
        driver = unpack_driver(self.search, packed["driver"])
        if len(packed["before"]) != len(driver.memory):
            raise CodecError(f"its earlier memory has {len(packed['before'])} numbers")
        if driver.pending is not None and (driver.pending.outcome is not None or driver.memory.taken > 0):
            raise CodecError(f"its first search goes on after its end, or after {driver.memory.taken} steps")
        if packed["swapped"] not in ("", AVERAGE, ORIGIN):
            raise CodecError(f"swapped is {packed['swapped']!r}")
        attributes = {
            "_driver": driver,
            "_guard": OutlierGuard(number(packed["guard"][0]), count(packed["guard"][1]), number(packed["guard"][2])),
            "_failures": count(packed["failures"]),
            "_heading": (number(packed["heading"][0]), number(packed["heading"][1])),
            "_before": unpack_memory(self.search, list(map(number, packed["before"]))),
        }
        self._check_tensors(state_dict, begun=driver.pending is not None or driver.memory.taken > 0)
        return attributes, packed["swapped"]

    def _check_tensors(self, state_dict: dict[str, Any], *, begun: bool) -> None:
        """Check that the saved tensors are complete and have the shapes of the parameters."""
        saved = saved_tensors(state_dict, self._parameters(), lambda name: name != AGE)
        for place, held in enumerate(saved):
            missing = [name for name in (AGE, SQUARE, ORIGIN, DISPLACEMENT, ITERATE) if name not in held]
            if held and missing:
                raise CodecError(f"parameter {place} has no {', '.join(missing)}")
            if held and held[AGE].numel() != 1:
                raise CodecError(f"parameter {place} has {held[AGE].numel()} numbers of steps")
        if begun and not any(saved):
            raise CodecError("no parameter has a state")

    @torch.no_grad()
    def _restore(self, state_dict: dict[str, Any], saved: tuple[dict[str, Any], str]) -> None:
        """Set the parameters to the point of training if the state was saved in `eval()`.

        `torch.distributed.checkpoint` loads no tensors that only a state saved in `eval()` has. The average is then in
        the model, if that was saved in `eval()` too.
        """
        attributes, swapped = saved
        vars(self).update(attributes)
        self._evaluating, self._points, self._between, self._in_model = False, {}, False, ""
        self._buckets, self._unsettled = None, True
        for group in self.param_groups:
            check_group(group)
        self._keep_types(state_dict, (AVERAGE, ITERATE, DISPLACEMENT, EXACT))
        points = []
        for parameter, held in self.state.items():
            if swapped and ORIGIN in held:
                exact = held.pop(EXACT, None)
                if swapped in held:
                    held[POINT] = held[swapped].clone()
                if exact is None:
                    self._in_model = swapped
                else:
                    held[swapped] = exact
                    points.append((local(parameter), local(held[POINT])))
        for parameter, point in points:  # last: nothing can fail now. Again in `_settle`, if the model is loaded later
            parameter.copy_(point)

    def _settle(self) -> bool:
        """After loading: return False if the parameters were not those of training, and set them to those.

        They are not where the model was loaded from a file that was saved in `eval()`. If the optimizer's state was not
        saved there, its accepted point is used.
        """
        self._unsettled = False
        known = self._known()
        points = {parameter: self.state[parameter].pop(POINT, None) for parameter in known}
        settled = self._phase is Phase.START or not self._go_to(points)
        self._drop_averages()
        return settled

    def _go_to(self, points: dict[Tensor, Tensor | None]) -> bool:
        """Set the parameters to these points, or to those computed from the state; return whether they were others."""
        held = {parameter: self.state[parameter] for parameter in points}
        if self._in_model:
            evaluated = {parameter: local(parameter).detach().clone() for parameter in points}
            for parameter, tensor in evaluated.items():
                if self._in_model in held[parameter]:
                    local(held[parameter][self._in_model]).copy_(tensor)
            self._in_model = ""
        else:
            evaluated = {p: local(tensors.get(self._evaluated, tensors[ORIGIN])) for p, tensors in held.items()}
            if self._anywhere(not all(_equal(local(parameter), tensor) for parameter, tensor in evaluated.items())):
                return False
        pending, moved = self._driver.pending, False
        for parameter, group in self._grouped(list(points)):
            here, point, tensors = local(parameter), points[parameter], held[parameter]
            goal = here
            if point is not None:
                goal = local(point)
            elif pending is not None:
                goal = local(tensors[ORIGIN]).clone().add_(local(tensors[DISPLACEMENT]), alpha=pending.step)
            elif self.average:
                goal = evaluated[parameter].lerp(local(tensors[ITERATE]), 1.0 - group["betas"][0])
            moved = moved or not _equal(here, goal)
            here.copy_(goal)
        return self._anywhere(moved)

    def _anywhere(self, here: bool) -> bool:
        """Return whether something is true of a shard in any process: shards may be empty, or rounded to be equal."""
        return self._context.ranks.any(here) if any(map(is_sharded, self._parameters())) else here

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_buckets": None}


def _equal(point: Tensor, other: Tensor) -> bool:
    """Return whether a parameter has the values of another tensor, rounded to its dtype."""
    return torch.equal(point, other.to(point.dtype))


def _own(value: Any) -> Any:
    """Return a tensor that is a small part of its memory as one with memory of its own, as checkpoints need."""
    if not isinstance(value, Tensor) or is_sharded(value):
        return value
    return value if value.untyped_storage().nbytes() == value.nbytes else value.clone()
