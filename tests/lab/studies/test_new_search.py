"""A new search is one file in `gradline/searches`: the command line lists it, and studies run it by name."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

import gradline

SEARCH = """
from dataclasses import dataclass

from gradline.protocol import Outcome, Stop


@dataclass(frozen=True)
class QuarterStep:
    size: float = 0.25

    def start(self):
        return None

    def search(self, origin, memory):
        seen = yield self.size
        return Outcome(self.size, 0, Stop.FIXED, None) if seen.finite else Outcome(0.0, None, Stop.NON_FINITE, None)
"""
STUDY = """
problem = "iris"
methods = ["quarter-step", "smaller"]
budget = 6
seeds = 1

[[method]]
name = "smaller"
search = "QuarterStep"
options = { size = 0.125 }
"""
SCRIPT = """
import sys
from gradline.lab.cli import main

sys.exit(main(["list", "methods"]) or main(["run", "study.toml", "--out", "out", "--backend", "inline"]))
"""


def test_a_search_is_one_file(tmp_path):
    package = tmp_path / "gradline"
    shutil.copytree(Path(gradline.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "searches" / "quarter_step.py").write_text(SEARCH, encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"quarter-step .*QuarterStep\(\)", done.stdout)
    runs = [
        json.loads(pq.read_schema(path).metadata[b"gradline.run"]) for path in (tmp_path / "out").rglob("*.parquet")
    ]
    assert {(run["method"]["search"], run["method"]["options"]["size"]) for run in runs} == {
        ("QuarterStep", 0.25),
        ("QuarterStep", 0.125),
    }
