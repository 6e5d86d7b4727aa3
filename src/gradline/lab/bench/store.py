"""The store: a directory with one small JSON file for each run that was made.

A file appears under its name when it is complete (`gradline.lab.tools.files`), so a killed process leaves no half of
one. A file that cannot be read, or that holds another run than its name says, is reported and counts as missing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gradline.lab.bench.runs import Point, Record, Run, Status
from gradline.lab.tools.files import Report, whole

FORMAT = 1
"""Of the files. A file of another format is not believed."""
COLUMNS = tuple(field.name for field in dataclasses.fields(Point))


class Store:
    """The records in a directory.

    Args:
        directory: the files are in its folder `runs`, which is made when something is saved.
        report: where to say which files were passed over, and why.
    """

    def __init__(self, directory: str | os.PathLike[str], *, report: Report = lambda text: None) -> None:
        self.folder = Path(directory) / "runs"
        self._report = report
        self._reported: set[Path] = set()

    def path(self, run: Run) -> Path:
        """Where the record of a run is, or would be."""
        return self.folder / f"{run.key}.json"

    def has(self, run: Run) -> bool:
        """Whether the record of a run is there and can be believed."""
        return self._read(self.path(run)) is not None

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those runs whose records are not there."""
        return [run for run in runs if not self.has(run)]

    def save(self, record: Record) -> Path:
        """Write a record, whole or not at all."""
        path = self.path(record.run)
        with whole(path) as file:
            file.write((json.dumps(to_dict(record), indent=1, allow_nan=False) + "\n").encode())
        return path

    def load(self, run: Run) -> Record:
        """Read the record of a run. Raises `KeyError` if it is not there or cannot be believed."""
        record = self._read(self.path(run))
        if record is None:
            raise KeyError(f"{self.folder} has no record of {run.key}")
        return record

    def records(self) -> Iterator[Record]:
        """All records, in order of their names."""
        for path in sorted(self.folder.glob("*.json")):
            record = self._read(path)
            if record is not None:
                yield record

    def _read(self, path: Path) -> Record | None:
        try:
            record = from_dict(json.loads(path.read_bytes()))
            if record.run.key != path.stem:
                raise ValueError(f"it holds the run {record.run.key}")
        except FileNotFoundError:
            return None
        except Exception as error:  # JSON of others can raise nearly anything
            if path not in self._reported:
                self._reported.add(path)
                text = str(error) or type(error).__name__
                self._report(f"{path} is not a record that can be believed ({text}): it counts as missing")
            return None
        return record


def to_dict(record: Record) -> dict[str, Any]:
    """A record as plain values: points as columns, and numbers that are not finite as text."""
    columns = {name: [_plain(getattr(point, name)) for point in record.points] for name in COLUMNS}
    return {
        "format": FORMAT,
        "run": dataclasses.asdict(record.run),
        "status": record.status.value,
        "reason": record.reason,
        "forwards": record.forwards,
        "backwards": record.backwards,
        "versions": record.versions,
        "points": columns,
    }


def from_dict(values: dict[str, Any]) -> Record:
    """The inverse of `to_dict`."""
    if values["format"] != FORMAT:
        raise ValueError(f"its format is {values['format']}, this version reads {FORMAT}")
    rows = zip(*(values["points"][name] for name in COLUMNS), strict=True)
    points: list[dict[str, Any]] = [dict(zip(COLUMNS, map(_number, row), strict=True)) for row in rows]
    return Record(
        run=Run(**values["run"]),
        status=Status(values["status"]),
        reason=values["reason"],
        points=tuple(Point(**point) for point in points),
        forwards=values["forwards"],
        backwards=values["backwards"],
        versions=values["versions"],
    )


def _plain(value: float) -> float | str:
    """JSON has no NaN and no infinity. Nine digits are more than a measurement has."""
    if isinstance(value, int):
        return value
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def _number(value: Any) -> Any:
    """The inverse of `_plain`."""
    return float(value) if isinstance(value, str) else value
