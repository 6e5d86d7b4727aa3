"""What the tests of the study share."""

import os
import subprocess
import sys
import textwrap
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from lab import fake_engine

from gradline.lab.jobs.store import Store
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS
from gradline.lab.studies import Study, plan

TESTS = Path(__file__).parents[1]


def small(seeds=3, budget=40, problems=("bcwd-logr",), methods=("gols-i",), batch_sizes=(10,), **others):
    """A study of a few runs."""
    return Study(
        name="small",
        problems=tuple(PROBLEMS[name] for name in problems),
        methods=tuple(METHODS[name] for name in methods),
        batch_sizes=batch_sizes,
        seeds=tuple(range(seeds)),
        budget=budget,
        **others,
    )


def assert_same_tables(one, other):
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values.dtype.kind == other[name].dtype.kind, name
        np.testing.assert_array_equal(values, other[name], err_msg=name)


def assert_complete(directory, study):
    """Every run of the study is there, exactly as an uninterrupted fake engine makes it, and nothing is left over."""
    store = Store(directory)
    runs = plan(study)
    assert sorted(run.key for run in runs) == store.keys()
    for run in runs:
        assert_same_tables(store.load(run.key).columns, fake_engine.whole_table(run))
    left = [path for path in Path(directory).rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert {path.name for path in left} <= {".lock"}


def python(program, *arguments, **environment):
    """Start a program of its own, with the tests importable."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def has_state(directory):
    """Whether there is a checkpoint with more in it than which runs go together."""
    for path in (Path(directory) / "checkpoints").glob("*.zip"):
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            if "state.pt" in archive.namelist():
                return True
    return False


def wait_until(condition, seconds=120.0):
    """Wait for something to become so; a bound on hanging, not a measurement."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
