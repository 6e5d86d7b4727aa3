"""A TOML file that remembers its lines, so that an error can say where it is."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str | int, ...]
"""Where a value is: ("method", 1, "options", "growth") is an option of the second `[[method]]`."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")


class StudyError(ValueError):
    """A study is not as it must be. The message names the file, the line and the key."""


class Toml:
    r"""The values of a TOML file, and the line of each.

    ```python
    from gradline.lab.studies.toml import Toml

    toml = Toml("mine.toml", 'seeds = 3\n[[method]]\nname = "eager"\nsearch = "GolsI"\n')
    assert toml.values["seeds"] == 3 and toml.line(("method", 0, "search")) == 4
    ```
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        try:
            self.values: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise StudyError(_syntax_error(file, str(error))) from None
        except RecursionError:
            raise StudyError(f"{file}: its values must be nested less deeply (Python's stack is limited)") from None
        self._lines = _lines(text)

    def line(self, place: Place) -> int | None:
        """Return the line of a value, or of the nearest table around it that has one."""
        while place:
            if place in self._lines:
                return self._lines[place]
            place = place[:-1]
        return None

    def error(self, place: Place, message: str) -> StudyError:
        """Return an error that names the file, the line and the key."""
        line = self.line(place)
        where = self.file if line is None else f"{self.file}, line {line}"
        key = ".".join(str(part) for part in place if isinstance(part, str))
        return StudyError(f"{where}: {key}: {message}" if key else f"{where}: {message}")


def unknown(kind: str, name: object, known: Iterable[str], *, plural: str | None = None) -> str:
    """Return a message that a name is not known, which one was perhaps meant, and which there are."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {kind} {name!r}{guess} (the {plural or kind + 's'} are {', '.join(names)})"


def _syntax_error(file: str, message: str) -> str:
    found = re.fullmatch(r"(.*?) \(at line (\d+), column (\d+)\)", message)
    if found is None:  # "at end of document"
        return f"{file}: this is not TOML: {message}"
    return f"{file}, line {found[2]}: this is not TOML: {found[1]} (column {found[3]})"


def _lines(text: str) -> dict[Place, int]:
    """Return the line of each table and key. Keys inside inline tables have none of their own."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _inside(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            place = table
            for part in _parts(key[1]):
                place = (*place, part)
                lines.setdefault(place, number)
    return lines


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def _inside(parts: list[str], counts: dict[Place, int]) -> Place:
    """Return a header's place: `[method.options]` is within the last `[[method]]`."""
    place: Place = ()
    for position, part in enumerate(parts):
        place = (*place, part)
        if place in counts and position < len(parts) - 1:
            place = (*place, counts[place])
    return place
