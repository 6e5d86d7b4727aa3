"""`gradline bench` on tiny budgets: what it lists, makes, resumes, shows and refuses."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from gradline.lab.bench.planning import plan
from gradline.lab.bench.store import Store
from gradline.lab.cli.bench import bench
from gradline.lab.methods.peers import METHODS
from gradline.lab.problems.bench import HELD_OUT, PROBLEMS


def verb(*arguments):
    words = [str(text) for text in arguments]
    return bench.main(words, "gradline bench", standalone_mode=False, obj=["bench", *words])


SMALL = ("--problems", "regression/10", "--methods", "gols-i,sgd", "--seeds", 2, "--budget", 6)


def test_it_makes_runs_shows_them_and_goes_on(tmp_path, capsys):
    assert verb(*SMALL, "--out", tmp_path) == 0
    shown = capsys.readouterr()
    assert "regression/10" in shown.out
    assert "sgd best" in shown.out
    assert "sgd median" in shown.out
    assert "sgd-0.1" not in shown.out
    assert "12 runs made" in shown.err
    assert verb(*SMALL, "--out", tmp_path) == 0
    assert "0 runs made" in capsys.readouterr().err
    (command,) = (tmp_path / "commands.txt").read_text().splitlines()
    assert command.startswith("gradline bench --problems regression/10 --methods gols-i,sgd --seeds 2")


def test_it_writes_the_lines_and_figures(tmp_path, capsys):
    verb(*SMALL, "--out", tmp_path, "--quiet", "--csv", tmp_path / "a.csv", "--figures", tmp_path / "figures")
    with (tmp_path / "a.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["method"] for line in lines} == {"gols-i", "sgd best", "sgd median"}
    assert all(float(line["train_loss_best"]) <= float(line["train_loss_worst"]) for line in lines)
    assert (tmp_path / "figures" / "bench_profile.png").stat().st_size > 1000
    assert (tmp_path / "figures" / "bench_test_error_seconds.pdf").stat().st_size > 1000


def test_a_failure_is_shown_with_its_reason(tmp_path, capsys, monkeypatch):
    def broken(objective):
        raise RuntimeError("this peer does not work here")

    monkeypatch.setitem(METHODS, "lbfgs", replace(METHODS["lbfgs"], build=broken))
    verb("--problems", "regression/10", "--methods", "lbfgs", "--seeds", 1, "--budget", 6, "--out", tmp_path)
    shown = capsys.readouterr()
    assert "1 × RuntimeError: this peer does not work here" in shown.out
    assert "RuntimeError: this peer does not work here" in shown.err


def test_a_peer_that_is_not_installed_is_shown_as_not_available(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "gradline.lab.methods.peers.method.find_spec", lambda name: None if name == "prodigyopt" else name
    )
    arguments = ("--problems", "regression/10", "--seeds", 1, "--budget", 6, "--out", tmp_path)
    verb(*arguments, "--methods", "gols-i,prodigy")
    assert "prodigy: not available (prodigyopt is not installed" in capsys.readouterr().out
    assert [record.run.method for record in Store(tmp_path).records()] == ["gols-i"]


def test_the_list_has_every_problem_and_method(capsys):
    verb("--list")
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*PROBLEMS, *METHODS))


def test_memory_is_told_in_copies_of_the_parameters(tmp_path, capsys):
    arguments = ("--problems", "regression/10", "--seeds", 1, "--budget", 6, "--out", tmp_path, "--memory")
    verb(*arguments, "--methods", "gols-i,sgd-0.1,adam-0.1")
    lines = capsys.readouterr().out.split("Peak memory")[1].splitlines()[2:]
    assert {line.split()[0]: float(line.split()[-1]) for line in lines if line} == {
        "gols-i": 3.0,
        "sgd": 1.0,
        "adam": 5.0,
    }


def test_memory_of_a_method_that_fails_is_told(tmp_path, capsys, monkeypatch):
    def broken(objective):
        raise RuntimeError("not here")

    monkeypatch.setitem(METHODS, "lbfgs", replace(METHODS["lbfgs"], build=broken))
    arguments = ("--problems", "regression/10", "--seeds", 1, "--budget", 3, "--out", tmp_path, "--memory")
    verb(*arguments, "--methods", "lbfgs")
    assert "failed: RuntimeError" in capsys.readouterr().out


def test_groups_of_problems_and_methods_stand_for_their_members():
    made = plan(["held-out"], ["gradline"], 1)
    assert {setting.problem.name for setting in made.settings} == set(HELD_OUT)
    assert made.methods == ("angle", "angle-average", "gols-i", "gols-i-adam", "gols-i-adam-0", "prls")
    whole = plan([], [], 5)
    assert {*whole.methods, *whole.absent} == set(METHODS)
    settings = sum(len(problem.sizes) for problem in PROBLEMS.values())
    assert len(whole.runs) == len({run.key for run in whole.runs}) == 5 * len(whole.methods) * settings


@pytest.mark.parametrize(
    ("problems", "methods", "message"),
    [
        (["regresion"], [], "there is no problem 'regresion'; did you mean 'regression'"),
        (["regression/7"], [], "batch_size must be one of 10, 100, 1000 for regression"),
        (["regression/x"], [], "problem must be a name, or a name and a batch size"),
        ([], ["prodgy"], "there is no method 'prodgy'; did you mean 'prodigy'"),
    ],
)
def test_names_that_are_not_known_are_refused(problems, methods, message):
    with pytest.raises(ValueError, match=message):
        plan(problems, methods, 1)


def test_nothing_to_summarise_says_what_to_do(tmp_path):
    with pytest.raises(Exception, match="has none of these runs"):
        verb(*SMALL, "--out", tmp_path, "--summary")
