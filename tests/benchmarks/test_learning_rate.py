import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "learning_rate.py"
WAYS = ("best", "default", "fixed", "schedule", "GOLS-I")

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("sklearn")), reason="needs gradline[study]"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("learning_rate") / "learning_rate.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--workers", "1", "--json", str(file)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| problem | optimizer |")
    return json.loads(file.read_text())


def test_each_optimizer_has_a_row(results):
    assert results["quick"] is True
    assert results["complete"] is True
    assert set(results["rows"]) == {f"wine, MLP, {optimizer}" for optimizer in ("SGD", "momentum", "Adam")}


def test_the_best_of_the_grid_is_the_best(results):
    for row in results["rows"].values():
        assert row["best"]["loss"] == min(row["grid_losses"])
        assert row["best"]["ratio"] == 1.0
        assert 1e-4 <= row["best_rate"] <= 10.0


def test_what_was_found_can_be_used(results):
    for row in results["rows"].values():
        assert all(0.0 < rate < math.inf for rate in row["rate"])
        for way in WAYS:
            assert 0.0 <= row[way]["loss"] < math.inf, way
            assert 0.0 <= row[way]["test"] <= 1.0
