"""Checkpoints of runs in progress.

A checkpoint is a zip file with two members: `runs.json` (the runs and versions, quick to read) and `state.pt` (the
engine's `state_dict`). Reading it runs no code and imports nothing that it names: it is used only for runs whose
problem and method this program knows. A checkpoint that is damaged or of another version is reported and not used; its
runs start anew.

The first checkpoint of a group has no state and says which runs are advanced together. Runs that share an engine share
its rounding, so a group must be resumed as a whole to end with the same bits.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.methods import Absent
from gradline.lab.problems import Problem
from gradline.lab.tools.files import Report, atomic_write
from gradline.lab.tools.imports import version

FORMAT = 2


class CheckpointError(ValueError):
    """A file is damaged, not a checkpoint, or of another version."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint file, and the runs its engine was created with (some may have finished since)."""

    path: Path
    runs: tuple[Run, ...]
    has_state: bool = False
    """Whether it has a state; otherwise it only says which runs are advanced together."""

    def state(self) -> dict[str, Any] | None:
        """Return the engine's state, or `None` if the file has none. Raises `CheckpointError`."""
        import torch

        if not self.path.exists() or not read(self.path).has_state:
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                state: dict[str, Any] = torch.load(io.BytesIO(archive.read("state.pt")), weights_only=True)
        except Exception as error:  # zipfile, pickle and torch raise many types for damaged files
            raise CheckpointError(f"its state cannot be read: {error}") from error
        return state


class Checkpoints:
    """The checkpoints in a study's directory."""

    def __init__(self, directory: Path, *, report: Report) -> None:
        self.folder = Path(directory) / "checkpoints"
        self._report = report

    def of(self, runs: Sequence[Run]) -> Checkpoint:
        """Return the checkpoint of runs, whose file need not exist."""
        digest = hashlib.sha256("\n".join(run.key for run in runs).encode()).hexdigest()[:16]
        return Checkpoint(self.folder / f"{runs[0].problem.name}_b{runs[0].batch_size}_{digest}.zip", tuple(runs))

    def write(self, checkpoint: Checkpoint, state: dict[str, Any] | None) -> None:
        """Write a state; `None`: only that these runs are advanced together."""
        import torch

        header = {"format": FORMAT, "versions": versions(), "runs": [run.to_dict() for run in checkpoint.runs]}
        with atomic_write(checkpoint.path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("runs.json", json.dumps(header))
            if state is not None:
                with archive.open("state.pt", "w", force_zip64=True) as member:
                    torch.save(state, member)

    def usable(self, runs: Sequence[Run], store: Store) -> list[Checkpoint]:
        """Return checkpoints whose unfinished runs are all among `runs`; no two of them share an unfinished run."""
        keys = {run.key for run in runs}
        problems = {run.problem for run in runs}
        found: list[Checkpoint] = []
        for path in sorted(self.folder.glob("*.zip")):
            try:
                checkpoint = read(path)
            except FileNotFoundError:  # another process has just finished its runs
                continue
            except CheckpointError as error:
                self._report(f"{path} is not used ({error}): its runs start anew")
                continue
            if not any(run.key in keys for run in checkpoint.runs):
                continue
            unfinished = {run.key for run in store.missing(checkpoint.runs)}
            unknown = _unknown(checkpoint, problems) if unfinished & keys else None
            if unknown is not None:
                self._report(f"{path} is not used ({unknown}): its runs start anew")
            elif unfinished and unfinished <= keys:
                found.append(checkpoint)
                keys -= unfinished
            elif unfinished & keys and checkpoint.has_state:
                self._report(f"{path} is not used (it holds other runs too): its runs start anew")
        return found

    def remove_finished(self, stored: set[str]) -> None:
        """Remove the checkpoints whose runs are all stored."""
        for path in self.folder.glob("*.zip"):
            with suppress(CheckpointError, FileNotFoundError):
                if {run.key for run in read(path).runs} <= stored:
                    path.unlink(missing_ok=True)


def _unknown(checkpoint: Checkpoint, problems: set[Problem]) -> str | None:
    """Return what in a checkpoint this program does not know, or `None`."""
    for run in checkpoint.runs:
        if isinstance(run.method, Absent):
            return f"its method {run.method.name} is not imported, or of another revision"
        if run.problem not in problems:
            return f"its problem {run.problem.name} is not that of the runs"
    return None


def read(path: Path) -> Checkpoint:
    """Read a checkpoint without its state. Raises `FileNotFoundError` or `CheckpointError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            header, has_state = json.loads(archive.read("runs.json")), "state.pt" in archive.namelist()
        if header["format"] != FORMAT or header["versions"] != versions():
            made = ", ".join(f"{name} {number}" for name, number in header["versions"].items())
            raise CheckpointError(f"it is of another version: {made}, format {header['format']}")
        return Checkpoint(path, tuple(Run.from_dict(values) for values in header["runs"]), has_state)
    except (FileNotFoundError, CheckpointError):
        raise
    except Exception as error:
        raise CheckpointError(f"it is damaged or no checkpoint: {error}") from error


def versions() -> dict[str, str]:
    """Return the versions that must match to resume exactly."""
    return {"gradline": version("gradline"), "torch": version("torch")}
