import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "first_steps.py"

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "rich", "sklearn"))), reason="needs gradline[study]"
)


def test_every_way_runs_and_a_forced_first_step_is_a_hundredth_of_the_loops(tmp_path):
    file = tmp_path / "first_steps.json"
    options = ["--problems", "tune", "--seeds", "1", "--evaluations", "40", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    known = json.loads(file.read_text())
    assert len(known) == 5 * 4
    for key, run in known.items():
        if " | small | " in key:
            loop = known[key.replace(" | small | ", " | loop | ")]
            assert run["first"] == pytest.approx(loop["first"] / 100.0, rel=1e-3)
            assert run["evaluations"] == 2  # the origin, and the step
