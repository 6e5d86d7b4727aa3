"""Names of studies, problems and methods: none leads out of the folder that it names a file in."""

import re
from dataclasses import replace

import pytest

from gradline.lab.methods import METHODS, SearchMethod
from gradline.lab.problems import PROBLEMS
from gradline.lab.studies import Study, load
from gradline.lab.tools.arguments import MOST_BYTES
from gradline.searches import GolsI

BAD = [
    *("", " ", ".", "..", "../x", "a/b", "a\\b", "/x", "C:x", "a\0b", "a\nb", "-x", ".x", "x.", "x ", "_x", "=1+1"),
    *("*", "a*", "a?", "<b>", "[b]", "a" * (MOST_BYTES + 1), "é" * (MOST_BYTES // 2 + 1), 3, None),
]
GOOD = ["a", "gols-i", "gols_i", "GOLS-I (growth=4)", "0.1+x", "größer", "線", "my study", "a" * MOST_BYTES]

MAKERS = {
    "study": lambda name: Study(name=name, problems=(PROBLEMS["iris"],), methods=(METHODS["prls"],)),
    "problem": lambda name: replace(PROBLEMS["iris"], name=name),
    "method": lambda name: SearchMethod(name, GolsI()),
    "problem with a builder": lambda name: replace(PROBLEMS["regression"], name=name),
    "peer": lambda name: replace(METHODS["lbfgs"], name=name),
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
