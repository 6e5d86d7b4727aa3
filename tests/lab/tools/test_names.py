"""Names of studies, problems and methods: none leads out of the folder that it names a file in."""

import re
from dataclasses import replace

import pytest

from gradline.lab.bench.runs import Run as BenchRun
from gradline.lab.methods.method import METHODS, Method
from gradline.lab.methods.peers import METHODS as PEERS
from gradline.lab.problems.bench import PROBLEMS as TASKS
from gradline.lab.problems.network import PROBLEMS
from gradline.lab.studies import Study, load
from gradline.lab.tools.names import MOST_BYTES
from gradline.searches import GolsI

BAD = [
    *("", " ", ".", "..", "../x", "a/b", "a\\b", "/x", "C:x", "a\0b", "a\nb", "-x", ".x", "x.", "x ", "_x", "=1+1"),
    *("*", "a*", "a?", "<b>", "[b]", "a" * (MOST_BYTES + 1), "é" * (MOST_BYTES // 2 + 1), 3, None),
]
GOOD = ["a", "gols-i", "gols_i", "GOLS-I (growth=4)", "0.1+x", "größer", "線", "my study", "a" * MOST_BYTES]

MAKERS = {
    "study": lambda name: Study(name=name, problems=(PROBLEMS["iris"],), methods=(METHODS["prls"],)),
    "problem": lambda name: replace(PROBLEMS["iris"], name=name),
    "method": lambda name: Method(name, GolsI()),
    "bench's problem": lambda name: replace(next(iter(TASKS.values())), name=name),
    "bench's method": lambda name: replace(next(iter(PEERS.values())), name=name),
    "problem of a bench's run": lambda name: BenchRun(problem=name, batch_size=1, method="a", seed=0, budget=1),
    "method of a bench's run": lambda name: BenchRun(problem="a", batch_size=1, method=name, seed=0, budget=1),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_one_rule_for_all(kind):
    for name in BAD:
        with pytest.raises(ValueError, match=r"^(name|problem|method) must be .* \(files are named by it\), got"):
            MAKERS[kind](name)
    for name in GOOD:
        MAKERS[kind](name)


def test_a_study_is_named_by_its_file_unless_it_says_so(tmp_path):
    text = 'problems = ["iris"]\nmethods = ["prls"]\n'
    path = tmp_path / "[mine].toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: name: must be letters")):
        load(path)
    path.write_text('name = "my own"\n' + text)
    assert load(path).name == "my own"
