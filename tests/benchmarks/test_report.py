import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "report.py"


def test_the_benchmark_of_the_report_runs(store, tmp_path):
    pytest.importorskip("playwright")
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        pytest.skip("no Chromium is installed (Debian and Ubuntu: apt install chromium)")
    file = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), str(store), "--quick", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())
    assert results["quick"] is True
    page = results["plain"]
    assert 1_000_000 < page["bytes"] < 6_000_000
    assert 0.0 < page["seconds_to_ready"]["median"] <= page["seconds_to_first_chart"]["median"]
    assert "first chart" in done.stdout
