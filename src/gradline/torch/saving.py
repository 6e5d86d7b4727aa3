"""A search's state as plain numbers, lists and strings: what `torch.load(weights_only=True)` lets through.

The tensors that belong to it (the line's buffers, gradients kept for later) are the optimizer's to save.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection
from typing import Any, TypeAlias, cast

from gradline.protocol import (
    Course,
    Moments,
    Origin,
    Outcome,
    Pending,
    Record,
    Search,
    Slope,
    Stop,
    Transcript,
    Value,
    candidates,
    observes,
)
from gradline.torch.descent import Descent
from gradline.torch.direction import Update
from gradline.torch.usual import Usual

Plain: TypeAlias = Any
"""`None`, numbers, strings, and lists and string-keyed dicts of them."""

VERSION = 2
"""What this gradline writes. Version 1 had the same as a dict, which is read too."""


@dataclasses.dataclass(frozen=True)
class Saved:
    """A conversation as it was saved. `kept` has norm, slope and value of each probe whose gradient was kept."""

    memory: Any
    pending: Pending[Any, Any] | None
    last: Record[Any, Any] | None
    evaluations: int
    iterations: int
    taken: int
    usual: Usual
    probing: bool
    kept: dict[int, tuple[float, float, float | None]]


def pack(descent: Descent) -> dict[str, Plain]:
    """Everything about the conversation but its tensors."""
    pending, last = descent.pending, descent.last
    return {
        "version": VERSION,
        "search": type(descent.search).__name__,
        "settings": _pack_settings(descent.search),
        "direction": _direction_name(descent),
        "memory": pack_memory(descent.memory),
        "evaluations": descent.evaluations,
        "iterations": descent.iterations,
        "taken": descent.taken,
        "usual": [descent.usual.length, descent.usual.seen],
        "probing": descent.probing,
        "pending": None if pending is None else pack_pending(pending),
        "last": None
        if last is None
        else [
            _pack_origin(last.origin),
            pack_memory(last.memory),
            _pack_outcome(last.outcome),
            _pack_transcript(last.transcript),
        ],
        "kept": [[probe, kept.norm, kept.slope, kept.value] for probe, kept in descent.kept.items()],
    }


def read(saved: Plain) -> dict[str, Plain]:
    """What a state_dict has to tell of a search."""
    if saved is None or (isinstance(saved, str) and not saved.startswith("{")):
        raise ValueError("state_dict must be one of a gradline optimizer (it has no line search in it)")
    try:
        packed = json.loads(saved) if isinstance(saved, str) else saved
    except ValueError as error:
        raise damaged(error) from error
    if not isinstance(packed, dict):
        raise damaged(f"its line search is a {type(packed).__name__}")
    return packed


def damaged(defect: object) -> ValueError:
    """The error for a state that no optimizer can have saved so."""
    told = f"{type(defect).__name__}: {defect}" if isinstance(defect, Exception) else str(defect)
    return ValueError(
        f"state_dict must be as it was saved (training goes on exactly from it), got a damaged one: {told}"
    )


def unpack(descent: Descent, packed: dict[str, Plain]) -> Saved:
    """The inverse of `pack`, for the same kind of search and direction. Refuses what does not fit; changes nothing."""
    search = descent.search
    _check_kind(descent, packed)
    try:
        memory = unpack_memory(search, packed["memory"])
        under_way = None if packed["pending"] is None else _unpack_begun(search, packed["pending"])
        last = None if packed["last"] is None else _unpack_record(search, packed)
        evaluations, iterations = _count(packed["evaluations"]), _count(packed["iterations"])
        # States saved before this was counted lack it; Angle, which needs it, has the same count in its memory.
        taken = _count(packed.get("taken", getattr(memory, "taken", iterations)))
        usual = _unpack_usual(packed.get("usual", [0.0, 0]))
        probing = _flag(packed["probing"])
        kept = {
            _count(probe): (_number(norm), _number(slope), None if value is None else _number(value))
            for probe, norm, slope, value in packed["kept"]
        }
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise damaged(error) from error
    _check_memory(search, memory)
    pending = None if under_way is None else _resume(search, *under_way)
    _check_pending(search, pending, probing, kept)
    return Saved(memory, pending, last, evaluations, iterations, taken, usual, probing, kept)


def _check_kind(descent: Descent, packed: dict[str, Plain]) -> None:
    search = descent.search
    version = packed.get("version")
    if not isinstance(version, int):
        raise damaged(f"its version is {version!r}")
    if version not in (1, VERSION):
        raise ValueError(
            f"state_dict must be of version 1 or {VERSION} (what this gradline reads), got {version!r}: "
            f"it was saved by a newer one"
        )
    if packed.get("search") != type(search).__name__:
        raise ValueError(
            f"state_dict must be of the search {type(search).__name__} (another one's memory means something else), "
            f"got {packed.get('search')}"
        )
    if packed.get("direction") != _direction_name(descent):
        raise ValueError(
            f"state_dict must be of the direction {_direction_name(descent)} (another's state means something else), "
            f"got {packed.get('direction')}"
        )


def _resume(search: Search[Any, Any], origin: Origin[Any], memory: Any, told: Transcript[Any]) -> Pending[Any, Any]:
    _check_memory(search, memory)
    try:
        return Pending.replay(search, origin, memory, told)
    except TypeError as error:  # observations of another kind
        raise damaged(error) from error


def _check_pending(
    search: Search[Any, Any], pending: Pending[Any, Any] | None, probing: bool, kept: Collection[int]
) -> None:
    """A search under way waits for a probe, and has the gradients of those that it may yet accept."""
    if pending is None:
        if probing or kept:
            raise damaged("there is a probe, but no search")
        return
    if pending.outcome is not None:
        raise damaged("the search under way has ended")
    if hasattr(search, "candidates") and pending.transcript:
        gone = set(candidates(search, pending.transcript)) - set(kept)
        if gone:
            raise damaged(f"nothing was kept of the probes {sorted(gone)}")


def _check_memory(search: Search[Any, Any], memory: Any) -> None:
    """A search is pure, so that trying its memory costs nothing; with a bad one every later step would fail."""
    known = (Slope(-1.0), Value(-1.0, 0.0), Course(-1.0, -1.0, 1.0), Moments(-1.0, 0.0, 1.0, 1.0))
    try:
        seen = next(one for one in known if isinstance(one, observes(search)))
        Pending(search, Origin(seen, 1.0), memory)
    except Exception as error:
        raise damaged(f"{type(search).__name__} cannot begin from the memory {memory!r} ({error})") from error


def _number(packed: Plain) -> float:
    if isinstance(packed, bool) or not isinstance(packed, float | int):
        raise TypeError(f"{packed!r} is not a number")
    return packed


def _count(packed: Plain) -> int:
    if isinstance(packed, bool) or not isinstance(packed, int) or packed < 0:
        raise TypeError(f"{packed!r} is not a count")
    return packed


def _unpack_usual(packed: Plain) -> Usual:
    length, seen = packed
    if not 0.0 <= _number(length) < math.inf:
        raise ValueError(f"{length!r} is not a length")
    return Usual(length, _count(seen))


def _flag(packed: Plain) -> bool:
    if not isinstance(packed, bool):
        raise TypeError(f"{packed!r} is neither true nor false")
    return packed


def _pack_settings(search: Search[Any, Any]) -> Plain:
    """A search's own settings, where it is a dataclass of plain values: they belong to what it did."""
    if not dataclasses.is_dataclass(type(search)):
        return None
    fields = dataclasses.fields(cast(Any, search))
    settings = {field.name: getattr(search, field.name) for field in fields if field.init}
    plain = all(value is None or type(value) in (bool, int, float, str) for value in settings.values())
    return settings if plain else None


