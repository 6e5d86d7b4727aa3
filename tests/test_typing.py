"""The package passes the type checker, which refuses an evaluator that shows less than a search must see."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SNIPPET = """
from gradline import solve
from gradline.protocol import Moments, Origin, Pending, Slope, Value
from gradline.searches import Armijo, GolsI

moments = Moments(-1.0, 2.0, 0.1, 0.1)
Pending(GolsI(), Origin(Slope(-1.0), 1.0), 0.5)
Pending(GolsI(), Origin(moments, 1.0), 0.5).tell(moments)
Pending(Armijo(), Origin(moments, 1.0), 0.5).tell(moments)
solve(GolsI(), lambda step: step - 1.0)
solve(Armijo(), lambda step: Value(step - 1.0, step * step))
Pending(Armijo(), Origin(Slope(-1.0), 1.0), 0.5)  # refused
Pending(GolsI(), Origin(Slope(-1.0), 1.0), "half")  # refused
"""


def test_the_package_is_typed_and_information_is_a_type(tmp_path):
    pytest.importorskip("mypy")
    source = tmp_path / "snippet.py"
    source.write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "src/gradline", str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in errors if source.name not in line] == []
    refused = {int(line.partition(f"{source.name}:")[2].split(":")[0]) for line in errors}
    assert refused == {number for number, line in enumerate(SNIPPET.splitlines(), 1) if "refused" in line}
