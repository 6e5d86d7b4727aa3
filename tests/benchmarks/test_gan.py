import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gan.py"

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs gradline[torch]")


def test_it_counts_the_modes_of_every_optimizer(tmp_path):
    file = tmp_path / "gan.json"
    command = [sys.executable, str(SCRIPT), "--seeds", "1", "--steps", "20", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    runs = json.loads(file.read_text())["runs"]
    assert len(runs) == 4
    for name, (run,) in runs.items():
        assert ("average" in run) == name.startswith("Angle")
        assert 0 <= run["last"]["modes"] <= 8


def test_the_pages_say_what_was_measured():
    runs = json.loads((ROOT / "benchmarks" / "results" / "gan.json").read_text())["runs"]

    def modes(name, weights):
        return [run[weights]["modes"] for run in runs[name]]

    assert modes("Angle", "average") == [0, 1, 1]
    assert modes("Angle", "last") == [0, 0, 0]
    assert modes("Angle, betas=(0.5, 0.999)", "average") == [1, 1, 1]
    assert modes("Adam, 1e-3", "last") == [8, 8, 7]
    assert modes("Adam, 1e-3, betas=(0.5, 0.999)", "last") == [8, 8, 8]
    page = (ROOT / "docs" / "use" / "angle.md").read_text(encoding="utf-8")
    assert "found 0, 1 and 1 of 8 modes" in page
    assert "8, 8 and 7" in page
