"""Runs are kept whole, resumed, interleaved, and made once."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from lab.bench_cases import TINY, record, run

import gradline.lab.bench.training
from gradline.lab.bench.runner import run_bench
from gradline.lab.bench.runs import Run, Status, interleaved
from gradline.lab.bench.store import Store
from gradline.lab.jobs.locks import Locks
from gradline.lab.problems.bench import PROBLEMS


@pytest.fixture
def tiny(monkeypatch):
    """The tiny problem, known by its name; and which runs were made."""
    monkeypatch.setitem(PROBLEMS, "tiny", TINY)
    made = []
    train = gradline.lab.bench.training.train

    def noted(run, **options):
        made.append(run)
        return train(run, **options)

    monkeypatch.setattr(gradline.lab.bench.training, "train", noted)
    return made


def test_a_record_is_read_as_it_was_written(tmp_path):
    store = Store(tmp_path)
    written = record("sgd-0.1", [1.0, math.nan, math.inf], status=Status.FAILED, reason="ValueError: no")
    store.save(written)
    read = store.load(written.run)
    assert math.isnan(read.points[1].train_loss)
    assert read.points[2] == written.points[2]
    assert (read.run, read.status, read.reason, read.versions) == (
        written.run,
        written.status,
        written.reason,
        written.versions,
    )
    json.loads(store.path(written.run).read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_torn_file_is_told_of_and_made_again(tmp_path, tiny):
    told = []
    store = Store(tmp_path, report=told.append)
    one = run(budget=6)
    run_bench([one], tmp_path)
    text = store.path(one).read_bytes()
    store.path(one).write_bytes(text[: len(text) // 2])
    assert not store.has(one)
    assert len(told) == 1
    assert "cannot be believed" not in told[0]
    assert "counts as missing" in told[0]
    assert run_bench([one], tmp_path).made == 1
    assert store.has(one)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[]", b"null", b'{"format": 1, "points": 3}', b"\xff\xfe"])
def test_a_file_of_anything_else_counts_as_missing(tmp_path, content):
    told = []
    store = Store(tmp_path, report=told.append)
    written = record("sgd-0.1", [1.0])
    path = store.save(written)
    path.write_bytes(content)
    assert not store.has(written.run)
    assert list(store.records()) == []
    assert len(told) == 1
    assert told[0].startswith(f"{path} is not a record")


def test_a_file_of_another_run_is_not_believed(tmp_path, tiny):
    store = Store(tmp_path)
    run_bench([run(budget=6)], tmp_path)
    store.path(run(budget=6)).rename(store.path(run(budget=7)))
    assert not store.has(run(budget=7))


def test_what_is_there_is_not_made_again(tmp_path, tiny):
    runs = [run(name, budget=6) for name in ("sgd-0.1", "gols-i", "adam-0.1")]
    assert run_bench(runs[:2], tmp_path).made == 2
    done = run_bench(runs, tmp_path)
    assert (done.before, done.made) == (2, 1)
    assert [one.method for one in tiny] == ["sgd-0.1", "gols-i", "adam-0.1"]
    assert len(list(Store(tmp_path).records())) == 3


def test_an_interrupt_keeps_what_is_finished(tmp_path, tiny):
    class Impatient:
        def update(self, snapshot):
            if snapshot.done == 1:
                raise KeyboardInterrupt

        def message(self, text):
            pass

        def error(self, text):
            pass

    runs = [run(seed=seed, budget=6) for seed in range(3)]
    with pytest.raises(KeyboardInterrupt):
        run_bench(runs, tmp_path, observer=Impatient())
    store = Store(tmp_path)
    assert store.missing(runs) == runs[1:]
    assert not list(store.folder.glob(".*"))
    assert run_bench(runs, tmp_path).made == 2


def test_a_failure_is_stored_and_told(tmp_path, tiny):
    told = []

    class Listener:
        def update(self, snapshot):
            pass

        def message(self, text):
            pass

        def error(self, text):
            told.append(text)

    alone = Run(problem="tiny", batch_size=1, method="prls", seed=0, budget=6)  # one sample has no variance
    done = run_bench([alone], tmp_path, observer=Listener())
    assert len(done.failed) == 1
    assert told[0].startswith("prls on tiny/1, seed 0: ")
    assert Store(tmp_path).load(alone).status is Status.FAILED
    assert run_bench([alone], tmp_path).made == 0


def test_a_run_that_another_process_makes_is_left_to_it(tmp_path, tiny):
    one = run(budget=6)
    with Locks(tmp_path.resolve()) as locks:
        locks.take([one.key])
        done = run_bench([one], tmp_path)
    assert (done.made, done.elsewhere) == (0, 1)
    assert not tiny


def test_methods_are_interleaved_and_take_turns_at_being_first():
    runs = interleaved([("a", 1, 9, 1), ("b", 2, 9, 1)], ["x", "y", "z"], range(2))
    order = [f"{one.seed}{one.problem}{one.method}" for one in runs]
    assert order == ["0ax", "0ay", "0az", "0by", "0bz", "0bx", "1ay", "1az", "1ax", "1bz", "1bx", "1by"]


def test_several_processes_make_what_one_makes(tmp_path):
    runs = [run(name, problem="regression", batch_size=10, budget=4) for name in ("sgd-0.1", "gols-i")]
    assert run_bench(runs, tmp_path / "two", workers=2).made == 2
    assert run_bench(runs, tmp_path / "one").made == 2
    for one in runs:
        left, right = (Store(tmp_path / name).load(one) for name in ("one", "two"))
        assert [point.train_loss for point in left.points] == [point.train_loss for point in right.points]


def test_workers_must_be_above_zero(tmp_path):
    with pytest.raises(ValueError, match="workers must be a whole number above 0"):
        run_bench([], tmp_path, workers=0)


def test_the_progress_ends_with_everything_done(tmp_path, tiny):
    seen = []

    class Watcher:
        def update(self, snapshot):
            seen.append(snapshot)

        def message(self, text):
            pass

        def error(self, text):
            pass

    run_bench([run(seed=seed, budget=6) for seed in range(2)], tmp_path, observer=Watcher())
    assert seen[0].fraction == 0.0
    assert (seen[-1].fraction, seen[-1].done, seen[-1].evaluations) == (1.0, 2, 12)
    assert all(before.evaluations <= after.evaluations for before, after in pairwise(seen))
