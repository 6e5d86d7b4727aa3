"""Many runs in one small file that can be kept beside the code: thinned curves, rounded numbers, gzip.

Of each run it has the whole configuration, the summary to nine digits and the rows of its trace (see `traces`), from
which tables, claims, figures and reports are made. Problems, methods and versions that runs share are written once, and
the numbers of all curves together, column by column (see `gradline.lab.tools.packing`).

Comparisons (`findings.cases`) have the same results from a packed run as from the whole one, up to the digits kept:
the rows that they are computed from are stored a second time, with nine digits, and so is a row whose training loss
would be on the other side of its target after rounding. Validation losses and processor seconds have five digits
elsewhere too, since their targets are not known when a file is packed. The same runs give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradline.lab.findings.traces import COLUMNS, LOGARITHMS, PACKED_POINTS, Trace, latest
from gradline.lab.jobs.result import Array, Status
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.files import Report, atomic_write
from gradline.lab.tools.formatting import plural
from gradline.lab.tools.packing import BITS, pack_numbers, plain_number, round_numbers, unpack_numbers

KIND = "runs of a comparison by gradline"
FORMAT = 3
"""Format of the file; no other is read."""
DIGITS = 9
"""Significant digits of the numbers of a summary, and of the rows that measures are read from."""
FIVE_DIGITS = ("validation_loss", "cpu_seconds")
"""Columns with five significant digits, for which 17 bits are enough."""
_BITS = {"evaluations": 23} | dict.fromkeys(FIVE_DIGITS, 17)
_WORDS = ("nan", "inf", "-inf")
MOST_BYTES = 2**28
"""Largest size of an unpacked file: a hundred times as much as all methods on all problems need."""
PLACES = ("--out", "--known", "--data", "--workers", "--backend", "--checkpoint-every", "--threads", "--tensorboard")
"""Options of a command that say where and how fast, not what: they mean nothing on another machine."""


def _five_digits(values: Array) -> Array:
    return np.array([float(f"{value:.5g}") for value in values.tolist()])


def _log10(values: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(values)


_CODES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "evaluations": (lambda values: np.round(3.0 * values), lambda thirds: thirds / 3.0),
    "iterations": (np.round, np.round),
    **dict.fromkeys(FIVE_DIGITS, (_five_digits, _five_digits)),
    **dict.fromkeys(LOGARITHMS, (_log10, lambda values: 10.0**values)),
}
"""How the numbers of columns are packed, and read again; others are packed as they are."""


class Damaged(ValueError):  # noqa: N818 - it is said of the file
    """A file that is no packed file, or not all of one, or of another version."""


@dataclass(frozen=True, eq=False)
class Packed:
    """What a packed file holds.

    Args:
        runs: the runs, thinned.
        targets: of each setting, the training loss that was to be reached when the file was made.
        commands: that made the runs.
        memory: of each method, its peak memory in copies of the parameters, or why there is none; may be empty.
    """

    runs: tuple[Trace, ...]
    targets: Mapping[str, float] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    memory: Mapping[str, float | str] = field(default_factory=dict)

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
    values = {
        "what": KIND,
        "format": FORMAT,
        "commands": list(packed.commands),
        "targets": dict(sorted(packed.targets.items())),
        "memory": dict(packed.memory),
        "digests": _to_values(sorted(packed.runs, key=lambda run: run.key), packed.targets),
    }
    text = json.dumps(values, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # No name and no time in its head, so that the bytes depend on the runs alone.
    with atomic_write(path) as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(text.encode())
    return path


def add(packed: Packed, path: str | os.PathLike[str], *, report: Report | None = None) -> Packed:
    """Add runs to a packed file, which need not exist; return what it then holds.

    A run replaces one of the same place: problem, batch size, budget, method and seed, and what else a study varies. Of
    a method that has been revised, the runs of the last revision in a setting are kept: earlier ones have other steps.
    """
    before = unpack(path) if Path(path).exists() else Packed(())
    before.check(packed.targets)
    found = (*before.runs, *packed.runs)
    runs = {run.place: run for run in latest(found)}
    lost = {run.key for run in found} - {run.key for run in runs.values()}
    if lost and report is not None:
        earlier = plural(len(lost), "run")
        report(f"not kept, because there are newer runs of the same names, or of a later revision: {earlier}")
    after = Packed(
        tuple(runs.values()),
        {**before.targets, **packed.targets},
        tuple(dict.fromkeys((*before.commands, *packed.commands))),
        {**before.memory, **packed.memory},
    )
    pack(after, path)
    return after


def unpack(path: str | os.PathLike[str]) -> Packed:
    """Read a packed file.

    Raises `Damaged` if it is none, or one of another version, and `OSError` if it cannot be read at all.
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
        if values["format"] == FORMAT:
            runs = _from_values(values["digests"])
            return Packed(runs, values["targets"], tuple(values["commands"]), values["memory"])
    except Exception as error:  # what is not ours can raise nearly anything
        reason = str(error) or type(error).__name__
        raise Damaged(
            f"{path} is not a file that `gradline results --pack` wrote, or it is damaged ({reason}): "
            f"get it again, or pack it again from the runs"
        ) from error
    raise Damaged(
        f"{path} was packed by another version of gradline, whose files this one does not read: pack it again"
    )


