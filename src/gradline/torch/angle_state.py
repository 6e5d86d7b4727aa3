"""The state of `Angle`: its tensors and numbers, the average, saving and loading."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from gradline.codec import CodecError, Plain, count, number, pack_driver, unpack_driver
from gradline.driver import Driver
from gradline.searches import Angle as AngleSearch
from gradline.searches.angle import AngleMemory
from gradline.torch.base import GradlineOptimizer
from gradline.torch.buckets import AVERAGE, ORIGIN, Bucket
from gradline.torch.checkpoint import VERSION, check_version, damaged, read
from gradline.torch.context import ModuleContext
from gradline.torch.direction import own_attributes
from gradline.torch.distributed.sharded import local, whole
from gradline.torch.measuring import LocalReduce
from gradline.torch.outliers import OutlierGuard

__all__ = ["RULE", "AngleState", "Phase"]

RULE = "line_search"
POINT, STATISTICS = "point", "statistics_"


class Phase(Enum):
    """What the next gradient is used for; the table at the head of this file says how."""

    START = "to begin the first search"
    FIRST = "for the first search"
    STEPS = "to take a step"


class AngleState(GradlineOptimizer):
    """Torch optimizer with the state of `Angle`."""

    average: bool
    """Whether `eval()` uses an average of the points."""
    _driver: Driver
    _phase: Phase
    _evaluating: bool
    _guard: OutlierGuard
    _failures: int  # evaluations in a row that were not finite
    _averaged: int  # points in the average
    _heading: tuple[float, float]  # g·w and ‖g‖‖w‖ at the last step
    _before: AngleMemory  # memory before the last step
    _buckets: list[Bucket] | None
    _others: list[Tensor]  # parameters without a gradient
    _idle: list[list[Tensor]]  # those of them that have moved before, and their averages
    _statistics: list[Tensor]  # averages of running statistics; in eval() those of training
    _context: ModuleContext
    _ranks: LocalReduce
    _process_group: Any
    _unsettled: bool  # a state was loaded, and no step taken since

    @property
    def search(self) -> AngleSearch:
        """The rule that finds the step sizes, with its settings."""
        return self._driver.search  # type: ignore[return-value]

    def _known(self) -> list[Tensor]:
        return [parameter for parameter in self._parameters() if ORIGIN in self.state.get(parameter, {})]

    def _conform(self) -> None:
        """Convert all tensors to the parameters' current dtype and device, which `model.double()` changes."""
        for parameter in self._known():
            held = self.state[parameter]
            part = local(parameter)
            for name, value in held.items():
                if name != "step" and (value.dtype, value.device) != (parameter.dtype, parameter.device):
                    if value.shape != parameter.shape:
                        continue
                    held[name] = whole(local(value).to(part.device, part.dtype), parameter)
                    self._buckets = None

    def _average_statistics(self, weight: float) -> None:
        """Add the running statistics of BatchNorm and others to their average."""
        buffers = self._context.statistics.buffers()
        if len(self._statistics) != len(buffers):
            self._statistics = [buffer.clone() for buffer in buffers]
        for average, buffer in zip(self._statistics, buffers, strict=True):
            if buffer.is_floating_point():
                average.lerp_(buffer, weight)
            else:
                average.copy_(buffer)

    def _swap(self) -> None:
        """Exchange the parameters with the average, or with the accepted point, and likewise running statistics."""
        if self._phase is Phase.START:
            return
        self._conform()
        name = AVERAGE if self.average else ORIGIN
        for parameter in self._known():
            part, other = local(parameter), local(self.state[parameter][name])
            now = part.clone()
            part.copy_(other)
            other.copy_(now)
        if self._statistics:
            now_there = [buffer.clone() for buffer in self._context.statistics.buffers()]
            self._context.statistics.put(self._statistics)
            self._statistics = now_there
        self._ranks.moved()

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, so that training can resume bit for bit.

        It consists of tensors, numbers, strings, lists and dicts, so that `torch.load(weights_only=True)` can read it.
        It may be saved inside or outside `eval()`, independently of the model.
        """
        self._refuse_in_closure("state_dict()")
        packed: dict[str, Any] = super().state_dict()
        state = {place: dict(held) for place, held in packed["state"].items()}
        places = {id(parameter): place for place, parameter in enumerate(self._parameters())}
        known = self._known()
        swapped = self._evaluating and self._phase is not Phase.START
        if swapped:
            name = AVERAGE if self.average else ORIGIN
            for parameter in known:
                held = state[places[id(parameter)]]
                held[POINT], held[name] = held[name], parameter.detach().clone()
        if self._statistics and known:
            averages = self._context.statistics.buffers() if swapped else self._statistics
            held = state[places[id(known[0])]]
            for index, average in enumerate(averages):
                held[f"{STATISTICS}{index}"] = average.clone()
            if swapped:
                for index, buffer in enumerate(self._statistics):
                    held[f"{POINT}_{STATISTICS}{index}"] = buffer.clone()
        first, *others = packed["param_groups"]
        return {**packed, "state": state, "param_groups": [{**first, RULE: json.dumps(self._packed())}, *others]}

    def _packed(self) -> dict[str, Plain]:
        return {
            "version": VERSION,
            "direction": "Angle",
            "driver": pack_driver(self._driver),
            "phase": self._phase.name,
            "guard": list(self._guard),
            "failures": self._failures,
            "averaged": self._averaged,
            "heading": list(self._heading),
            "before": list(self._before),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a result of `state_dict()`. An unsuitable one raises an error and changes nothing."""
        self._refuse_in_closure("load_state_dict()")
        try:
            packed = read(state_dict["param_groups"][0].get(RULE))
            check_version(packed)
            if packed.get("direction") != "Angle":
                raise ValueError("state_dict must be one of gradline.Angle (another optimizer's means something else)")
            driver = unpack_driver(self.search, packed["driver"])
            loaded = {
                "_driver": driver,
                "_phase": Phase[packed["phase"]],
                "_guard": OutlierGuard(number(packed["guard"][0]), count(packed["guard"][1])),
                "_failures": count(packed["failures"]),
                "_averaged": count(packed["averaged"]),
                "_heading": tuple(map(number, packed["heading"])),
                "_before": AngleMemory(*packed["before"]),
            }
            self._check_tensors(state_dict)
        except CodecError as error:
            raise damaged(str(error)) from error
        except (LookupError, TypeError, AttributeError) as error:
            raise damaged(error) from error
        before = dict(vars(self))
        try:
            super().load_state_dict(state_dict)
            vars(self).update(loaded)
            self._evaluating = False
            self._buckets = None
            self._statistics = []
            self._unsettled = True
            self.param_groups[0][RULE] = repr(self.search)
            self._restore()
            self._context.listen()  # the model may have been loaded too, with other running statistics
            self._show(driver.memory.step if self._phase is Phase.STEPS else 0.0)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _check_tensors(self, state_dict: dict[str, Any]) -> None:
        """Check that the saved tensors have the shapes of the parameters."""
        places = [place for group in state_dict["param_groups"] for place in group["params"]]
        parameters = self._parameters()
        if len(places) != len(parameters):
            return  # torch raises an error
        for place, parameter in zip(places, parameters, strict=True):
            for name, value in state_dict["state"].get(place, {}).items():
                if name != "step" and STATISTICS not in name and value.shape != parameter.shape:
                    raise ValueError(
                        f"state_dict must be of parameters of the same shapes (training goes on from their moments), "
                        f"but parameter {place} has {tuple(parameter.shape)} and its saved {name} {tuple(value.shape)}"
                    )

    @torch.no_grad()
    def _restore(self) -> None:
        """Set the parameters to the point of training, if the state was saved in `eval()`."""
        for parameter, held in self.state.items():
            if POINT in held:
                local(parameter).copy_(local(held.pop(POINT)))
        for held in self.state.values():
            names = sorted((n for n in held if n.startswith(STATISTICS)), key=lambda n: int(n.removeprefix(STATISTICS)))
            self._statistics += [held.pop(name) for name in names]

    def _settle(self) -> bool:
        """After loading: return False if the parameters are not those of training, and go back to the accepted point.

        They are not where the model was loaded from a file that was saved in `eval()` and the optimizer's was not.
        """
        self._unsettled = False
        known = self._known()
        if not self.average or self._averaged < 2:
            return True
        if not all(torch.equal(local(p), local(self.state[p][AVERAGE])) for p in known):
            return True
        for parameter in known:
            local(parameter).copy_(local(self.state[parameter][ORIGIN]))
        return False

    def __getstate__(self) -> dict[str, Any]:
        # torch's own method omits everything but state and groups.
        self._refuse_in_closure("copying it")
        return {
            **own_attributes(self),
            "_process_group": None,
            "_ranks": LocalReduce(),
            "_buckets": None,
            "_others": [],
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> AngleState:
        # A copy keeps the process group; a pickle may be read in another process.
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._process_group = self._process_group
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_optimizer_search_hooks" not in self.__dict__:
            self._optimizer_search_hooks = OrderedDict()
        if "_driver" in state:  # a copy of the whole optimizer, not a state_dict
            self._context.listen()
