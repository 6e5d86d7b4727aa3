import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "lockstep.py"

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("sklearn")), reason="needs gradline[study]"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("lockstep") / "lockstep.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--json", str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "relative to the same runs one after another" in done.stdout
    return json.loads(file.read_text())


def test_all_problems_and_methods_are_there(results):
    assert results["quick"] is True
    assert results["complete"] is True
    assert set(results["cases"]) == {
        f"{problem}, {methods}"
        for problem in ("bcwd-logr", "bcwd-netpi", "bcwd-netpii", "mnist-net1")
        for methods in ("gols-i", "prls", "gols-i and prls")
    }


def test_ratios_are_ordered_positive_and_finite(results):
    for row in results["cases"].values():
        for name in ("ratio", "together_microseconds", "alone_microseconds"):
            assert 0.0 < row[name]["lower"] <= row[name]["median"] <= row[name]["upper"] < math.inf


def test_what_is_held_to_a_target(results):
    held = {name: row for name, row in results["cases"].items() if row["target"] is not None}
    assert {name: row["target"] for name, row in held.items()} == {
        "bcwd-logr, gols-i": 15.0,
        "bcwd-netpi, gols-i": 10.0,
        "mnist-net1, gols-i": 1.0,
    }
    for row in held.values():
        assert row["met"] == (row["ratio"]["median"] >= row["target"])
