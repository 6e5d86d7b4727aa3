import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "overhead.py"
METHODS = {
    "SGD",
    "SGD, a second copy",
    "Angle",
    "Angle without closure",
    "Angle, average=False",
    "GOLSI",
    "GOLSI without closure",
    "GOLSI, direction=Adam",
    "Adam",
    "Adam, fused",
    "Schedule-Free AdamW",
    "Prodigy",
    "LBFGS, strong Wolfe",
}

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("sklearn")), reason="needs gradline[study]"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("overhead") / "overhead.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--json", str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout
    return json.loads(file.read_text())


def test_all_problems_and_methods_are_there(results):
    assert results["quick"] is True
    assert results["complete"] is True
    assert set(results["problems"]) == {"logreg", "mlp", "deep", "transformer", "conv"}
    for problem in results["problems"].values():
        assert set(problem["methods"]) == METHODS


def test_the_machine_is_described(results):
    assert {"torch", "threads", "cpu", "allocator"} <= set(results["machine"])


def test_ratios_are_ordered_positive_and_finite(results):
    for problem in results["problems"].values():
        for row in problem["methods"].values():
            ratio = row["ratio"]
            assert 0.0 < ratio["lower"] <= ratio["median"] <= ratio["upper"] < math.inf
        assert problem["methods"]["SGD"]["ratio"]["median"] == 1.0


def test_only_gradlines_optimizers_are_held_to_targets(results):
    for problem in results["problems"].values():
        held = {name: row for name, row in problem["methods"].items() if row["target"] is not None}
        assert {"GOLSI"} <= held.keys() <= {"Angle", "GOLSI", "GOLSI, direction=Adam"}
        for row in held.values():
            assert row["met"] == (row["ratio"]["median"] <= row["target"])


def test_memory_is_counted_in_copies_of_the_parameters(results):
    methods = results["problems"]["mlp"]["methods"]
    assert methods["SGD"]["copies_at_probe"] == pytest.approx(0.0, abs=0.05)
    assert methods["Adam"]["copies_at_probe"] == pytest.approx(2.0, abs=0.05)
    assert methods["GOLSI without closure"]["copies_at_probe"] == pytest.approx(2.0, abs=0.05)
    assert methods["LBFGS, strong Wolfe"]["copies_at_probe"] > methods["GOLSI"]["copies_at_probe"]
