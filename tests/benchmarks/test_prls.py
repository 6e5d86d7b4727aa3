import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "prls.py"

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("sklearn")), reason="needs gradline[study]"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("prls") / "prls.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--json", str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "PrLS's arithmetic" in done.stdout
    return json.loads(file.read_text())


def rows(results):
    for problem in results["problems"].values():
        yield from problem["steps"].values()
        yield from problem["variances"].values()
    yield results["problems"]["logreg"]["arithmetic"]


def test_all_three_tables_are_there(results):
    assert results["quick"] is True
    assert results["complete"] is True
    assert set(results["problems"]) == {"logreg", "mlp"}
    for problem in results["problems"].values():
        assert {"SGD", "PrLS", "PrLS, diagonal", "GOLSI"} <= set(problem["steps"])
        assert {"exact", "diagonal", "exact, vmap of grad", "diagonal, vmap of grad"} <= set(problem["variances"])
        assert problem["variances"]["exact"]["vmap_is_slower_by"]["median"] > 0.0


def test_ratios_are_ordered_positive_and_finite(results):
    for row in rows(results):
        ratio = row["ratio"]
        assert 0.0 < ratio["lower"] <= ratio["median"] <= ratio["upper"] < math.inf


def test_what_is_held_to_a_target(results):
    held = [row for row in rows(results) if row.get("target") is not None]
    assert sorted(row["target"] for row in held) == [0.35, 1.7, 2.2]
    for row in held:
        assert row["met"] == (row["ratio"]["median"] <= row["target"])


def test_the_ways_to_a_variance_agree():
    spec = importlib.util.spec_from_file_location("prls_benchmark", SCRIPT)
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        prls = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(prls)
        for name in prls.TARGETS:
            ways = prls.Variances(prls.load(name, True)).ways()
            assert float(ways["exact"]()) == pytest.approx(float(ways["exact, vmap of grad"]()), rel=1e-3)
            assert float(ways["diagonal"]()) == pytest.approx(float(ways["diagonal, vmap of grad"]()), rel=1e-3)
    finally:
        sys.path.remove(str(SCRIPT.parent))
