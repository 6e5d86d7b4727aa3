"""The study `train` by the verbs of all studies: checked, run, resumed, shown, packed and drawn."""

from __future__ import annotations

import pytest

from gradline.lab.cli import main
from gradline.lab.figures import FIGURES

SMALL = ("--problem", "diabetes-mlp/16", "--method", "adamw-cosine", "--method", "adam-0.001", "--method", "gols-i")
SIZES = ("--seeds", "2", "--budget", "8")


def verb(*arguments):
    return main([str(text) for text in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("train")
    assert verb("run", "train", *SMALL, *SIZES, "--out", directory, "--backend", "inline", "--quiet") == 0
    return directory


def test_the_estimate_counts_the_runs_of_the_chosen_ones(capsys):
    assert verb("check", "train", *SMALL, *SIZES, "--no-measure") == 0
    shown = capsys.readouterr().out
    assert "adamw-tuned (the best of 6), on seed 1000" in " ".join(shown.split())
    assert "12 runs of 8 evaluations" in shown


def test_it_goes_on_where_it_was(made, capsys):
    assert verb("run", "train", *SMALL, *SIZES, "--out", made, "--backend", "inline") == 0
    assert "All 12 runs are in" in capsys.readouterr().err


def test_it_is_shown_packed_and_drawn(made, tmp_path, capsys, monkeypatch):
    of_runs = {name: figure for name, figure in FIGURES.items() if figure.needs}  # illustrations are drawn elsewhere
    monkeypatch.setattr("gradline.lab.figures.FIGURES", of_runs)
    file = tmp_path / "train.json.gz"
    assert verb("results", made, "--pack", file) == 0
    shown = capsys.readouterr()
    assert "diabetes-mlp/16, 8" in shown.out
    assert "adamw-tuned" in shown.out
    assert "losses over those of the best tuned method" in shown.out
    assert "train.json.gz: 12 runs" in shown.err
    assert verb("results", file) == 0
    assert capsys.readouterr().out == shown.out
    assert verb("figures", file, "--out", tmp_path) == 0
    assert (tmp_path / "train_quality.png").stat().st_size > 1000


def test_it_is_on_the_page_of_a_report(made, tmp_path):
    assert verb("report", made, "--out", tmp_path / "a.html", "--no-illustrations") == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '<h2 id="training">' in page
    assert "12 runs of the study" in page
    assert '<th scope="row">adam-0.001</th>' in page.split('aria-label="Without tuning"')[1]