# ---- runs as plain values, and back


def _to_values(runs: Sequence[Trace], targets: Mapping[str, float]) -> dict[str, Any]:
    """Return runs as plain values, for JSON. They must have one number of points."""
    shared: dict[str, dict[str, int]] = {"problems": {}, "methods": {}, "versions": {}}

    def place(kind: str, value: Any) -> int:
        known = shared[kind]
        return known.setdefault(json.dumps(value, sort_keys=True), len(known))

    def known(name: str) -> bool:
        return name == "evaluations" or not all(np.isnan(run.columns[name]).all() for run in runs)

    names = [name for name in COLUMNS if known(name)]
    lines = []
    for run in runs:
        values = run.run.to_dict()
        values |= {"problem": place("problems", values["problem"]), "method": place("methods", values["method"])}
        about = {"seconds": plain_number(run.seconds, DIGITS), "engine": run.engine, "status": run.status.value}
        about |= {"reason": run.reason, "versions": place("versions", run.versions)}
        summary = {name: plain_number(value, DIGITS) for name, value in run.summary.items()}
        exact = [
            [row, *(plain_number(float(run.columns[name][row]), DIGITS) for name in names[1:])]
            for row in _exact(run, targets.get(run.setting))
        ]
        lines.append({"run": values, "about": about, "summary": summary, "rows": run.rows, "exact": exact})
    (points,) = {run.points for run in runs} or {PACKED_POINTS}
    return {
        **{kind: [json.loads(text) for text in texts] for kind, texts in shared.items()},
        "points": points,
        "runs": lines,
        "numbers": {name: _packed(name, [run.columns[name] for run in runs]) for name in names},
    }


def _from_values(values: dict[str, Any]) -> tuple[Trace, ...]:
    """Return the runs that `_to_values` wrote."""
    points, numbers, lines = values["points"], values["numbers"], values["runs"]
    for line in lines:
        run, about = line["run"], line["about"]
        run |= {"problem": values["problems"][run["problem"]], "method": values["methods"][run["method"]]}
        about |= {"status": Status(about["status"]), "versions": values["versions"][about["versions"]]}
    rows = [line["rows"] for line in lines]
    columns = {name: _unpacked(name, numbers[name], rows) for name in COLUMNS if name in numbers}
    found = []
    for number, line in enumerate(lines):
        kept = {name: np.full(rows[number], np.nan) for name in COLUMNS}
        kept |= {name: parts[number] for name, parts in columns.items()}
        for row, *exact in line["exact"]:
            for name, value in zip(list(columns)[1:], exact, strict=True):
                kept[name][row] = float(value)
        found.append(
            Trace(
                run=Run.from_dict(line["run"]),
                **line["about"],
                summary={name: float(value) if value in _WORDS else value for name, value in line["summary"].items()},
                points=points,
                columns=kept,
            )
        )
    return tuple(found)


def _exact(run: Trace, target: float | None) -> list[int]:
    """Return the rows that are written with all digits."""
    found, losses = run.read_rows(target), run.columns["train_loss"]
    if target is not None:
        rounded = 10.0 ** round_numbers(_log10(losses)).astype(np.float64)
        found |= set(np.flatnonzero((rounded <= target) != (losses <= target)).tolist())
    return sorted(found)


def _packed(name: str, parts: Sequence[Array]) -> str:
    """Pack a column of all runs."""
    values: Array = np.concatenate([*parts, np.empty(0)])
    return pack_numbers(_CODES[name][0](values) if name in _CODES else values, _BITS.get(name, BITS))


def _unpacked(name: str, text: str, counts: Sequence[int]) -> list[Array]:
    """Unpack a column of all runs, which have so many numbers each."""
    values = unpack_numbers(text)
    values = _CODES[name][1](values) if name in _CODES else values
    if len(values) != sum(counts):
        raise ValueError(f"{name} must have {sum(counts)} numbers, got {len(values)}")
    return np.split(values, np.cumsum(counts)[:-1])


def portable(commands: Iterable[str]) -> tuple[str, ...]:
    """Return the commands of a `commands.txt` without what belongs to one machine, each once."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in PLACES:
        parser.add_argument(option, nargs="?")  # --tensorboard may have no value
    parser.add_argument("--quiet", action="store_true")
    rest = (parser.parse_known_args(shlex.split(command))[1] for command in commands)
    return tuple(dict.fromkeys(map(shlex.join, rest)))
