"""The settings that determine an optimizer's steps, as strings for comparison between ranks.

Only settings with equal strings in every process are compared: numbers, strings, booleans, and tuples of these. Options
that choose between implementations of the same arithmetic (`foreach`, `fused`) may differ between ranks.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

_IMPLEMENTATION = ("capturable", "differentiable", "foreach", "fused", "lr")


def settings_of(search: Any, base: Optimizer | None, **more: Any) -> dict[str, str]:
    """Return the settings of a search, of the direction's optimizer, and `more`, by name."""
    found = {"search": type(search).__name__, "direction": type(base).__name__ if base else "None"}
    if dataclasses.is_dataclass(search):
        found |= _plain({field.name: getattr(search, field.name) for field in dataclasses.fields(search)})
    if base is not None:
        names = [name for name in base.defaults if name not in _IMPLEMENTATION]
        for place, group in enumerate(base.param_groups):
            where = f" of group {place}" if len(base.param_groups) > 1 else ""
            found |= _plain({name + where: group[name] for name in names if name in group})
    return found | _plain(more)


def checksum(settings: Mapping[str, str]) -> float:
    """Return a 48-bit hash of the settings, which float64 represents exactly."""
    return float(
        int.from_bytes(hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).digest()[:6], "big")
    )


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Describe the settings in which `found` differs, for an error message."""
    names = [name for name in found if name in expected and found[name] != expected[name]]
    if "search" in names:  # the constants of another search mean something else
        names = ["search"]
    return ", ".join(f"{name}={found[name]} instead of {expected[name]}" for name in names) or "other names"


def _plain(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in values.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    return isinstance(value, tuple | list) and all(map(_is_plain, value))
