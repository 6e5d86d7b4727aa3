"""The comparison is a study: run, resumed, shown, packed, drawn and reported by the verbs of all studies."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from gradline.lab import studies, summary
from gradline.lab.cli import main
from gradline.lab.figures import FIGURES
from gradline.lab.findings.packed import unpack
from gradline.lab.jobs.store import Store
from gradline.lab.methods import GROUPS, METHODS, Peer

GRIDS = ("scheduled", "adamw-", "momentum-", "schedule-free-")
SCHEDULED = {name for group, names in GROUPS.items() if group.startswith(GRIDS) for name in names}
SMALL = ("--problem", "regression/10", "--method", "gols-i", "--method", "sgd", "--seeds", "2", "--budget", "6")


def verb(*arguments):
    return main([str(text) for text in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two seeds of GOLS-I and of SGD's grid on one setting."""
    directory = tmp_path_factory.mktemp("compare")
    assert verb("run", "compare", *SMALL, "--out", directory, "--backend", "inline", "--quiet") == 0
    return directory


def test_it_is_made_once_and_its_command_is_kept(made, capsys):
    assert verb("run", "compare", *SMALL, "--out", made, "--backend", "inline") == 0
    assert "All 12 runs are in" in capsys.readouterr().err
    first, _ = (made / "commands.txt").read_text().splitlines()
    assert first.startswith("gradline run compare --problem regression/10 --method gols-i --method sgd --seeds 2")


def test_peers_are_in_the_same_store_with_their_times(made):
    frame = summary(made)
    assert set(frame.method) == {"gols-i", *GROUPS["sgd"]}
    assert set(frame.engine) == {"ordinary"}
    store = Store(made)
    keys = store.keys()
    for key in keys:
        columns = store.load(key).columns
        assert columns["cpu_seconds"][0] >= 0.0
        assert columns["evaluations"][-1] >= 6


def test_it_is_shown_with_the_best_and_the_median_of_a_grid(made, capsys):
    assert verb("results", made) == 0
    shown = capsys.readouterr().out
    assert "regression/10" in shown
    assert "target 0.22" in shown
    assert "6 evaluations" in shown
    assert "sgd best" in shown
    assert "sgd median" in shown
    assert "sgd-0.1" not in shown
    assert verb("results", made, "--runs") == 0
    assert "sgd-0.1" in capsys.readouterr().out


def test_a_packed_file_is_shown_as_its_directory_is(made, tmp_path, capsys):
    file, lines = tmp_path / "compare.json.gz", tmp_path / "a.csv"
    assert verb("results", made, "--memory", "--pack", file, "--csv", lines) == 0
    shown = capsys.readouterr()
    assert "compare.json.gz: 12 runs" in shown.err
    assert "Peak memory" in shown.out
    with lines.open() as opened:
        assert {line["method"] for line in csv.DictReader(opened)} == {"gols-i", "sgd best", "sgd median"}
    assert unpack(file).memory == {"gols-i": 3.0, "sgd": 1.0}
    assert unpack(file).commands[0].startswith("gradline run compare --problem regression/10")
    assert "--out" not in unpack(file).commands[0]
    assert verb("results", file) == 0
    assert capsys.readouterr().out == shown.out
    assert verb("results", file, "--method", "prls") == 2
    assert "has no such results" in capsys.readouterr().err


def test_it_is_drawn_and_reported(made, tmp_path, monkeypatch):
    of_runs = {name: figure for name, figure in FIGURES.items() if figure.needs}  # illustrations are drawn elsewhere
    monkeypatch.setattr("gradline.lab.figures.FIGURES", of_runs)
    assert verb("figures", made, "--out", tmp_path) == 0
    for name in ("compare_heat.png", "compare_profile.pdf", "compare_test_error_seconds.pdf"):
        assert (tmp_path / name).stat().st_size > 1000
    assert verb("report", made, "--out", tmp_path / "a.html", "--no-illustrations") == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "12 runs of a comparison" in page
    assert "linear regression whose Hessian" in page
    assert "torch.optim.SGD(lr=0.1)" in page


def test_a_failure_is_the_result_of_its_run(tmp_path, capsys, monkeypatch):
    def broken(objective):
        raise RuntimeError("this peer does not work here")

    monkeypatch.setitem(METHODS, "lbfgs", replace(METHODS["lbfgs"], make=broken))
    small = ("--problem", "regression/10", "--seeds", 1, "--budget", 6, "--out", tmp_path, "--backend", "inline")
    assert verb("run", "compare", *small, "--method", "lbfgs") == 0
    assert verb("run", "compare", *small, "--method", "lbfgs") == 0
    assert "All 1 run are in" in capsys.readouterr().err
    assert verb("results", tmp_path) == 0
    assert "1 × RuntimeError: this peer does not work here" in capsys.readouterr().out


def test_a_peer_that_is_not_installed_is_left_out_and_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gradline.lab.methods.method.find_spec", lambda name: None if name == "prodigyopt" else name)
    small = ("--problem", "regression/10", "--seeds", 1, "--budget", 6, "--out", tmp_path, "--backend", "inline")
    assert verb("run", "compare", *small, "--method", "gols-i", "--method", "prodigy") == 0
    assert "prodigy is left out: prodigyopt is not installed" in capsys.readouterr().err
    assert set(summary(tmp_path).method) == {"gols-i"}
    assert verb("run", "compare", *small, "--method", "prodigy") == 2


def test_the_study_has_every_problem_and_every_peer():
    study = studies.load("compare")
    assert {method.name for method in study.methods} == {
        name
        for name, method in METHODS.items()
        if (isinstance(method, Peer) and name not in SCHEDULED) or name in GROUPS["gradline"]
    }
    assert len(study.settings) == 30
    assert len(studies.plan(study)) == 30 * len(study.methods) * 5
    held_out = studies.load("compare", problems=["held-out"])
    assert {setting.held_out for setting in held_out.settings} == {True}


@pytest.mark.parametrize(
    ("problems", "methods", "message"),
    [
        (["regresion"], [], "there is no problem 'regresion'; did you mean 'regression'"),
        (["regression/7"], [], "there is no problem 'regression/7'"),
        ([], ["prodgy"], "there is no method 'prodgy'; did you mean 'prodigy'"),
    ],
)
def test_names_that_are_not_known_are_refused(problems, methods, message):
    with pytest.raises(ValueError, match=message):
        studies.load("compare", problems=problems, methods=methods)


def test_a_worker_process_makes_what_this_one_makes(made, tmp_path):
    assert verb("run", "compare", *SMALL, "--out", tmp_path, "--workers", "1", "--quiet") == 0
    left, right = (Store(directory) for directory in (made, tmp_path))
    assert left.keys() == right.keys()
    keys = left.keys()
    for key in keys:
        assert left.load(key).columns["train_loss"][-1] == right.load(key).columns["train_loss"][-1]
