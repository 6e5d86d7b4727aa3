"""Curves for TensorBoard: what is in the event files when they are read back."""

import os
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from lab import small_store

from gradline.lab import run_study
from gradline.lab.engines import make
from gradline.lab.jobs.progress import partial_results
from gradline.lab.jobs.result import PARTIAL_COLUMNS, measurements
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.jobs.store import Store
from gradline.lab.jobs.work import write_report
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS
from gradline.lab.studies import plan

pytest.importorskip("tensorboard")

from gradline.lab.jobs.tensorboard import TAGS, TensorBoard, folder_of, medians

PROBLEM = PROBLEMS["bcwd-logr"]


def run(seed=0, budget=100, **others):
    return Run(problem=PROBLEM, method=METHODS["gols-i"], batch_size=10, seed=seed, budget=budget, **others)


def growth(until, value=1.0, every=10):
    """A run that has measured this value every ten evaluations."""
    at = np.arange(0.0, until + 1.0, every)
    return {name: at if name == "evaluations" else np.full(len(at), float(value)) for name in PARTIAL_COLUMNS}


def events(folder):
    """Step and value of every scalar that TensorBoard would show: run, tag."""
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    reader = EventMultiplexer(size_guidance={"scalars": 0, "tensors": 0}).AddRunsFromDirectory(str(folder))
    reader.Reload()
    shown = {}
    for name in reader.Runs():
        for tag in reader.GetAccumulator(name).Tags()["scalars"]:
            shown[name, tag] = [(event.step, event.value) for event in reader.Scalars(name, tag)]
    return shown


def follow(board, grown_runs, finished=()):
    board.follow({one.key: (one, so_far) for one, so_far in grown_runs}, {one.key for one in finished})


def test_medians_by_hand():
    table = medians([(run(0), growth(20, 1.0)), (run(1), growth(40, 3.0)), (run(2), growth(40, 5.0))])
    np.testing.assert_array_equal(table["evaluations"], [0, 10, 20, 30, 40])
    np.testing.assert_array_equal(table["train_loss"], [3, 3, 3, 4, 4])
    assert medians([(run(), growth(-1))]).shape == (0, len(PARTIAL_COLUMNS))


def test_a_curve_is_thinned():
    table = medians([(run(budget=100_000), growth(100_000))])
    assert 250 <= len(table) <= 302
    assert table["evaluations"].iloc[-1] == 100_000


def test_curves_grow(tmp_path):
    board = TensorBoard(tmp_path)
    follow(board, [(run(), growth(20))])
    first = events(tmp_path)
    assert {tag for _, tag in first} == set(TAGS.values())
    assert [step for step, _ in first["bcwd-logr/b10/gols-i", "loss/train"]] == [0, 10, 20]
    follow(board, [(run(), growth(40))])
    assert events(tmp_path)["bcwd-logr/b10/gols-i", "loss/train"] == [(step, 1.0) for step in (0, 10, 20, 30, 40)]
    board.close()


