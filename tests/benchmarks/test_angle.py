import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "angle.py"

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("rich")), reason="needs gradline[study]"
)


def run(file, *more):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--problems", "regression/10", "--seeds", "1", "--json", str(file), *more],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_variant_runs_and_what_is_there_is_not_made_again(tmp_path):
    file = tmp_path / "angle.json"
    shown = run(file, "--budget", "40")
    known = json.loads(file.read_text())
    assert len(known) == 15
    assert len(set(known.values())) > 8  # they are not the same method
    assert all(0.0 < loss < 10.0 for loss in known.values())
    for name in ("gain 20", "displacement from late points", "last step, target 0.2"):
        assert name in shown
        assert f"{name} | regression/10 | 40 | 0" in known
    file.write_text(json.dumps({**dict.fromkeys(known, 7.5), "gain 20 | regression/10 | 40 | 0": 15.0}))
    again = run(file, "--budget", "40")
    assert again.count(" 1×") == 2 * 14  # over all settings, and over those of the problem
    assert again.count(" 2×") == 2
