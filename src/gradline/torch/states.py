"""Save, load and copy the state of a line-search optimizer, including a search in progress.

Loading an unsuitable state raises an error before anything is changed; a later failure is undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradline.codec import Plain, count, number, pack_driver, unpack_driver
from gradline.driver import Driver
from gradline.protocol import candidates
from gradline.torch.base import GradlineOptimizer
from gradline.torch.checkpoint import check_fields, damaged, reporting_damage, saved_tensors, with_fields, written
from gradline.torch.context import ModuleContext
from gradline.torch.direction import Update
from gradline.torch.displacement import Displacement
from gradline.torch.distributed.sharded import local, whole
from gradline.torch.line import Gradients, Line
from gradline.torch.sensors import Evaluation
from gradline.torch.session import Session, Standing

ORIGIN, DIRECTION, KEPT, BUFFER = "line_origin", "line_direction", "line_gradient_", "line_buffer_"


class Saved(NamedTuple):
    """A saved session."""

    driver: Driver
    standing: Standing
    sensor: Plain
    kept: dict[int, tuple[float, float, list[float]]]
    """Norm, slope and scalars of each probe whose gradient was kept."""
    other_types: Collection[str]
    """Names of tensors of another dtype than their parameter."""


class SavedOptimizer(GradlineOptimizer):
    """Torch optimizer around a `Session`, whose buffers are part of the parameters' state."""

    _session: Session
    _held: Line | None  # the line whose buffers are in self.state
    _versions: list[int] | None  # of the parameters, when they were last moved

    # These are attributes in the base class, which mypy lets no property replace. Here the session has them, and no
    # code sets them: a second reference would be stale after loading, which gives the session another driver.

    @property
    def _driver(self) -> Driver:  # type: ignore[override]
        return self._session.driver

    @property
    def _context(self) -> ModuleContext:  # type: ignore[override]
        return self._session.context

    @property
    def _base(self) -> Optimizer | None:
        """The optimizer whose update is the direction."""
        direction = self._session.direction
        return direction.base if isinstance(direction, Update) else None

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, including a search in progress, so that training can resume bit for bit.

        It consists of tensors, numbers, strings, lists and dicts, so that `torch.load(weights_only=True)` can read it.
        Save model and optimizer at the same moment, both inside or both outside `eval()`.
        """
        self._refuse_in_closure("state_dict()")
        packed: dict[str, Any] = super().state_dict()
        places = {id(p): place for place, p in enumerate(self._parameters())}
        state = {place: dict(held) for place, held in packed["state"].items()}
        for probe, kept in self._session.kept.items():
            for parameter, gradient in zip(*kept.gradients, strict=True):
                state.setdefault(places[id(parameter)], {})[f"{KEPT}{probe}"] = whole(gradient, parameter)
        tensors = Counter(name for held in state.values() for name in held if _is_ours(name))
        parameters = dict(enumerate(self._parameters()))
        other_types = {
            name
            for place, held in state.items()
            for name, value in held.items()
            if isinstance(value, Tensor) and value.is_floating_point() and value.dtype != parameters[place].dtype
        }
        search = {**self._pack(self._driver), "tensors": tensors, "other_types": sorted(map(str, other_types))}
        return written(packed, state, search)

    def _pack(self, driver: Driver) -> dict[str, Plain]:
        """Return everything in the session except its tensors, with this driver."""
        session = self._session
        packed = {
            "direction": self._direction_name,
            "driver": pack_driver(driver),
            "sensor": session.sensor.state(),
            "standing": session.standing.name,
            "kept": [[probe, kept.norm, kept.slope, list(kept.scalars)] for probe, kept in session.kept.items()],
        }
        return with_fields(packed, driver)

    @property
    def _direction_name(self) -> str:
        return type(self._base or self._session.direction).__name__

    def _unpack(self, state_dict: dict[str, Any], packed: dict[str, Plain]) -> Saved:
        self._check_kind(packed)
        driver = unpack_driver(self.search, packed["driver"])
        with reporting_damage(ValueError):
            standing = Standing[packed["standing"]]
            kept = {
                count(probe): (number(norm), number(slope), list(map(number, scalars)))
                for probe, norm, slope, scalars in packed["kept"]
            }
        saved = Saved(driver, standing, packed["sensor"], kept, packed.get("other_types", ()))
        _check_pending(saved)
        self._check_tensors(state_dict, packed, saved)
        return saved

    def _check_kind(self, packed: dict[str, Plain]) -> None:
        """Check that search and direction are of the same classes."""
        driver = packed.get("driver")
        if not isinstance(driver, dict):
            raise damaged("it has no driver")
        for kind, part, mine, found in (
            ("search", "another one's memory", type(self.search).__name__, driver.get("search")),
            ("direction", "another's state", self._direction_name, packed.get("direction")),
        ):
            if found != mine:
                raise ValueError(f"state_dict must be of the {kind} {mine} ({part} means something else), got {found}")
        check_fields(packed, self._pack(Driver(self.search)))

    def _conform(self) -> None:
        """Convert all state to the parameters' current dtype and device, which `model.double()` changes."""
        line = self._session.line
        if line is not None and not line.conforms():
            self._convert(line)

    @torch.no_grad()
    def _convert(self, line: Line) -> None:
        session, conforming = self._session, line.converted()
        standing, pending = session.standing, session.driver.pending
        at_probe = standing is Standing.PROBE and pending is not None and line.is_at(pending.step)
        types = {origin.dtype for origin in line.origins}
        for parameter in self._parameters():
            held = self.state.get(parameter, {})
            for name, value in held.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape and value.dtype in types:
                    held[name] = value if name == "step" else value.to(parameter.device, parameter.dtype)
        for buffer in session.sensor.buffers.values():
            buffer.conform()
        for probed, kept in session.kept.items():
            parts = zip(*kept.gradients, strict=True)
            gradients = Gradients(kept.gradients.parameters, [part.to(local(parameter)) for parameter, part in parts])
            session.kept[probed] = replace(kept, gradients=gradients)
        session.line = conforming
        self._hold_buffers()
        if at_probe:
            session.to_probe()
            self._versions = conforming.versions()
        elif standing is Standing.PROBE:
            session.abandon()  # their values were changed too

    def _loaded(self) -> list[object]:
        return [self, self._session, self._session.sensor, *([] if self._base is None else [self._base])]

    def _check_tensors(self, state_dict: dict[str, Any], packed: dict[str, Any], saved: Saved) -> None:
        """Check that the saved tensors are complete and have the shapes of the parameters."""
        tensors = saved_tensors(state_dict, self._parameters(), _is_ours)
        found = Counter(name for held in tensors for name in held if _is_ours(name))
        needed = Counter({f"{KEPT}{probe}": 1 for probe in saved.kept})
        if saved.driver.pending is not None:
            needed[DIRECTION] = 1
        needed |= Counter(packed.get("tensors", {}))
        needed[ORIGIN] = found[DIRECTION]
        for name, least in needed.items():
            if found[name] < least:
                raise damaged(f"{name} is there for {found[name]} parameters, and must be for {least}")

    def _restore(self, state_dict: dict[str, Any], saved: Saved) -> None:
        session = self._session
        self._keep_types(state_dict, saved.other_types)
        session.driver, session.standing = saved.driver, saved.standing
        with reporting_damage(ValueError):
            session.sensor.load_state(saved.sensor)
        (moving, directions), (_, origins) = self._taken(DIRECTION), self._taken(ORIGIN)
        session.line = None
        if moving:
            away = saved.standing is Standing.PROBE
            session.line = Line.restored(moving, origins, directions, away=away, ranks=session.context.ranks)
        session.sensor.buffers = {
            name: Displacement(*self._taken(BUFFER + name).cloned()) for name in session.sensor.buffers
        }
        session.kept = {
            probe: Evaluation(self._taken(f"{KEPT}{probe}").cloned(), *numbers) for probe, numbers in saved.kept.items()
        }
        for parameter in [p for p, held in self.state.items() if not held]:
            del self.state[parameter]  # optimizers initialise their state only if it is empty
        if self._base is not None:
            self._base.__setstate__({"state": self.state, "param_groups": self.param_groups})
        self._versions = None  # the model may be loaded next
        self._hold_buffers()

    def _taken(self, name: str) -> Gradients:
        """Remove a tensor from the state of all parameters that have it; return both (of gradients or others)."""
        held = [p for p in self._parameters() if name in self.state.get(p, {})]
        return Gradients(held, [local(self.state[p].pop(name)) for p in held])

    def _hold_buffers(self) -> None:
        """Put the buffers of line and sensor into the parameters' state, from which torch's checkpoints are made.

        Not before the first direction: optimizers initialise their state only if it is empty.
        """
        line = self._session.line
        if line is None or line is self._held or not line.aimed:
            return
        for parameter in self._parameters():  # a copy has buffers of the original's line
            held = self.state.get(parameter, {})
            for name in [name for name in held if _is_ours(name)]:
                del held[name]
        for parameter, origin, direction in zip(line.parameters, line.origins, line.directions, strict=True):
            self.state[parameter].update({ORIGIN: whole(origin, parameter), DIRECTION: whole(direction, parameter)})
        for name, buffer in self._session.sensor.buffers.items():
            for parameter, part in zip(buffer.parameters, buffer.parts, strict=True):
                self.state[parameter][BUFFER + name] = whole(part, parameter)
        self._held = line

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_session" in state:  # a copy of the whole optimizer, not a state_dict
            self._held = None
            self._versions = None
            self._hold_buffers()

    def _show_step(self) -> None:
        last = self._session.driver.state.last
        self._show(0.0 if last is None else last.step)


def _is_ours(name: Any) -> bool:
    return name in (ORIGIN, DIRECTION) or str(name).startswith((KEPT, BUFFER))


def _check_pending(saved: Saved) -> None:
    """Check that a search in progress waits for a probe and that the gradients of its candidates were kept."""
    pending = saved.driver.pending
    if pending is None:
        if saved.standing.probing or saved.kept:
            raise damaged("there is a probe, but no search")
        return
    if pending.outcome is not None:
        raise damaged("the search under way has ended")
    if hasattr(pending.search, "candidates") and pending.transcript:
        gone = set(candidates(pending.search, pending.transcript)) - set(saved.kept)
        if gone:
            raise damaged(f"nothing was kept of the probes {sorted(gone)}")
