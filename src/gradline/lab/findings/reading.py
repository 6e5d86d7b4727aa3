"""Read runs from a directory or a packed file, and pack directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from gradline.lab.findings.packed import Packed, add, portable, unpack
from gradline.lab.findings.query import Choice, matches, stored
from gradline.lab.findings.traces import PACKED_POINTS, POINTS, Trace, thin
from gradline.lab.jobs.runs import Run
from gradline.lab.studies import Study, StudyError, load
from gradline.lab.tools.files import Report

Source: TypeAlias = str | os.PathLike[str] | Sequence[Trace]
"""A directory that a study was run into, a file that `gradline results --pack` wrote, or traces."""
COMMANDS = "commands.txt"
"""The file of a directory with the commands that made its runs."""


def read(
    source: str | os.PathLike[str],
    study: Study | None = None,
    *,
    wanted: Callable[[Run], bool] = lambda run: True,
    points: int = POINTS,
    report: Report | None = None,
) -> Packed:
    """Return the runs of a directory or of a packed file, thinned for the targets of a study.

    Of a directory one whole run is in memory at a time. The curves of a file are as they are: its targets must be those
    of the study.

    Args:
        source: the directory or the file.
        study: whose targets are used; `None`: the one that has targets, `compare`.
        wanted: which runs are returned.
        points: as in `Trace`, of a directory's runs.
        report: is told which files were passed over and why; `None`: there are warnings.
    """
    settings = (study or load("compare")).settings
    targets = {setting.name: setting.target for setting in settings if setting.target is not None}
    if not Path(source).is_file():
        found = stored(source, wanted, report)
        runs = (thin(one, points=points, target=targets.get(one.run.setting)) for one in found)
        return Packed(tuple(runs), targets, portable(commands(source)))
    packed = unpack(source)
    packed.check(targets)
    return replace(packed, runs=tuple(one for one in packed.runs if wanted(one.run)))


def traces(source: Source, *, report: Report | None = None) -> list[Trace]:
    """Return the runs of a source."""
    return list(read(source, report=report).runs) if isinstance(source, str | os.PathLike) else list(source)


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
    wanted = partial(matches, chosen=chosen or {})
    found = read(source, load(study), wanted=wanted, points=PACKED_POINTS, report=report)
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
