"""Methods: how a problem is trained. A method builds a stepper on a task. A new peer is one value in `peers`."""

from __future__ import annotations

import json
from typing import Any

from gradline.lab.methods.method import Absent, Method, Peer
from gradline.lab.methods.peers import PEERS
from gradline.lab.methods.searching import OTHERS, OWN, Direction, SearchMethod

__all__ = ["GROUPS", "METHODS", "Absent", "Direction", "Method", "Peer", "SearchMethod", "method_from_dict"]

_PARTS: dict[str, tuple[Method, ...]] = {"gradline": OWN, **PEERS}

METHODS: dict[str, Method] = {method.name: method for part in (*_PARTS.values(), OTHERS) for method in part}
"""Every method by name."""

GROUPS: dict[str, tuple[str, ...]] = {group: tuple(method.name for method in part) for group, part in _PARTS.items()}
"""Names that stand for several methods, wherever methods are named."""


def method_from_dict(values: dict[str, Any]) -> Method:
    """Return the method that its `to_dict` described, or an `Absent` one. Nothing is imported for it."""
    if values["kind"] == "search":
        return SearchMethod.from_dict(values)
    known = METHODS.get(values["name"])
    return known if known is not None and known.to_dict() == values else Absent(json.dumps(values))
