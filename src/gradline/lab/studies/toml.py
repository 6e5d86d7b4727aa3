"""A TOML file that remembers its lines, so that an error can say where it is; and checks of its values."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from gradline.lab.tools.arguments import require_name

E = TypeVar("E", bound=Enum)
V = TypeVar("V")
Place: TypeAlias = tuple[str | int, ...]
"""Where a value is: ("method", 1, "options", "growth") is an option of the second `[[method]]`."""

SHOWN = 20
"""Names of methods or problems up to which an error message has all of them."""
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*([\w."' -]+)=""")


class StudyError(ValueError):
    """A study is not as it must be. The message names the file, the line and the key."""


@dataclass(frozen=True)
class Value:
    r"""A value of a TOML file, and where it is. Each check returns it, or raises a `StudyError` that names the place.

    ```python
    from gradline.lab.studies.toml import parse

    file = parse("mine.toml", 'seeds = 3\n[[method]]\nname = "eager"\nsearch = "GolsI"\n')
    assert file["seeds"].whole() == 3 and file["method"].tables()[0]["search"].line() == 4
    ```
    """

    file: str
    source: str
    place: Place
    value: Any

    def line(self) -> int | None:
        """Return the line of the value, or of the nearest one around it: that of most names of its place."""
        names = [part for part in self.place if isinstance(part, str)]
        number = next((part for part in self.place if isinstance(part, int)), 0)
        table: list[str] = []
        counts = Counter[str]()  # of the tables of each [[name]]
        best, deepest = None, 0
        for at, line in enumerate(self.source.splitlines(), start=1):
            header, key = _HEADER.match(line), _KEY.match(line)
            if header:
                table = _parts(header[2])
                counts[table[0]] += header[1] == "[["
            if (header or key) and number == max(counts[table[0]] - 1 if table else 0, 0):
                path = table + (_parts(key[1]) if key else [])
                same = next((n for n, name in enumerate(names) if path[n : n + 1] != [name]), len(names))
                best, deepest = (at, same) if same > deepest else (best, deepest)
        return best

    def error(self, message: str) -> StudyError:
        """Return an error that names the file, the line and the key."""
        line = self.line()
        where = self.file if line is None else f"{self.file}, line {line}"
        key = ".".join(str(part) for part in self.place if isinstance(part, str))
        return StudyError(f"{where}: {key}: {message}" if key else f"{where}: {message}")

    def expect(self, good: bool, rule: str) -> Any:
        """Return the value if it is good, or raise an error that names the rule."""
        if not good:
            raise self.error(f"must be {rule}, got {self.value!r}")
        return self.value

    def name(self) -> str:
        """Return a name that can be part of a file name."""
        try:
            require_name("name", self.value)
        except ValueError as error:
            raise self.error(str(error).removeprefix("name ")) from None
        return str(self.value)

    def text(self) -> str:
        return str(self.expect(isinstance(self.value, str), "a text in quotes"))

    def flag(self) -> bool:
        return bool(self.expect(isinstance(self.value, bool), "true or false"))

    def whole(self, least: int = 1) -> int:
        good = type(self.value) is int and self.value >= least
        return int(self.expect(good, f"whole, and at least {least}"))

    def number(self, rule: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Return a number above one and at most another."""
        good = type(self.value) in (int, float) and low < self.value <= high
        return float(self.expect(good, rule))

    def known(self, known: Mapping[str, V], kind: str, plural: str | None = None) -> V:
        """Return what a name stands for."""
        if not isinstance(self.value, str) or self.value not in known:
            raise self.error(unknown(kind, self.value, known, plural=plural))
        return known[self.value]

    def choice(self, kind: type[E]) -> E:
        """Return the member of an enum that has this value."""
        return self.known({str(option.value): option for option in kind}, kind.__name__.lower(), "choices")

    def entries(self, *, filled: bool = False) -> list[Value]:
        """Return the entries of a list, which is not empty if it is to be filled."""
        if filled and self.value == []:
            raise self.error("must have at least one entry (nothing would be run), got []")
        values = self.expect(isinstance(self.value, list), "a list in brackets")
        return [replace(self, value=one) for one in values]

    def several(self) -> list[Value]:
        """Return the entries of a list, or the value alone if it is no list."""
        return self.entries(filled=True) if isinstance(self.value, list) else [self]

    def tables(self) -> list[Value]:
        """Return the tables of `[[name]]`."""
        good = isinstance(self.value, list) and all(isinstance(table, dict) for table in self.value)
        tables = self.expect(good, f"tables that begin with [[{self.place[-1]}]]")
        return [replace(self, place=(*self.place, number), value=table) for number, table in enumerate(tables)]

    def table(self, example: str) -> Value:
        """Return the value, which is a table."""
        self.expect(isinstance(self.value, dict), f"a table such as {{ {example} }}")
        return self

    def only(self, known: Iterable[str], kind: str = "key") -> None:
        """Raise an error for a key of the table that is not known."""
        for name in self.value:
            if name not in known:
                raise self[name].error(unknown(kind, name, known, plural=f"{kind.split()[0]}s"))

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def __getitem__(self, key: str) -> Value:
        return self.get(key, None)

    def get(self, key: str, default: Any) -> Value:
        """Return the value of a key of the table, or a default value."""
        return replace(self, place=(*self.place, key), value=self.value.get(key, default))

    def made(self, make: Callable[[], Any]) -> Any:
        """Return what a constructor makes of the table; its error is at the key that the message begins with."""
        try:
            return make()
        except (TypeError, ValueError) as error:
            name = str(error).split(" ", 1)[0]
            place = self[name] if name in self.value else self
            raise place.error(str(error)) from None


def parse(file: str, text: str) -> Value:
    """Return the table of a whole file."""
    try:
        return Value(file, text, (), tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{file}: this is not TOML: {error}") from None


def unknown(kind: str, name: object, known: Iterable[str], *, plural: str | None = None) -> str:
    """Return a message that a name is not known, which one was perhaps meant, and which there are, if not many."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    kinds = plural or kind + "s"
    listed = kinds in ("methods", "problems") and len(names) > SHOWN
    there = f"`gradline list {kinds}` shows all" if listed else f"the {kinds} are {', '.join(names)}"
    return f"there is no {kind} {name!r}{guess} ({there})"


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
