"""Convert a session to numbers, lists and strings, which `torch.load(weights_only=True)` accepts.

The optimizer saves the tensors (buffers of line and sensor, kept gradients) itself.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from gradline.codec import CodecError, Plain, count, number, pack_driver, unpack_driver
from gradline.driver import Driver
from gradline.protocol import candidates
from gradline.torch.direction import Update
from gradline.torch.session import Session, Standing

SEARCH = "line_search"
"""Key of a state_dict's first parameter group: the packed search."""


@dataclasses.dataclass(frozen=True)
class Saved:
    """A saved session. `kept` has norm, slope and scalars of each probe whose gradient was kept."""

    driver: Driver
    standing: Standing
    sensor: Any
    kept: dict[int, tuple[float, float, tuple[float, ...]]]


def pack(session: Session, driver: Driver | None = None) -> dict[str, Plain]:
    """Return everything in a session except its tensors, optionally with another driver."""
    driver = driver or session.driver
    packed = {
        "direction": _direction_name(session),
        "driver": pack_driver(driver),
        "sensor": session.sensor.state(),
        "standing": session.standing.name,
        "kept": [[probe, kept.norm, kept.slope, list(kept.scalars)] for probe, kept in session.kept.items()],
    }
    return with_fields(packed, driver)


def read(state_dict: Any) -> dict[str, Plain]:
    """Return the packed search of a state_dict."""
    groups = state_dict.get("param_groups") if isinstance(state_dict, dict) else None
    first = groups[0] if isinstance(groups, list) and groups else None
    saved = first.get(SEARCH) if isinstance(first, dict) else None
    if saved is None or (isinstance(saved, str) and not saved.startswith("{")):
        raise ValueError("state_dict must be one of a gradline optimizer (it has no line search in it)")
    try:
        packed = json.loads(saved) if isinstance(saved, str) else saved
    except (ValueError, RecursionError) as error:
        raise damaged(error) from error
    if not isinstance(packed, dict):
        raise damaged(f"its line search is a {type(packed).__name__}")
    return packed


def damaged(defect: object) -> ValueError:
    """Return the error for a damaged state_dict."""
    told = f"{type(defect).__name__}: {defect}" if isinstance(defect, Exception) else str(defect)
    return ValueError(
        f"state_dict must be as it was saved (training goes on exactly from it), got a damaged one: {told}"
    )


def unpack(session: Session, packed: dict[str, Plain]) -> Saved:
    """Invert `pack`, for equal search and direction classes; raise an error if it does not fit, change nothing."""
    _check_kind(session, packed)
    try:
        driver = unpack_driver(session.driver.search, packed["driver"])
    except CodecError as error:
        raise damaged(str(error)) from error
    try:
        standing = Standing[packed["standing"]]
        sensor = session.sensor.check_state(packed["sensor"])
        kept = {
            count(probe): (number(norm), number(slope), tuple(map(number, scalars)))
            for probe, norm, slope, scalars in packed["kept"]
        }
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise damaged(error) from error
    saved = Saved(driver, standing, sensor, kept)
    _check_pending(saved)
    return saved


def with_fields(packed: dict[str, Plain], driver: Driver) -> dict[str, Plain]:
    """Return a packed optimizer with the names of all its fields, which are the version of the format."""
    parts = {**packed, "memory": dict.fromkeys(getattr(driver.search.start(), "_fields", ()))}
    names = [*packed, *(f"{part}.{name}" for part, held in parts.items() if isinstance(held, dict) for name in held)]
    return {**packed, "fields": sorted(names)}


def check_fields(packed: dict[str, Plain], present: dict[str, Plain] | None = None) -> None:
    """Check that a packed optimizer names its fields, and that they are those of the `present` one, if given."""
    told = packed.get("fields")
    found = set(told) if isinstance(told, list) and all(isinstance(name, str) for name in told) else None
    expected = found if present is None else set(present["fields"])
    if found is None or found != expected:
        lists = {"without": (expected or set()) - (found or set()), "with": (found or set()) - (expected or set())}
        told = " and ".join(f"{how} {', '.join(sorted(names))}" for how, names in lists.items() if names)
        raise ValueError(
            f"state_dict must be one with the fields that this gradline reads (training goes on from them), got one "
            f"{told or 'that does not name them'}: it was saved by another version; the model's own state_dict can be "
            f"loaded, and training begins anew from it"
        )


def _check_kind(session: Session, packed: dict[str, Plain]) -> None:
    check_fields(packed)
    driver = packed.get("driver")
    if not isinstance(driver, dict):
        raise damaged("it has no driver")
    name = type(session.driver.search).__name__
    for kind, part, mine, found in (
        ("search", "another one's memory", name, driver.get("search")),
        ("direction", "another's state", _direction_name(session), packed.get("direction")),
    ):
        if found != mine:
            raise ValueError(f"state_dict must be of the {kind} {mine} ({part} means something else), got {found}")
    check_fields(packed, pack(session, Driver(session.driver.search)))


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


def _direction_name(session: Session) -> str:
    direction = session.direction
    return type(direction.base if isinstance(direction, Update) else direction).__name__
