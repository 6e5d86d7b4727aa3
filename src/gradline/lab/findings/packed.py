"""Many runs in one small file that can be kept beside the code: thinned curves, rounded numbers, gzip.

Runs of a comparison are kept as trajectories, all others as traces (see `traces`): a run's whole configuration, its
summary to nine digits and its curves on a coarser grid, from which tables, claims, figures and reports are made.

Of trajectories, what `findings.measures` reads from a packed record is what it reads from the whole one: of a curve the
first point, the last one within the budget, the last one of all and the first one at the target are always kept, the
last three with all their digits, and no rounding takes another loss to the other side of its target. The same runs
give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gradline.lab.findings import traces
from gradline.lab.findings.trajectory import Point, Trajectory
from gradline.lab.jobs.result import Status
from gradline.lab.tools.files import Report, atomic_write
from gradline.lab.tools.formatting import plural
from gradline.lab.tools.packing import plain_number

KIND = "runs of a comparison by gradline"
FORMAT = 3
"""Format of the file. Files of format 2, which had fewer columns, are read too, and no others."""
COLUMNS = Point._fields
NAMES = ("problem", "revision", "batch_size", "method", "seed", "budget")
POINTS = 20
"""Largest number of points of a curve."""
DIGITS = 5
"""Significant digits of all points but those that measures are read from."""
MOST_BYTES = 2**28
"""Largest size of an unpacked file: a hundred times as much as all methods on all problems need."""
PLACES = ("out", "known", "data", "workers", "backend", "checkpoint-every", "threads", "tensorboard")
"""Options of a command that say where and how fast, not what: they mean nothing on another machine."""
FLAGS = ("quiet",)
"""Options of the same kind that have no value."""


class Damaged(ValueError):  # noqa: N818 - it is said of the file
    """A file that is no packed file, or not all of one."""


@dataclass(frozen=True, eq=False)
class Packed:
    """What a packed file holds.

    Args:
        records: the runs.
        targets: of each setting, the training loss that was to be reached when the file was made.
        commands: that made the runs.
        memory: of each method, its peak memory in copies of the parameters, or why there is none; may be empty.
        traces: the runs that are not of a comparison.
    """

    records: tuple[Trajectory, ...]
    targets: Mapping[str, float]
    commands: tuple[str, ...] = ()
    memory: Mapping[str, float | str] = field(default_factory=dict)
    traces: tuple[traces.Trace, ...] = ()

    def check(self, targets: Mapping[str, float]) -> None:
        """Raise `ValueError` unless these targets are those of the file: its curves were thinned for them."""
        for setting, target in self.targets.items():
            if targets.get(setting, target) != target:
                raise ValueError(
                    f"targets must be those the file was packed for (its curves have the points where they were "
                    f"reached, and few others), but {setting} has {targets[setting]:g} now and {target:g} in the file: "
                    f"pack it again"
                )


def pack(packed: Packed, path: str | os.PathLike[str]) -> Path:
    """Write a packed file, whole or not at all, and return its path."""
    path = Path(path)
    records = sorted(packed.records, key=_order)
    thin = [thinned(record, packed.targets.get(record.setting, -math.inf)) for record in records]
    versions = list(dict.fromkeys(json.dumps(record.versions, sort_keys=True) for record in thin))
    reasons = list(dict.fromkeys(record.reason for record in thin))
    values = {
        "what": KIND,
        "format": FORMAT,
        "commands": list(packed.commands),
        "targets": dict(sorted(packed.targets.items())),
        "memory": dict(packed.memory),
        "versions": [json.loads(text) for text in versions],
        "reasons": reasons,
        "runs": [
            [
                *_order(record),
                record.status.value,
                reasons.index(record.reason),
                versions.index(json.dumps(record.versions, sort_keys=True)),
            ]
            for record in thin
        ],
        # A list for each run, and the same column of all runs together: that packs better.
        "points": {
            name: [[_plain(name, getattr(point, name)) for point in record.points] for record in thin]
            for name in COLUMNS
            if name not in Point._field_defaults or any(_known(name, record) for record in thin)
        },
    }
    if any(record.key for record in thin):
        values["keys"] = [record.key for record in thin]
    if packed.traces:
        values["digests"] = traces.to_values(packed.traces)  # the field's name of old: files that are kept have it
    text = json.dumps(values, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # No name and no time in its head, so that the bytes depend on the records alone.
    with atomic_write(path) as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(text.encode())
    return path


def add(packed: Packed, path: str | os.PathLike[str], *, report: Report | None = None) -> Packed:
    """Add runs to a packed file, which need not exist; return what it then holds.

    A run of a comparison is replaced by one of the same problem, batch size, budget, method and seed, other runs by
    those of the same key. Of a method that has been revised, the other runs of the last revision on a problem are kept:
    earlier ones have other steps.
    """
    before = unpack(path) if Path(path).exists() else Packed((), {})
    before.check(packed.targets)
    records = {_order(record): record for record in (*before.records, *packed.records)}
    after = Packed(
        tuple(records.values()),
        {**before.targets, **packed.targets},
        tuple(dict.fromkeys((*before.commands, *packed.commands))),
        {**before.memory, **packed.memory},
        _latest({one.key: one for one in (*before.traces, *packed.traces)}, report),
    )
    pack(after, path)
    return after


def _latest(found: dict[str, traces.Trace], report: Report | None) -> tuple[traces.Trace, ...]:
    """Return the runs of the last revision of each method on each problem."""
    revisions = {key: int(one.header.run.method.to_dict()["revision"]) for key, one in found.items()}
    last: dict[tuple[str, str], int] = {}
    for key, one in found.items():
        last[one.problem, one.method] = max(revisions[key], last.get((one.problem, one.method), 0))
    kept = tuple(one for key, one in found.items() if revisions[key] == last[one.problem, one.method])
    if len(kept) < len(found) and report is not None:
        earlier = plural(len(found) - len(kept), "run")
        report(f"not kept, because there are runs of the same methods after they were revised: {earlier}")
    return kept


def unpack(path: str | os.PathLike[str]) -> Packed:
    """Read a packed file.

    Raises `Damaged` if it is none, and `OSError` if it cannot be read at all.
    """
    content = Path(path).read_bytes()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as zipped:
            text = zipped.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ValueError(f"it must have at most {MOST_BYTES:,} bytes when it is unpacked, got more")
        values = json.loads(text)
        if not isinstance(values, dict) or values.get("what") != KIND:
            raise ValueError("it does not say that it holds runs")
        if values["format"] not in (2, FORMAT):
            raise ValueError(f"its format is {values['format']}, this version reads {FORMAT}")
        return _from(values)
    except Exception as error:  # what is not ours can raise nearly anything
        reason = str(error) or type(error).__name__
        raise Damaged(
            f"{path} is not a file that `gradline results --pack` wrote, or it is damaged ({reason}): "
            f"get it again, or pack it again from the runs"
        ) from error


def _from(values: dict[str, Any]) -> Packed:
    columns = [values["points"][name] for name in COLUMNS if name in values["points"]]
    records = []
    keys = values.get("keys", [""] * len(values["runs"]))
    for line, key, *lists in zip(values["runs"], keys, *columns, strict=True):
        *named, status, reason, version = line
        rows = zip(*lists, strict=True)
        records.append(
            Trajectory(
                **dict(zip(NAMES, named, strict=True)),
                status=Status(status),
                reason=values["reasons"][reason],
                versions=values["versions"][version],
                points=tuple(Point(thirds / 3, *map(_number, rest)) for thirds, *rest in rows),
                key=key,
            )
        )
    thinned = traces.from_values(values["digests"]) if "digests" in values else ()
    return Packed(tuple(records), values["targets"], tuple(values["commands"]), values["memory"], thinned)


def _known(name: str, record: Trajectory) -> bool:
    return not all(math.isnan(getattr(point, name)) for point in record.points)


def _plain(name: str, value: float) -> float | str:
    """Return a plain value: evaluations, which may be thirds, as whole thirds."""
    return round(3 * value) if name == "evaluations" else plain_number(value, 9)


def _number(value: Any) -> Any:
    """Return the number of a plain value."""
    return float(value) if isinstance(value, str) else value


def _order(record: Trajectory) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in NAMES)


def thinned(record: Trajectory, target: float) -> Trajectory:
    """Return a record with fewer points and shorter numbers; its measures and those of its target stay."""
    points = record.points
    # Losses are read from the last point that counts, costs from the last of all. Those keep all their digits.
    reached = next((place for place, point in enumerate(points) if point.train_loss <= target), None)
    read = {len(record.counted) - 1, len(points) - 1, reached}
    kept = chosen(len(points), read)
    return replace(
        record, points=tuple(points[place] if place in read else _rounded(points[place], target) for place in kept)
    )


def chosen(count: int, also: Iterable[int | None]) -> list[int]:
    """Return at most `POINTS` places: the first, the last, some given ones, and the rest evenly between them."""
    if count <= POINTS:
        return list(range(count))
    always = {0, count - 1, *(place for place in also if place is not None and place >= 0)}
    even = np.linspace(0, count - 1, POINTS - len(always) + 2).round().astype(int).tolist()  # both ends are in `always`
    return sorted(always.union(even))


def _rounded(point: Point, target: float) -> Point:
    names = set(Point._fields) - {"evaluations", "steps", "train_loss"}
    values: dict[str, Any] = {name: shorter(getattr(point, name)) for name in names}
    return point._replace(**values | {"train_loss": shorter(point.train_loss, target)})


def shorter(value: float, target: float | None = None) -> float:
    """Return a number with few digits, or with as many as it takes to stay on its side of a target."""
    for places in range(DIGITS, 17):
        short = float(f"{value:.{places}g}")
        if target is None or (short <= target) == (value <= target):
            return short
    return value


def portable(commands: Iterable[str]) -> tuple[str, ...]:
    """Return the commands of a `commands.txt` without what belongs to one machine, each once."""
    return tuple(dict.fromkeys(shlex.join(_portable(shlex.split(command))) for command in commands))


def _portable(words: list[str]) -> list[str]:
    kept: list[str] = []
    rest = chain(words)
    for word in rest:
        name, given, _ = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in PLACES:
            if not given:
                next(rest, None)
        elif not (word.startswith("--") and name in FLAGS):
            kept.append(word)
    return kept
