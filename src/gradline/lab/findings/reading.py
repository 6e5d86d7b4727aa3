"""Read runs from a directory or a packed file, and pack directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from gradline.lab.findings.packed import Packed, add, portable, unpack
from gradline.lab.findings.query import Choice, matches, stored
from gradline.lab.findings.traces import PACKED_POINTS, POINTS, Trace, thin
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.studies import Study, StudyError, load
from gradline.lab.tools.files import Report

Source: TypeAlias = str | os.PathLike[str] | Sequence[Trace]
"""A directory that a study was run into, a file that `gradline results --pack` wrote, or traces."""
COMMANDS = "commands.txt"
"""The file of a directory with the commands that made its runs."""


def read(source: str | os.PathLike[str], study: Study, *, report: Report | None = None) -> Packed:
    """Return the runs of comparisons in a directory or a packed file, for `compare` or `trained`.

    The targets of a file must be those of the study, since its curves were thinned for them.
    """
    return _read(source, study, lambda run: run.benchmark, report)


def _read(source: str | os.PathLike[str], study: Study, wanted: Callable[[Run], bool], report: Report | None) -> Packed:
    """Return those runs of a directory or a packed file that are wanted, thinned for the targets of a study."""
    targets = {setting.name: setting.target for setting in study.settings if setting.target is not None}
    path = Path(source)
    if path.is_dir():
        found = Store(path, report=report).results(wanted)
        runs = (thin(one, points=PACKED_POINTS, target=targets.get(one.run.setting)) for one in found)
        return Packed(tuple(runs), targets, portable(commands(path)))
    packed = unpack(path)
    packed.check(targets)
    return replace(packed, runs=tuple(one for one in packed.runs if wanted(one.run)))


def traces(source: Source, *, points: int = POINTS, report: Report | None = None) -> list[Trace]:
    """Return the runs of a source, thinned; of a directory, one whole run is in memory at a time.

    The number of points is that of a directory's runs; the curves of a file are as they are.
    """
    if not isinstance(source, str | os.PathLike):
        return list(source)
    if Path(source).is_file():
        return list(unpack(source).runs)
    return [thin(result, points=points) for result in stored(source, report=report)]


def pack_runs(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    study: str = "compare",
    chosen: Mapping[str, Choice[Any]] | None = None,
    memory: Mapping[str, float | str] | None = None,
    report: Report | None = None,
) -> Packed:
    """Add runs of a directory or a packed file to another packed file; return what it then holds.

    Runs that the file has and the directory has not are kept, so that a study can be extended on several machines and
    by several people: see `known_runs`.

    Args:
        source: the directory, or the packed file.
        path: the file that the runs are added to; it need not exist.
        study: whose targets the curves are thinned for.
        chosen: values of `problem`, `method` or `batch_size` that runs must have; `None`: all runs.
        memory: of methods, their peak memory in copies of the parameters.
        report: receives messages.

    Raises `LookupError` if there is no such run.
    """
    found = _read(source, load(study), lambda run: matches(run, chosen or {}), report)
    if not found.runs:
        raise LookupError(f"{source} has no such runs")
    there = {run.setting for run in found.runs}
    targets = {setting: target for setting, target in found.targets.items() if setting in there}
    return add(replace(found, targets=targets, memory=memory or found.memory), path, report=report)


def known_runs(path: str | os.PathLike[str], study: Study) -> dict[str, float]:
    """Return the runs of a packed file that a study need not make again: key, and last validation loss (or infinity).

    Raises `StudyError` if the file has no runs of the study's kind: of comparisons, or of other studies.
    """
    runs = unpack(path).runs
    if runs and not any(one.run.benchmark == study.benchmark for one in runs):
        if study.benchmark:
            raise StudyError(f"{path} must have runs of a comparison like {study.name}, but none of its runs is of one")
        raise StudyError(f"{path} must have runs like those of {study.name}, but all its runs are of comparisons")
    return {one.key: one.at_budget("validation_loss") for one in runs}


def commands(directory: str | os.PathLike[str]) -> list[str]:
    """Return the commands that made the runs of a directory, as far as they are known."""
    file = Path(directory) / COMMANDS
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
