"""Checkpoints: the state of runs under way, so that a killed study loses little.

A checkpoint is one zip file with two members: `runs.json` (which runs, of which versions; cheap to look at) and
`state.pt` (what the engine's `state_dict` gave). It is read without running any code of it, and nothing that it names
is imported: it is taken up only for runs whose problem and search this program has itself. A checkpoint of another
version, or one that is torn, is reported and passed over; its runs start anew.

The first checkpoint of a group, at its very start, has no state: it says which runs go together. Runs that share an
engine share its roundings, so a group that is taken up must be the whole group to end with the same bits.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.methods import Absent
from gradline.lab.problems import Problem
from gradline.lab.tools.files import Report, whole

FORMAT = 2


class CheckpointError(ValueError):
    """A file is torn, or no checkpoint, or one of another version."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on the disk: the runs its engine was made with (some may have finished since) and its file."""

    path: Path
    runs: tuple[Run, ...]

    @property
    def begun(self) -> bool:
        """Whether there is a state to go on from; else it only tells which runs go together."""
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(self.path) as archive:
            return "state.pt" in archive.namelist()
        return False

    def state(self) -> dict[str, Any] | None:
        """The engine's state, `None` at the very start. Raises `CheckpointError`."""
        import torch

        try:
            with zipfile.ZipFile(self.path) as archive:
                if "state.pt" not in archive.namelist():
                    return None
                content = _member(archive, "state.pt")
            state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        except Exception as error:  # zipfile, pickle and torch have many ways to say that a file is not theirs
            raise CheckpointError(f"its state cannot be read: {error}") from error
        return state


class Checkpoints:
    """The checkpoints in a study's directory."""

    def __init__(self, directory: Path, *, report: Report) -> None:
        self.folder = Path(directory) / "checkpoints"
        self._report = report

    def of(self, runs: Sequence[Run]) -> Checkpoint:
        """The checkpoint of these runs, which need not be there yet."""
        digest = hashlib.sha256("\n".join(run.key for run in runs).encode()).hexdigest()[:16]
        return Checkpoint(self.folder / f"{runs[0].problem.name}_b{runs[0].batch_size}_{digest}.zip", tuple(runs))

    def write(self, checkpoint: Checkpoint, state: dict[str, Any] | None) -> None:
        """Put a state in the place of the one before it; `None`: that these runs go together."""
        import torch

        header = {"format": FORMAT, "versions": versions(), "runs": [run.to_dict() for run in checkpoint.runs]}
        with whole(checkpoint.path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("runs.json", json.dumps(header))
            if state is not None:
                with archive.open("state.pt", "w", force_zip64=True) as member:
                    torch.save(state, member)

    def usable(self, runs: Sequence[Run], store: Store) -> list[Checkpoint]:
        """Checkpoints whose unfinished runs are all among these. No two of them share an unfinished run."""
        keys = {run.key for run in runs}
        problems = {run.problem for run in runs}
        found: list[Checkpoint] = []
        for path in sorted(self.folder.glob("*.zip")):
            try:
                checkpoint = read(path)
            except FileNotFoundError:  # its runs have just been finished by somebody
                continue
            except CheckpointError as error:
                self._report(f"{path} is not used ({error}): its runs start anew")
                continue
            if not any(run.key in keys for run in checkpoint.runs):
                continue
            unfinished = {run.key for run in store.missing(checkpoint.runs)}
            strange = _strange(checkpoint, problems) if unfinished & keys else None
            if strange is not None:
                self._report(f"{path} is not used ({strange}): its runs start anew")
            elif unfinished and unfinished <= keys:
                found.append(checkpoint)
                keys -= unfinished
            elif unfinished & keys and checkpoint.begun:
                self._report(f"{path} is not used (it holds other runs too): its runs start anew")
        return found

    def drop(self, runs: Iterable[Run]) -> None:
        """Remove the checkpoints that hold any of these runs: they are to go apart from now on."""
        keys = {run.key for run in runs}
        for path in self.folder.glob("*.zip"):
            with suppress(CheckpointError, FileNotFoundError):
                if any(run.key in keys for run in read(path).runs):
                    path.unlink(missing_ok=True)

    def tidy(self, stored: Iterable[str]) -> None:
        """Remove the checkpoints that have nothing left to do."""
        done = set(stored)
        for path in self.folder.glob("*.zip"):
            with suppress(CheckpointError, FileNotFoundError):
                if {run.key for run in read(path).runs} <= done:
                    path.unlink(missing_ok=True)


def _strange(checkpoint: Checkpoint, problems: set[Problem]) -> str | None:
    """What in a checkpoint would have to be imported because the file says so."""
    for run in checkpoint.runs:
        if isinstance(run.method, Absent):
            return f"its method {run.method.name} is not imported, or of another revision"
        if run.problem not in problems:
            return f"its problem {run.problem.name} is not that of the runs"
    return None


def read(path: Path) -> Checkpoint:
    """The checkpoint in a file, without its state. Raises `FileNotFoundError` or `CheckpointError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(_member(archive, "runs.json"))
        if header["format"] != FORMAT or header["versions"] != versions():
            made = ", ".join(f"{name} {number}" for name, number in header["versions"].items())
            raise CheckpointError(f"it is of another version: {made}, format {header['format']}")
        return Checkpoint(path, tuple(Run.from_dict(values) for values in header["runs"]))
    except (FileNotFoundError, CheckpointError):
        raise
    except Exception as error:
        raise CheckpointError(f"it is torn or no checkpoint: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """What a checkpoint has under a name. Ours are not compressed, so that none is larger than its file."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise CheckpointError(f"its {name} is compressed, which none of ours is")
    return archive.read(name)


def versions() -> dict[str, str]:
    """What decides whether a state can be taken up exactly."""
    return {"gradline": version("gradline"), "torch": version("torch")}