def test_a_run_that_comes_later_changes_the_median_when_a_run_has_ended(tmp_path):
    def shown():
        return [value for _, value in events(tmp_path)["bcwd-logr/b10/gols-i", "error/test"]]

    board = TensorBoard(tmp_path)
    first, second = (run(0), growth(60, 1.0)), (run(1), growth(20, 3.0))
    follow(board, [(run(0), growth(40, 1.0))])
    follow(board, [first, second])
    assert shown() == [1.0] * 7
    follow(board, [first, second], finished=[run(0)])
    assert shown() == [2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    follow(board, [first, (run(1), growth(60, 3.0))], finished=[run(0), run(1)])
    board.close()
    assert shown() == [2.0] * 7


def test_what_is_not_finite_is_left_out(tmp_path):
    so_far = growth(20)
    so_far["train_loss"] = np.array([1.0, np.inf, 2.0])
    so_far["test_loss"][:] = np.nan
    board = TensorBoard(tmp_path)
    follow(board, [(run(), so_far)])
    board.close()
    shown = events(tmp_path)
    assert shown["bcwd-logr/b10/gols-i", "loss/train"] == [(0, 1.0), (20, 2.0)]
    assert ("bcwd-logr/b10/gols-i", "loss/test") not in shown


def test_each_setting_has_a_folder():
    assert folder_of(run()).as_posix() == "bcwd-logr/b10/gols-i"
    assert folder_of(run(sampling=Sampling.STATIC)).as_posix() == "bcwd-logr/b10/gols-i/static"
    assert folder_of(run(direction_batch_size=50)).as_posix() == "bcwd-logr/b10/gols-i/direction-b50"
    names = ["a_b", "a b", "a-b"]
    folders = [folder_of(replace(run(), problem=replace(PROBLEM, name=name))) for name in names]
    assert len(set(folders)) == len(names)
    assert all(len(folder.parts) == 3 and ".." not in folder.parts for folder in folders)


def test_engines_tell_how_far_runs_are():
    some = [run(seed, budget=600) for seed in range(2)]
    running = make(some)
    while running.evaluations < 800:  # points to measure wait for each other
        running.advance()
    early = running.partial_results()
    assert set(early) == {one.key for one in some}
    while running.active:
        running.advance()
    for result in running.finished():
        whole, part = measurements(result.columns), early[result.run.key]
        length = len(part["evaluations"])
        assert 1 <= length < len(whole["evaluations"])
        for name in PARTIAL_COLUMNS:
            np.testing.assert_array_equal(part[name], whole[name][:length], err_msg=name)


def test_what_is_laid_down_is_read_again(tmp_path):
    laid = {"a": growth(20), "b/ü": growth(-1)}
    write_report(tmp_path / "x.npz", (20, 20, 0), laid)
    again = partial_results(tmp_path / "x.npz")
    assert list(again) == ["a", "b/ü"]
    for key in laid:
        for name in PARTIAL_COLUMNS:
            np.testing.assert_array_equal(again[key][name], laid[key][name])
    assert partial_results(tmp_path / "none.npz") == {}


def test_a_study_writes_them(tmp_path):
    study = small_store.study([PROBLEM], seeds=3)
    board = TensorBoard(tmp_path / "logs")
    run_study(study, tmp_path / "out", backend="inline", follower=board)
    shown = events(tmp_path / "logs")
    assert {name for name, _ in shown} == {
        f"bcwd-logr/b{size}/{method}" for size in (10, 50) for method in ("gols-i", "prls")
    }
    store = Store(tmp_path / "out")
    tables = [store.load(one.key).columns for one in plan(study) if (one.batch_size, one.method.name) == (10, "prls")]
    first = np.median([table["train_loss"][0] for table in tables])
    step, value = shown["bcwd-logr/b10/prls", "loss/train"][0]
    assert (step, value) == (0, pytest.approx(first, rel=1e-6))
    assert shown["bcwd-logr/b10/prls", "loss/train"][-1][0] == small_store.BUDGET
    # Again, with nothing to do: everything is there once. (Event files are in the order of their seconds.)
    time.sleep(1.1)
    run_study(study, tmp_path / "out", backend="inline", follower=TensorBoard(tmp_path / "logs"))
    assert events(tmp_path / "logs") == shown


@pytest.mark.slow
def test_a_run_in_the_middle_of_its_budget_is_seen(tmp_path):
    """With real workers: the follower sees points of runs before any run has ended."""
    seen = []

    class Watching:
        def follow(self, grown, finished):
            if grown and not finished and not seen:
                seen.append(max(len(so_far["evaluations"]) for _, so_far in grown.values()))
                os.kill(os.getpid(), 2)  # enough: the study stops, as by Ctrl-C

        def close(self):
            seen.append("closed")

    from gradline.lab.jobs.runner import Interrupted

    study = small_store.study([PROBLEMS["bcwd-netpi-10"]], batch_sizes=(100,), seeds=2, budget=500_000)
    assert threading.current_thread() is threading.main_thread()
    begun = time.monotonic()
    with pytest.raises(Interrupted):
        run_study(study, tmp_path, workers=1, follower=Watching())
    assert seen[-1] == "closed", f"after {time.monotonic() - begun:.0f} s"
    assert seen[0] >= 1


def test_without_tensorboard_it_says_how_to_install_it(tmp_path, monkeypatch, capsys):
    from gradline.lab.cli import main

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["run", "bcwd", "--seeds", "1", "--budget", "10", "--out", str(tmp_path), "--tensorboard"]) == 2
    assert "pip install '.[tensorboard]' in a clone of gradline" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
