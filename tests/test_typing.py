"""What a search must see is a type: the type checker refuses an evaluator that shows less."""

from pathlib import Path

import mypy.api

CACHE = Path(__file__).parents[1] / ".mypy_cache"  # what `make lint` has just filled: torch need not be read anew

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


def test_information_is_a_type(tmp_path):
    source = tmp_path / "snippet.py"
    source.write_text(SNIPPET)
    shown, trouble, _ = mypy.api.run(["--strict", "--cache-dir", str(CACHE), str(source)])
    assert not trouble
    refused = {int(line.split(":")[1]) for line in shown.splitlines() if ": error:" in line}
    assert refused == {number for number, line in enumerate(SNIPPET.splitlines(), 1) if "refused" in line}
