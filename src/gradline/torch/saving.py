"""A search's state as plain numbers, lists and strings: what `torch.load(weights_only=True)` lets through.

The tensors that belong to it (the line's buffers, gradients kept for later) are the optimizer's to save.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypeAlias, cast

from gradline.protocol import Moments, Origin, Outcome, Pending, Record, Search, Slope, Stop, Transcript, Value
from gradline.torch.descent import Descent
from gradline.torch.direction import Update

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
    return cast("dict[str, Plain]", json.loads(saved) if isinstance(saved, str) else saved)


def unpack(descent: Descent, packed: dict[str, Plain]) -> Saved:
    """The inverse of `pack`, for the same kind of search and direction. Refuses what does not fit; changes nothing."""
    search = descent.search
    if packed["version"] not in (1, VERSION):
        raise ValueError(
            f"state_dict must be of version 1 or {VERSION} (what this gradline reads), got {packed['version']!r}: "
            f"it was saved by a newer one"
        )
    if packed["search"] != type(search).__name__:
        raise ValueError(
            f"state_dict must be of a {type(search).__name__} search (another one's memory means something else), "
            f"got {packed['search']}"
        )
    if packed["direction"] != _direction_name(descent):
        raise ValueError(
            f"state_dict must be of the direction {_direction_name(descent)} (another's state means something else), "
            f"got {packed['direction']}"
        )
    pending = None if packed["pending"] is None else unpack_pending(search, packed["pending"])
    last = None
    if packed["last"] is not None:
        origin, before, (step, probe, stop, memory), transcript = packed["last"]
        last = Record(
            _with_settings(search, packed["settings"]),
            _unpack_origin(origin),
            unpack_memory(search, before),
            Outcome(step, probe, Stop[stop], unpack_memory(search, memory)),
            _unpack_transcript(transcript),
        )
    return Saved(
        memory=unpack_memory(search, packed["memory"]),
        pending=pending,
        last=last,
        evaluations=packed["evaluations"],
        iterations=packed["iterations"],
        probing=packed["probing"],
        kept={probe: (norm, slope, value) for probe, norm, slope, value in packed["kept"]},
    )


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
    origin, memory, transcript = packed
    return Pending.replay(search, _unpack_origin(origin), unpack_memory(search, memory), _unpack_transcript(transcript))


def _pack_origin(origin: Origin[Any]) -> Plain:
    return [list(dataclasses.astuple(origin.at_zero)), origin.norm]


def _unpack_origin(packed: Plain) -> Origin[Any]:
    return Origin(_unpack_seen(packed[0]), packed[1])


def _pack_outcome(outcome: Outcome[Any]) -> Plain:
    return [outcome.step, outcome.probe, outcome.stop.name, pack_memory(outcome.memory)]


def _pack_transcript(transcript: Transcript[Any]) -> Plain:
    return [[step, list(dataclasses.astuple(seen))] for step, seen in transcript]


def _unpack_transcript(packed: Plain) -> Transcript[Any]:
    return [(step, _unpack_seen(seen)) for step, seen in packed]


def _unpack_seen(packed: Plain) -> Slope:
    kinds: dict[int, type[Slope]] = {1: Slope, 2: Value, 4: Moments}
    return kinds[len(packed)](*packed)
