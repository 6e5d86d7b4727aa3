"""`gradline figures`: which figures are meant, what is written, what is left out."""

import pytest

from gradline.lab.cli import main
from gradline.lab.cli.verbs.figures import find
from gradline.lab.figures import FIGURES


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("8", "figure_8"),
        ("figure-14", "figure_14"),
        ("Figure 9", "figure_9"),
        ("table-3", "table_3"),
        ("static-vs-dynamic", "study_static_vs_dynamic"),
        ("study_prls_losses", "study_prls_losses"),
    ],
)
def test_names_as_people_give_them(text, name):
    assert find(text, FIGURES) == name


def test_titles():
    assert FIGURES["figure_8"].label == "figure 8"
    assert FIGURES["study_direction_vs_step"].label == "direction-vs-step"


def test_files_are_written_and_named(store, tmp_path, capsys):
    code = main(["figures", str(store), "--out", str(tmp_path / "new"), "--figure", "9", "--figure", "table-3"])
    assert code == 0
    written = [str(tmp_path / "new" / f"{name}.{kind}") for name in ("figure_9", "table_3") for kind in ("pdf", "png")]
    assert capsys.readouterr().out.split() == written
    assert sorted(map(str, (tmp_path / "new").iterdir())) == sorted(written)


def test_what_is_not_there_is_left_out_with_a_sentence(tmp_path, store, capsys):
    (tmp_path / "runs").mkdir()
    for path in (store / "runs").glob("bcwd-netpi-10_*"):
        (tmp_path / "runs" / path.name).write_bytes(path.read_bytes())
    options = ["--out", str(tmp_path / "out"), "--figure", "9", "--figure", "14"]
    assert main(["figures", str(tmp_path), *options]) == 0
    said = capsys.readouterr()
    assert "figure 9 is left out: it needs runs of the study bcwd-fixed (gradline run bcwd-fixed)" in said.err
    assert "figure_14.png" in said.out
    assert main(["figures", str(tmp_path), "--out", str(tmp_path / "out"), "--figure", "9"]) == 1


def test_without_a_directory_there_are_illustrations(tmp_path, capsys):
    assert main(["figures", "--out", str(tmp_path), "--figure", "4"]) == 0
    assert "figure_4.pdf" in capsys.readouterr().out


def test_mistakes(tmp_path, store, capsys):
    assert main(["figures", str(store), "--out", str(tmp_path), "--figure", "99"]) == 2
    assert "--figure must be one of 1, 2, 3" in capsys.readouterr().err
    assert main(["figures", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "has no results; `gradline run STUDY" in capsys.readouterr().err
    assert main(["figures", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["figures", str(store), "--out", str(tmp_path / "file" / "x"), "--figure", "table-3"]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err
