"""Read runs from a directory or a packed file, and pack directories."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from gradline.lab.findings.packed import NAMES, Packed, add, portable, unpack
from gradline.lab.findings.query import stored
from gradline.lab.findings.traces import POINTS, Trace, thin
from gradline.lab.findings.trajectory import trajectories
from gradline.lab.studies import Study, StudyError, plan
from gradline.lab.tools.files import Report
from gradline.lab.tools.formatting import plural

Source: TypeAlias = str | os.PathLike[str] | Sequence[Trace]
"""A directory that a study was run into, a file that `gradline results --pack` wrote, or traces."""
PACKED_POINTS = 120
"""Intervals of a curve in a packed file: as many as a panel of a printed figure can show."""
COMMANDS = "commands.txt"
"""The file of a directory with the commands that made its runs."""


def read(source: str | os.PathLike[str], study: Study, *, report: Report | None = None) -> Packed:
    """Return the runs of comparisons in a directory or a packed file, for `compare` or `trained`.

    The targets of a file must be those of the study, since its curves were thinned for them.
    """
    targets = {setting.name: setting.target for setting in study.settings if setting.target is not None}
    path = Path(source)
    if path.is_dir():
        return Packed(tuple(trajectories(path, report=report)), targets, portable(commands(path)))
    packed = unpack(path)
    packed.check(targets)
    return packed


def traces(source: Source, *, points: int = POINTS, report: Report | None = None) -> list[Trace]:
    """Return the runs of a source, thinned; of a directory, one whole run is in memory at a time.

    The number of points is that of a directory's runs; the curves of a file are as they are.
    """
    if not isinstance(source, str | os.PathLike):
        return list(source)
    if Path(source).is_file():
        return list(unpack(source).traces)
    return [thin(result, points=points) for result in stored(source, report=report)]


def pack_directory(
    directory: str | os.PathLike[str], path: str | os.PathLike[str], *, report: Report | None = None
) -> Packed:
    """Add the runs of a directory that are of no comparison to a packed file; return what it holds.

    Runs that the file has and the directory has not are kept, so that a study can be extended on several machines and
    by several people: see `known_runs`.
    """
    found = traces(directory, points=PACKED_POINTS, report=report)
    new = tuple(one for one in found if not one.header.run.benchmark)
    return add(Packed((), {}, portable(commands(directory)), traces=new), path, report=report)


def known_runs(path: str | os.PathLike[str], study: Study, *, report: Report | None = None) -> dict[str, float]:
    """Return the runs of a packed file that a study need not make again: key, and last validation loss (or infinity).

    Runs of comparisons that an earlier version packed have no key. They are taken for the study's runs of the same
    problem and its revision, batch size, budget, method and seed, with a message; but for methods that have been
    revised since there are revisions, such as Angle, which are made again.

    Raises `StudyError` if the file has no runs of the study's kind: of comparisons, or of other studies.
    """
    packed = unpack(path)
    if not study.benchmark:
        if packed.records and not packed.traces:
            raise StudyError(f"{path} must have runs like those of {study.name}, but all its runs are of comparisons")
        return {one.key: math.inf for one in packed.traces}
    if packed.traces and not packed.records:
        raise StudyError(f"{path} must have runs of a comparison like {study.name}, but none of its runs is of one")
    candidates = tuple(method for tuned in study.tuned for method in tuned.candidates + tuned.others)
    seeds = dict.fromkeys((*study.seeds, study.tuning_seed))
    possible = plan(replace(study, methods=study.methods + candidates, tuned=(), seeds=tuple(seeds)))
    names = {
        (run.problem.name, run.problem.revision, run.batch_size, run.method.name, run.seed, run.budget): run.key
        for run in possible
        if run.method.to_dict()["revision"] == 1
    }
    found, unkeyed = {}, 0
    for record in packed.records:
        key = record.key or names.get(tuple(getattr(record, name) for name in NAMES), "")
        if key:
            unkeyed += not record.key
            loss = math.inf if record.last is None else record.last.validation_loss
            found[key] = math.inf if math.isnan(loss) else loss
    if unkeyed and report is not None:
        report(
            f"{path} was packed by an earlier version, without the settings of methods. Skipped because problem, "
            f"batch size, budget, seed and the name of the method are the same: {plural(unkeyed, 'run')}"
        )
    return found


def commands(directory: str | os.PathLike[str]) -> list[str]:
    """Return the commands that made the runs of a directory, as far as they are known."""
    file = Path(directory) / COMMANDS
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
