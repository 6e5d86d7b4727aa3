"""The store: a directory with one Parquet file for each finished run.

A file is used only if it is complete, written by gradline, and holds the run that its name says. Any other file is
reported and counts as missing, so that the run is computed again. Files are written atomically (see
`gradline.lab.tools.files`), so that a killed process leaves no partial result.

Any program that reads Parquet can read the files: the columns are those of
[`gradline.lab.jobs.result`][gradline.lab.jobs.result], a missing measurement is null, and the configuration of the run
is in the metadata of the schema as JSON.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from gradline.lab.jobs.result import COLUMNS, LATER, Header, Result, Status
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.files import Report, atomic_write
from gradline.lab.tools.imports import version

FORMAT = "2"
"""Format of the files; files of another format are not used."""

PLAIN = ("iteration", "evaluations", "stop")
"""Columns without nulls; in others null means not measured or not applicable."""

_TYPES: dict[Any, Any] = {
    np.int64: pa.int64(),
    np.float64: pa.float64(),
    np.str_: pa.dictionary(pa.int32(), pa.string()),
}
SCHEMA = pa.schema([pa.field(name, _TYPES[kind], nullable=name not in PLAIN) for name, kind in COLUMNS.items()])


class StoreWarning(UserWarning):
    """A file in the store is not used."""


class ResultError(ValueError):
    """A file is damaged, not written by gradline, or of another format."""


class Store:
    """The results in a directory.

    ```python
    import tempfile
    from gradline.lab.methods import METHODS
    from gradline.lab.problems import PROBLEMS
    from gradline.lab.jobs.runs import Run
    from gradline.lab.jobs.store import Store

    run = Run(problem=PROBLEMS["bcwd-logr"], method=METHODS["gols-i"], batch_size=10, seed=0, budget=100)
    with tempfile.TemporaryDirectory() as directory:
        store = Store(directory)
        assert store.missing([run]) == [run] and not store.keys()
    ```

    Args:
        directory: the directory of the study. The files are in its folder `runs`, which `save` creates.
        report: receives messages about files that are not used; default: issue a `StoreWarning`.
    """

    def __init__(self, directory: str | os.PathLike[str], *, report: Report | None = None) -> None:
        self.directory = Path(directory)
        self.folder = self.directory / "runs"
        self._report = report or _warn
        self._reported: set[Path] = set()
        self._reported_versions: set[str] = set()
        self._checked: dict[Path, tuple[int, int]] = {}  # time and size of files that were read completely

    def path(self, key: str) -> Path:
        """Return the path of the result with this key, which need not exist."""
        return self.folder / f"{key}.parquet"

    def has(self, run: Run) -> bool:
        """Return whether the result of a run is stored; its checksums are verified at the first call."""
        path = self.path(run.key)
        try:
            found = path.stat()
            mark = (found.st_mtime_ns, found.st_size)
            if self._checked.get(path) != mark:
                self._compare_version(_read(path)[0])
                self._checked[path] = mark
        except FileNotFoundError:
            return False
        except ResultError as error:
            self._distrust(path, error)
            return False
        return True

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs without a stored result."""
        return [run for run in runs if not self.has(run)]

    def keys(self) -> list[str]:
        """Return the keys of all results in order."""
        return [path.stem for path, _ in self.headers()]

    def headers(self) -> Iterator[tuple[Path, Header]]:
        """Yield path and metadata of each result, in the order of their keys."""
        for path in sorted(self.folder.glob("*.parquet")):
            try:
                header = _header_of(_parsed(path, pq.read_schema), path)
            except FileNotFoundError:
                continue
            except ResultError as error:
                self._distrust(path, error)
                continue
            self._compare_version(header)
            yield path, header

    def results(self, wanted: Callable[[Run], bool] = lambda run: True) -> Iterator[Result]:
        """Yield each usable result of the runs that are wanted, one in memory at a time."""
        for path, header in self.headers():
            if wanted(header.run):
                try:
                    yield self.load(path.stem)
                except KeyError as error:
                    self._distrust(path, error.__cause__)

    def save(self, result: Result) -> Path:
        """Write a result. An unusable file at its path is renamed to `.unreadable`."""
        path = self.path(result.run.key)
        if path.exists() and not self.has(result.run):
            path.replace(path.with_suffix(".unreadable"))
        table = _table(result)
        with atomic_write(path) as file:
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        return path

    def load(self, key: str) -> Result:
        """Read a result. Raises `KeyError` if it is missing or unusable."""
        path = self.path(key)
        try:
            header, table = _read(path)
        except FileNotFoundError as error:
            raise KeyError(f"{self.directory} has no result {key!r}") from error
        except ResultError as error:
            raise KeyError(f"{path} cannot be used: {error}") from error
        frame = table.to_pandas()
        columns = {name: frame[name].to_numpy(kind, copy=True) for name, kind in COLUMNS.items()}
        return Result(columns=columns, **vars(header))

    def _compare_version(self, header: Header) -> None:
        """Report once that results were computed by another version of gradline."""
        made, here = header.versions.get("gradline"), version("gradline")
        if made is not None and made != here and made not in self._reported_versions:
            self._reported_versions.add(made)
            self._report(
                f"{self.directory} has results of gradline {made}; this is {here}, which may compute other numbers "
                f"even where revisions are equal"
            )

    def _distrust(self, path: Path, reason: object) -> None:
        """Report once that a file is not used."""
        if path not in self._reported:
            self._reported.add(path)
            self._report(f"{path} is not a usable result ({reason}): it counts as missing")


