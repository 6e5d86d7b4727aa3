"""The study `train` by the verbs of all studies: checked, run, resumed, shown, packed and drawn."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace

import pytest

from gradline.lab.cli import main
from gradline.lab.figures import FIGURES
from gradline.lab.findings.packed import pack, unpack
from gradline.lab.jobs.store import Store

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
    assert "adamw-tuned (the best of 8), on seed 1000" in " ".join(shown.split())
    assert "14 runs of 8 evaluations" in shown


def test_it_goes_on_where_it_was(made, capsys):
    assert verb("run", "train", *SMALL, *SIZES, "--out", made, "--backend", "inline") == 0
    assert "All 14 runs are in" in capsys.readouterr().err


def test_it_is_shown_packed_and_drawn(made, tmp_path, capsys, monkeypatch):
    of_runs = {name: figure for name, figure in FIGURES.items() if figure.needs}  # illustrations are drawn elsewhere
    monkeypatch.setattr("gradline.lab.figures.FIGURES", of_runs)
    file = tmp_path / "train.json.gz"
    assert verb("results", made, "--pack", file) == 0
    shown = capsys.readouterr()
    assert "diabetes-mlp/16, 8" in shown.out
    assert "adamw-tuned" in shown.out
    assert "losses over those of the best tuned method" in shown.out
    assert "train.json.gz: 14 runs" in shown.err
    assert verb("results", file) == 0
    assert capsys.readouterr().out == shown.out
    assert verb("figures", file, "--out", tmp_path) == 0
    assert (tmp_path / "train_quality.png").stat().st_size > 1000


def test_runs_of_one_method_are_shown_and_written_case_by_case(made, file, tmp_path, capsys):
    lines = tmp_path / "runs.csv"
    for source in (made, file):
        assert verb("results", source, "--method", "adam-0.001", "--csv", lines) == 0
        shown = capsys.readouterr().out
        assert "diabetes-mlp/16, 8" in shown
        assert "best tuned method" not in shown, "without one there is nothing to compare with"
        with lines.open() as opened:
            rows = list(csv.DictReader(opened))
        assert [(row["case"], row["method"], row["seed"]) for row in rows] == [
            ("diabetes-mlp/16, 8", "adam-0.001", seed) for seed in "01"
        ]
        assert all(0.0 < float(row["validation_loss"]) < 10.0 for row in rows)
    for source in (made, file):
        assert verb("results", source, "--runs", "--csv", lines) == 0
        with lines.open() as opened:
            assert len(list(csv.DictReader(opened))) == 14


def test_it_is_on_the_page_of_a_report(made, tmp_path):
    assert verb("report", made, "--out", tmp_path / "a.html", "--no-illustrations") == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '<h2 id="training">' in page
    assert "14 runs of the study" in page
    assert '<th scope="row">adam-0.001</th>' in page.split('aria-label="Without tuning"')[1]


@pytest.fixture(scope="module")
def file(made, tmp_path_factory):
    packed = tmp_path_factory.mktemp("packed") / "train.json.gz"
    assert verb("results", made, "--pack", packed) == 0
    return packed


def run_known(file, out, seeds=2):
    """Run the small study without the runs of a file; return the names of the runs that were made."""
    common = ("--seeds", seeds, "--budget", 8, "--backend", "inline")
    assert verb("run", "train", *SMALL, *common, "--known", file, "--out", out) == 0
    return {(run.method.name, run.seed) for run in (result.run for result in Store(out).results())}


def test_known_runs_and_those_of_tuning_grids_are_not_made_again(made, file, tmp_path, capsys):
    assert run_known(file, tmp_path / "none") == set()
    assert f"All runs are in {file} already" in " ".join(capsys.readouterr().err.split())
    chosen = {run.method.name for run in (result.run for result in Store(made).results()) if run.seed == 0}
    assert len(chosen) == 3  # one of them was chosen among the runs on the tuning seed, which are in the file alone now
    assert run_known(file, tmp_path / "more", seeds=3) == {(name, 2) for name in chosen}
    grown = shutil.copy(file, tmp_path / "grown.json.gz")
    assert verb("results", tmp_path / "more", "--pack", grown) == 0
    assert "grown.json.gz: 17 runs" in capsys.readouterr().err
    assert run_known(grown, tmp_path / "again", seeds=3) == set()


def test_the_estimate_leaves_out_known_runs_and_those_of_tuning_grids(file, capsys):
    assert verb("check", "train", *SMALL, *SIZES, "--no-measure", "--known", file) == 0
    assert "there is nothing to do" in capsys.readouterr().out
    assert verb("check", "train", *SMALL, "--seeds", "3", "--budget", "8", "--no-measure", "--known", file) == 0
    assert "3 runs of 8 evaluations, 24 in all" in capsys.readouterr().out


def test_a_known_run_with_other_settings_is_made_again(file, tmp_path):
    packed = unpack(file)
    changed = next(one for one in packed.runs if one.method == "adam-0.001")
    other = replace(changed, run=replace(changed.run, record_every=99))
    runs = tuple(other if one is changed else one for one in packed.runs)
    pack(replace(packed, runs=runs), tmp_path / "changed.json.gz")
    assert run_known(tmp_path / "changed.json.gz", tmp_path / "out") == {("adam-0.001", changed.seed)}


def test_a_file_with_another_kind_of_runs_is_refused(file, tmp_path, capsys):
    few = ("--problem", "bcwd-logr", "--method", "gols-i", "--seeds", "1", "--budget", "8")
    assert verb("run", "bcwd", *few, "--known", file, "--out", tmp_path / "out") != 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "must have runs like those of bcwd, but all its runs are of comparisons" in shown
    assert verb("run", "bcwd", *few, "--batch-size", "10", "--out", tmp_path / "out", "--backend", "inline") == 0
    assert verb("results", tmp_path / "out", "--pack", tmp_path / "paper.json.gz") == 0
    assert verb("run", "train", *SMALL, *SIZES, "--known", tmp_path / "paper.json.gz", "--out", tmp_path / "out") != 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "must have runs of a comparison like train, but none of its runs is of one" in shown


def test_all_runs_of_a_directory_are_packed_or_those_that_are_chosen(made, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "all.json.gz"
    shutil.copytree(made, out)
    few = ("--problem", "bcwd-logr", "--method", "gols-i", "--batch-size", "10", "--seeds", "1", "--budget", "8")
    assert verb("run", "bcwd", *few, "--out", out, "--backend", "inline", "--quiet") == 0
    assert verb("results", out, "--pack", file) == 0
    assert len(unpack(file).runs) == 15
    assert verb("results", file, "--pack", tmp_path / "some.json.gz", "--problem", "bcwd-logr") == 0
    assert [run.problem for run in unpack(tmp_path / "some.json.gz").runs] == ["bcwd-logr"]
    capsys.readouterr()
    assert verb("results", out, "--pack", tmp_path / "none.json.gz", "--problem", "iris") == 2
    assert "has no such results, but some of problem: " in capsys.readouterr().err
    assert not (tmp_path / "none.json.gz").exists()
