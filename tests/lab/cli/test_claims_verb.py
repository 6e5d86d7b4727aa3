"""`gradline claims`, from a folder and from a file."""

import pytest

from gradline.lab.cli import main


def test_claims_from_a_folder_and_from_its_summary(store, tmp_path, capsys):
    assert main(["claims", str(store)]) == 0
    shown = capsys.readouterr().out
    assert "11. The range of the steps" in shown
    assert main(["results", str(store), "--csv", str(tmp_path / "runs.csv")]) == 0
    capsys.readouterr()
    assert main(["claims", str(tmp_path / "runs.csv")]) == 0
    assert capsys.readouterr().out == shown


def test_claims_as_markdown(store, capsys):
    assert main(["claims", str(store), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["| | claim | verdict | what was seen |", "|---|---|---|---|"]
    assert all(line.count("|") == 5 for line in lines)
    assert sum(line.startswith("| | ") for line in lines) > 20


@pytest.mark.parametrize(("text", "sentence"), [("a,b\n1,2\n", "it has no method"), (None, "does not exist")])
def test_claims_of_nothing(tmp_path, capsys, text, sentence):
    file = tmp_path / "other.csv"
    if text:
        file.write_text(text)
    assert main(["claims", str(file)]) == 2
    assert sentence in capsys.readouterr().err