def _read(path: Path) -> tuple[Header, Any]:
    """Read a result and verify its checksums. Raises `FileNotFoundError` or `ResultError`."""
    table = _parsed(path, partial(pq.read_table, page_checksum_verification=True))
    header = _header_of(table.schema, path)
    for name in LATER:
        if name not in table.schema.names:
            table = table.append_column(SCHEMA.field(name), pa.nulls(len(table), SCHEMA.field(name).type))
    if not table.schema.equals(SCHEMA):
        raise ResultError(f"its columns are {', '.join(f'{field.name}: {field.type}' for field in table.schema)}")
    return header, table


def _parsed(path: Path, parse: Callable[[Any], Any]) -> Any:
    """Return what Arrow reads from a file. It is opened here because Arrow accepts only UTF-8 paths."""
    try:
        with path.open("rb") as file:
            return parse(file)
    except FileNotFoundError:
        raise
    except Exception as error:  # damaged metadata can raise nearly anything
        raise ResultError(_first_line(error)) from error


def _header_of(schema: Any, path: Path) -> Header:
    pairs = [[text.decode(errors="replace") for text in pair] for pair in (schema.metadata or {}).items()]
    found = {name.removeprefix("gradline."): text for name, text in pairs if name.startswith("gradline.")}
    if not found:
        raise ResultError("it was not written by gradline")
    if (form := found.get("format")) != FORMAT:
        raise ResultError(f"its format is {form}, of another version of gradline; this one reads {FORMAT}")
    try:
        run, versions = Run.from_dict(json.loads(found["run"])), json.loads(found["versions"])
        seconds, status = float(found["seconds"]), Status(found["status"])
        header = Header(run, seconds, found["engine"], versions, status, found["reason"])
    except Exception as error:
        raise ResultError(f"its configuration cannot be read: {type(error).__name__}: {_first_line(error)}") from error
    if run.key != path.stem:
        raise ResultError(f"it holds the run {run.key}")
    return header


def _table(result: Result) -> Any:
    metadata = {
        "gradline.format": FORMAT,
        "gradline.key": result.run.key,
        "gradline.run": json.dumps(result.run.to_dict(), sort_keys=True),
        "gradline.seconds": repr(float(result.seconds)),
        "gradline.engine": result.engine,
        "gradline.versions": json.dumps(result.versions, sort_keys=True),
        "gradline.status": result.status.value,
        "gradline.reason": result.reason,
    }
    table = pa.Table.from_pandas(pd.DataFrame(result.columns), SCHEMA, preserve_index=False)
    return table.replace_schema_metadata(metadata)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _warn(text: str) -> None:
    warnings.warn(text, StoreWarning, stacklevel=3)
