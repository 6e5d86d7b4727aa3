"""Where comparisons are read from: a directory of runs, or a packed file."""

from __future__ import annotations

import os
from pathlib import Path

from gradline.lab.findings.comparison import Comparison, compare
from gradline.lab.findings.packed import Packed, portable, unpack
from gradline.lab.findings.training import Training, trained
from gradline.lab.findings.trajectory import trajectories
from gradline.lab.studies import Study, load
from gradline.lab.tools.files import Report

COMMANDS = "commands.txt"
"""The file of a directory with the commands that made its runs."""


def read(
    source: str | os.PathLike[str], study: Study | None = None, *, report: Report | None = None
) -> tuple[Packed, Comparison]:
    """The runs of a comparison, and what is read from them.

    Args:
        source: a directory that `gradline run compare` wrote to, or a file that `gradline results --pack` wrote.
        study: which settings, and what is to be reached; `None`: the study `compare`.
        report: where to say which files were passed over and why.
    """
    chosen = study or load("compare")
    packed = _packed(source, chosen, report)
    return packed, compare(packed.records, chosen)


def read_training(
    source: str | os.PathLike[str], study: Study | None = None, *, report: Report | None = None
) -> tuple[Packed, Training]:
    """The runs of a study that tunes methods, and what is read from them.

    Args:
        source: a directory that `gradline run train` wrote to, or a file that `gradline results --pack` wrote.
        study: which settings and methods; `None`: the study `train`.
        report: where to say which files were passed over and why.
    """
    chosen = study or load("train")
    packed = _packed(source, chosen, report)
    return packed, trained(packed.records, chosen)


def _packed(source: str | os.PathLike[str], study: Study, report: Report | None) -> Packed:
    targets = {setting.name: setting.target for setting in study.settings if setting.target is not None}
    path = Path(source)
    if path.is_dir():
        return Packed(tuple(trajectories(path, report=report)), targets, portable(commands(path)))
    packed = unpack(path)
    packed.check(targets)
    return packed


def commands(directory: str | os.PathLike[str]) -> list[str]:
    """The commands that made the runs of a directory, as far as they are known."""
    file = Path(directory) / COMMANDS
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
