"""Convert drivers, memories and observations to plain JSON values, and back.

Plain values are numbers, strings, `None`, and lists and string-keyed dicts of them: `torch.load(weights_only=True)`
accepts them and JSON stores them exactly. Nothing in a packed value is imported or called: the search that reads it
defines the types (`observes`, `observes_at_probes`, `start()`), and names are compared.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias, cast, get_type_hints

from gradline.driver import Driver, State
from gradline.protocol import (
    Origin,
    Outcome,
    Pending,
    Record,
    Search,
    Slope,
    Stop,
    Transcript,
    observes,
    observes_at_probes,
)

__all__ = ["CodecError", "Plain", "count", "number", "pack_driver", "pack_memory", "unpack_driver", "unpack_memory"]

Plain: TypeAlias = Any
"""`None`, numbers, strings, and lists and string-keyed dicts of them."""

_COUNTERS = [name for name, kind in get_type_hints(State).items() if kind is int]


def pack_driver(driver: Driver) -> dict[str, Plain]:
    """Convert the state of a driver to plain values."""
    state = driver.state
    return {
        "search": type(driver.search).__name__,
        "settings": pack_settings(driver.search),
        "memory": pack_memory(state.memory),
        "pending": None if state.pending is None else _pack_begun(state.pending),
        "last": None if state.last is None else _pack_record(state.last),
        "evaluations": driver.evaluations,
        **{name: getattr(state, name) for name in _COUNTERS},
    }


class CodecError(ValueError):
    """A packed value is not one that this module packed."""


def unpack_driver(search: Search[Any, Any], packed: dict[str, Plain]) -> Driver:
    """Create the driver of a search from the values of `pack_driver`.

    Raises `CodecError` if they are not valid for this search, and `ValueError` if a search in progress had other
    settings.
    """
    try:
        if packed["search"] != type(search).__name__:
            raise ValueError(f"it belongs to the search {packed['search']}")
        driver = Driver(search, memory=unpack_memory(search, packed["memory"]))
        begun = None if packed["pending"] is None else _unpack_begun(search, packed["pending"])
        last = None if packed["last"] is None else _unpack_record(search, packed)
        counters = {name: count(packed[name]) for name in _COUNTERS}
        driver.evaluations = count(packed["evaluations"])
        _check_memory(search, driver.memory)
        if begun is not None:
            _check_memory(search, begun[1])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"{type(error).__name__}: {error}") from error
    pending = None if begun is None else Pending.replay(search, *begun)
    driver.state = State(driver.memory, pending, last, **counters)
    return driver


def pack_settings(search: Search[Any, Any]) -> Plain:
    """Return the fields of a search as a dict, or `None` if it is not a dataclass of plain values."""
    if not dataclasses.is_dataclass(type(search)):
        return None
    fields = dataclasses.fields(cast(Any, search))
    settings = {field.name: getattr(search, field.name) for field in fields if field.init}
    plain = all(value is None or type(value) in (bool, int, float, str) for value in settings.values())
    return settings if plain else None


def pack_memory(memory: Any) -> Plain:
    """Convert the memory of a search: a number, a string, `None`, or a (named) tuple of these."""
    if memory is None:
        return None
    for plain in (bool, int, float, str):
        if isinstance(memory, plain):
            return plain(memory)  # converts subclasses, such as NumPy's
    if isinstance(memory, tuple):
        return [pack_memory(part) for part in memory]
    raise TypeError(
        f"a search's memory must be made of numbers, strings, None and tuples of them (the optimizer saves it), "
        f"got {memory!r}"
    )


def unpack_memory(search: Search[Any, Any], packed: Plain) -> Any:
    """Return the memory of `pack_memory`, with the named tuples of `search.start()`."""
    return _like(search.start(), packed)


def number(packed: Plain) -> float:
    """Return a number, or raise a `TypeError`."""
    if isinstance(packed, bool) or not isinstance(packed, float | int):
        raise TypeError(f"{packed!r} is not a number")
    return packed


def count(packed: Plain) -> int:
    """Return an integer of 0 or more, or raise a `TypeError`."""
    if isinstance(packed, bool) or not isinstance(packed, int) or packed < 0:
        raise TypeError(f"{packed!r} is not a count")
    return packed


def _check_memory(search: Search[Any, Any], memory: Any) -> None:
    """Begin a search with a memory, and raise a `ValueError` if that fails; otherwise every later step would fail."""
    kind = observes(search)
    numbers = {field.name: 1.0 for field in dataclasses.fields(kind)}
    try:
        Pending(search, Origin(kind(**(numbers | {"slope": -1.0})), 1.0), memory)
    except Exception as error:
        raise ValueError(f"{type(search).__name__} cannot begin from the memory {memory!r} ({error})") from error


def _like(template: Any, packed: Plain) -> Any:
    if not isinstance(template, tuple):
        return packed
    parts = [_like(part, value) for part, value in zip(template, packed, strict=True)]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def _pack_seen(seen: Slope) -> Plain:
    return [type(seen).__name__, *dataclasses.astuple(seen)]


def _unpack_seen(packed: Plain, kind: type[Slope]) -> Slope:
    name, *numbers = packed
    if name != kind.__name__:
        raise ValueError(f"it has a {name} where the search needs a {kind.__name__}")
    return kind(*map(number, numbers))


def _pack_begun(begun: Pending[Any, Any] | Record[Any, Any]) -> list[Plain]:
    """Pack what a search, in progress or ended, began from and has seen."""
    transcript = [[step, _pack_seen(seen)] for step, seen in begun.transcript]
    return [[_pack_seen(begun.origin.at_zero), begun.origin.norm], pack_memory(begun.memory), transcript]


def _unpack_begun(search: Search[Any, Any], packed: Plain) -> tuple[Origin[Any], Any, Transcript[Any]]:
    (at_zero, norm), memory, transcript = packed
    kind = observes_at_probes(search)
    origin = Origin(_unpack_seen(at_zero, observes(search)), number(norm))
    seen = [(number(step), _unpack_seen(seen, kind)) for step, seen in transcript]
    return origin, unpack_memory(search, memory), seen


def _pack_record(record: Record[Any, Any]) -> Plain:
    outcome = record.outcome
    origin, memory, transcript = _pack_begun(record)
    return [origin, memory, [outcome.step, outcome.probe, outcome.stop.name, pack_memory(outcome.memory)], transcript]


def _unpack_record(search: Search[Any, Any], packed: dict[str, Plain]) -> Record[Any, Any]:
    *begun, (step, probe, stop, memory), seen = packed["last"]
    settings = packed["settings"]
    outcome = Outcome(number(step), None if probe is None else count(probe), Stop[stop], unpack_memory(search, memory))
    origin, before, transcript = _unpack_begun(search, [*begun, seen])
    made_by = search if settings is None or settings == pack_settings(search) else type(search)(**settings)
    return Record(made_by, origin, before, outcome, transcript)
