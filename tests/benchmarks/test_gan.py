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
    page = " ".join((ROOT / "docs" / "use" / "angle.md").read_text(encoding="utf-8").split())
    table = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    short = [], []
    for name, seeds in runs.items():
        for weights in ("average", "last"):
            if weights in seeds[0]:
                first, second, third = modes = [run[weights]["modes"] for run in seeds]
                assert f"{first}, {second} and {third}" in page
                assert f"| {weights} | {first}, {second}, {third} |" in table
                short[name.startswith("Adam")].extend(modes)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for modes in short:
        between = "or" if max(modes) == min(modes) + 1 else "to"
        assert f"{min(modes)} {between} {max(modes)}" in readme
