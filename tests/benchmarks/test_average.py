import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "average.py"

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("rich")), reason="needs gradline[study]"
)


def run(file):
    command = [sys.executable, str(SCRIPT), "--problems", "friedman-mlp/20", "--seeds", "1", "--budget", "80"]
    done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_average_is_measured_and_what_is_there_is_not_made_again(tmp_path):
    file = tmp_path / "average.json"
    assert "friedman-mlp/20, 80" in run(file)
    known = json.loads(file.read_text())
    (lengths,) = known.values()
    assert list(lengths) == ["20", "80"]
    for losses in lengths.values():
        assert set(losses) == {"3", "9", "14", "19", "39", "99", "last"}
        assert len(set(losses.values())) > 3  # they are not the same point
    for losses in lengths.values():
        losses.update(dict.fromkeys(losses, 1.0), last=3.0)
    file.write_text(json.dumps(known))
    assert run(file).count("3.000×") == 4  # two lengths, and both means over them


def test_the_readme_has_what_was_measured():
    folder = SCRIPT.parent
    known = json.loads((folder / "results" / "average.json").read_text())
    cases = {}
    for key, lengths in known.items():
        for length, losses in lengths.items():
            cases.setdefault((key.split(" | ")[0], length), []).append(losses)
    assert len(cases) == 32
    text = (folder / "README.md").read_text(encoding="utf-8")
    powers = ("3", "14", "19", "39", "99", "last")
    ratios = {power: [] for power in powers}
    for runs in cases.values():
        base = statistics.median(run["9"] for run in runs)
        for power in powers:
            ratios[power].append(statistics.median(run[power] for run in runs) / base)
    for name, mean in (("median", statistics.median), ("geometric mean", statistics.geometric_mean)):
        assert f"| {name} | " + " | ".join(f"{mean(ratios[power]):.3f}" for power in powers) + " |" in text
