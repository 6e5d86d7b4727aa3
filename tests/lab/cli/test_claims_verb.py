"""`gradline claims`, from a folder and from a file."""

import functools

import pytest

from gradline.lab.cli import main
from gradline.lab.findings import bounded


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Claim 1 from fewer walks."""
    monkeypatch.setattr(bounded, "first_claim", functools.partial(bounded.first_claim, starts=1, repeats=5))


def test_claims_from_a_folder_and_from_its_summary(store, tmp_path, capsys):
    assert main(["claims", str(store)]) == 0
    shown = capsys.readouterr().out
    assert "11. The range of the steps" in shown
    assert main(["results", str(store), "--csv", str(tmp_path / "runs.csv")]) == 0
    capsys.readouterr()
    assert main(["claims", str(tmp_path / "runs.csv")]) == 0
    assert capsys.readouterr().out == shown


def test_the_first_claim_needs_no_runs(capsys):
    assert main(["claims"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1. ")
    assert "\n2. " not in shown


def test_claims_as_markdown(store, capsys):
    assert main(["claims", str(store), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["|  | claim | verdict | here | paper | runs |", "| --- | --- | --- | --- | --- | --- |"]
    assert lines[2].startswith("| 1 | ")
    assert all(line.count("|") == 7 for line in lines)
    assert sum(line.startswith("|  | ") for line in lines) > 20


@pytest.mark.parametrize(("text", "sentence"), [("a,b\n1,2\n", "it has no method"), (None, "does not exist")])
def test_claims_of_nothing(tmp_path, capsys, text, sentence):
    file = tmp_path / "other.csv"
    if text:
        file.write_text(text)
    assert main(["claims", str(file)]) == 2
    assert sentence in capsys.readouterr().err