def _with_settings(search: Search[Any, Any], packed: Plain) -> Search[Any, Any]:
    if packed is None or packed == _pack_settings(search):
        return search
    return type(search)(**packed)


def _direction_name(descent: Descent) -> str:
    direction = descent.direction
    return type(direction.base if isinstance(direction, Update) else direction).__name__


def pack_memory(memory: Any) -> Plain:
    """A search's memory: a number, `None`, or a (named) tuple of such."""
    if memory is None:
        return None
    for plain in (bool, int, float, str):
        if isinstance(memory, plain):
            return plain(memory)  # a subclass, such as NumPy's, is not plain
    if isinstance(memory, tuple):
        return [pack_memory(part) for part in memory]
    raise TypeError(
        f"a search's memory must be made of numbers, strings, None and tuples of them (the optimizer saves it), "
        f"got {memory!r}"
    )


def unpack_memory(search: Search[Any, Any], packed: Plain) -> Any:
    """The inverse of `pack_memory`; `search.start()` tells which tuples have names."""
    return _like(search.start(), packed)


def _like(template: Any, packed: Plain) -> Any:
    if not isinstance(template, tuple):
        return packed
    parts = [_like(part, value) for part, value in zip(template, packed, strict=True)]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def pack_pending(pending: Pending[Any, Any]) -> Plain:
    """A search under way: from where, with what memory, and what it was told."""
    return [_pack_origin(pending.origin), pack_memory(pending.memory), _pack_transcript(pending.transcript)]


def unpack_pending(search: Search[Any, Any], packed: Plain) -> Pending[Any, Any]:
    """The inverse of `pack_pending`."""
    return Pending.replay(search, *_unpack_begun(search, packed))


def _unpack_begun(search: Search[Any, Any], packed: Plain) -> tuple[Origin[Any], Any, Transcript[Any]]:
    origin, memory, transcript = packed
    return _unpack_origin(origin), unpack_memory(search, memory), _unpack_transcript(transcript)


def _unpack_record(search: Search[Any, Any], packed: dict[str, Plain]) -> Record[Any, Any]:
    origin, before, (step, probe, stop, memory), transcript = packed["last"]
    return Record(
        _with_settings(search, packed["settings"]),
        _unpack_origin(origin),
        unpack_memory(search, before),
        Outcome(_number(step), None if probe is None else _count(probe), Stop[stop], unpack_memory(search, memory)),
        _unpack_transcript(transcript),
    )


def _pack_origin(origin: Origin[Any]) -> Plain:
    return [list(dataclasses.astuple(origin.at_zero)), origin.norm]


def _unpack_origin(packed: Plain) -> Origin[Any]:
    at_zero, norm = packed
    return Origin(_unpack_seen(at_zero), _number(norm))


def _pack_outcome(outcome: Outcome[Any]) -> Plain:
    return [outcome.step, outcome.probe, outcome.stop.name, pack_memory(outcome.memory)]


def _pack_transcript(transcript: Transcript[Any]) -> Plain:
    return [[step, list(dataclasses.astuple(seen))] for step, seen in transcript]


def _unpack_transcript(packed: Plain) -> Transcript[Any]:
    return [(_number(step), _unpack_seen(seen)) for step, seen in packed]


def _unpack_seen(packed: Plain) -> Slope:
    kinds: dict[int, type[Slope]] = {1: Slope, 2: Value, 3: Course, 4: Moments}
    return kinds[len(packed)](*map(_number, packed))
