"""How it is trained: a method is a search with a name."""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from gradline import searches
from gradline.lab.tools.names import require_name
from gradline.protocol import Search
from gradline.searches._arguments import require


@dataclass(frozen=True)
class Method:
    """A search with a name. The search must be a dataclass, so that it can be written down and made again.

    ```python
    from gradline.searches import GolsI
    from gradline.lab.methods.method import Method

    eager = Method("gols-i-eager", GolsI(growth=4.0))
    assert Method.from_dict(eager.to_dict()) == eager
    ```
    """

    name: str
    search: Search[Any, Any]

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require(
            dataclasses.is_dataclass(type(self.search)),
            "search",
            "a dataclass, made",
            "its settings are stored with each result",
            self.search,
        )

    def to_dict(self) -> dict[str, Any]:
        """The method as plain values."""
        if isinstance(self.search, Absent):
            return {**json.loads(self.search.values)}
        kind = type(self.search)
        ours = getattr(searches, kind.__name__, None) is kind
        module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # as workers know a script
        name = kind.__name__ if ours else f"{module}:{kind.__qualname__}"
        return {"name": self.name, "search": name, **dataclasses.asdict(cast(Any, self.search))}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Method:
        """The inverse of `to_dict`: `search` is one of `gradline.searches`, or "package.module:Class"."""
        options = {name: value for name, value in values.items() if name not in ("name", "search")}
        return cls(values["name"], find_search(values["search"])(**options))

    @classmethod
    def described(cls, values: dict[str, Any]) -> Method:
        """The method of a description in a file. Nothing is imported for it: reading runs no code of others.

        A search of another package that this program has not imported itself is `Absent`.
        """
        module, _, attribute = values["search"].partition(":")
        imported = vars(sys.modules[module]) if module in sys.modules else {}
        if attribute and attribute not in imported:
            return cls(values["name"], Absent(json.dumps(values)))
        return cls.from_dict(values)


@dataclass(frozen=True)
class Absent:
    """Stands for a search of another package in results that are only read: nothing of theirs is imported for it.

    `values` is the method's description as JSON.
    """

    values: str

    def start(self) -> Any:
        """Raise: it cannot search."""
        raise RuntimeError(f"this search was not imported, so that its results can be read but not made: {self.values}")

    def search(self, origin: Any, memory: Any) -> Any:
        """Raise: it cannot search."""
        return self.start()


def find_search(name: str) -> Any:
    """The class of a search: one of `gradline.searches`, or "package.module:Class"."""
    if isinstance(name, str) and ":" in name:
        module, _, attribute = name.partition(":")
        kind = getattr(import_module(module), attribute)
        is_search = isinstance(kind, type) and dataclasses.is_dataclass(kind) and hasattr(kind, "search")
        # Before it is called: a description must not be able to call whatever it likes.
        require(is_search, "search", "a dataclass with a method `search`", "its settings are stored", name)
        return kind
    require(
        name in searches.__all__ and name != "PrlsMemory",
        "search",
        "one of gradline.searches or 'package.module:Class'",
        "it is looked up",
        name,
    )
    return getattr(searches, name)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("gols-i", searches.GolsI()),
        Method("prls", searches.Prls()),
        Method("gols-b", searches.GolsB()),
        Method("gols-back", searches.GolsBack()),
        Method("gols-max", searches.GolsMax()),
        Method("armijo", searches.Armijo()),
        Method("golden-section", searches.GoldenSection()),
        Method("strong-wolfe", searches.StrongWolfe()),
        Method("fixed-1", searches.Fixed(1.0)),
        Method("fixed-10", searches.Fixed(10.0)),
        Method("fixed-100", searches.Fixed(100.0)),
    )
}
"""The methods that studies can name."""
