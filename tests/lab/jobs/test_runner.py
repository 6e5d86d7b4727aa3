"""The runner: only what is missing is made, and whatever dies, what comes out is the same, bit for bit."""

import itertools
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import Executor, Future
from contextlib import contextmanager

import pytest
from lab import fake_engine
from lab.helping import assert_complete, has_state, python, small, wait_until

from gradline.lab.jobs import runner
from gradline.lab.jobs.checkpoints import Checkpoints
from gradline.lab.jobs.executors import Inline
from gradline.lab.jobs.progress import Observer
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.studies import plan
from gradline.lab.studies.running import run_study


class Listener(Observer):
    def __init__(self):
        self.messages, self.errors, self.snapshots = [], [], []

    def message(self, text):
        self.messages.append(text)

    def error(self, text):
        self.errors.append(text)

    def update(self, snapshot):
        self.snapshots.append(snapshot)


@pytest.fixture
def hold(tmp_path_factory):
    """A file that holds up an engine until it is removed."""
    file = tmp_path_factory.mktemp("hold") / "hold"
    file.touch()
    return file


def run(study, out, **options):
    options = {"backend": "inline", "make_engine": fake_engine.make, "key": fake_engine.key, **options}
    return run_study(study, out, **options)


def test_only_what_is_missing_is_made(tmp_path):
    done = run(small(seeds=2), tmp_path)
    assert (done.runs, done.before, done.made, done.failures) == (2, 0, 2, ())
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    study = small(seeds=5, methods=("gols-i", "prls"))
    done = run(study, tmp_path)
    assert (done.runs, done.before, done.made) == (10, 2, 8)
    assert_complete(tmp_path, study)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert run(study, tmp_path).made == 0


def test_progress_reaches_the_end(tmp_path):
    listener = Listener()
    study = small(seeds=4)
    run(study, tmp_path, observer=listener)
    last = listener.snapshots[-1]
    assert (last.done, last.runs, last.fraction) == (4, 4, 1.0)
    assert last.evaluations == last.total_evaluations == 4 * 40


@pytest.mark.parametrize("broken", ["follow", "close"])
def test_a_live_view_that_fails_does_not_stop_a_study(tmp_path, broken):
    class Full:
        def follow(self, measured, finished):
            self.write("follow")

        def close(self):
            self.write("close")

        def write(self, call):
            if call == broken:
                raise OSError(28, "No space left on device")

    listener = Listener()
    done = run_study(small(seeds=3), tmp_path, backend="inline", observer=listener, follower=Full())
    assert (done.made, done.failures) == (3, ())
    assert listener.messages == ["the live view ends here ([Errno 28] No space left on device); the study goes on"]


def test_worker_processes_do_it_too(tmp_path):
    study = small(seeds=8, problems=("bcwd-logr", "bcwd-netpi"))
    assert run(study, tmp_path, backend="processes", workers=2).made == 16
    assert_complete(tmp_path, study)


def test_a_study_goes_on_from_checkpoints(tmp_path):
    study = small(seeds=3)
    runs = plan(study)
    engine = fake_engine.make(runs, None)
    for _ in range(7):
        engine.advance()
    state = engine.state_dict()
    for rows in state["rows"].values():  # what would not be there if the runs began anew
        rows[0]["slope"] = 123.0
    checkpoints = Checkpoints(tmp_path, report=pytest.fail)
    checkpoints.write(checkpoints.of(runs), state)
    listener = Listener()
    run(study, tmp_path, observer=listener)
    assert any("resuming 3 runs" in text for text in listener.messages)
    store = Store(tmp_path)
    assert {store.load(run.key).columns["slope"][0] for run in runs} == {123.0}
    assert not (tmp_path / "checkpoints").exists()


def test_a_checkpoint_of_finished_and_unfinished_runs_is_taken_up(tmp_path):
    study = small(seeds=3)
    runs = plan(study)
    engine = fake_engine.make(runs, None)
    engine.advance()
    checkpoints = Checkpoints(tmp_path, report=pytest.fail)
    checkpoints.write(checkpoints.of(runs), engine.state_dict())
    Store(tmp_path).save(fake_engine.result_of(runs[1]))
    listener = Listener()
    assert run(study, tmp_path, observer=listener).made == 2
    assert any("resuming 2 runs" in text for text in listener.messages)
    assert_complete(tmp_path, study)


def test_a_group_that_was_killed_at_once_is_made_again_as_a_whole(tmp_path):
    # Runs that share an engine share its roundings: the finished one goes along.
    study = small(seeds=3)
    runs = plan(study)
    checkpoints = Checkpoints(tmp_path, report=pytest.fail)
    checkpoints.write(checkpoints.of(runs), None)
    Store(tmp_path).save(fake_engine.result_of(runs[1]))
    made = []

    def make(runs, state):
        made.append(([run.key for run in runs], state))
        return fake_engine.make(runs, state)

    run(study, tmp_path, make_engine=make)
    assert made == [([run.key for run in runs], None)]
    assert_complete(tmp_path, study)


@pytest.mark.parametrize("named", ["search", "model", "data"])
def test_nothing_that_a_checkpoint_names_is_imported(tmp_path, named, monkeypatch):
    """Of runs that are stored already, too: they are part of an engine that is taken up."""
    (tmp_path / "trap_of_checkpoint.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    study, out = small(seeds=2), tmp_path / "out"
    mine, other = plan(study)
    if named == "search":
        values = {**other.to_dict(), "method": {**other.method.to_dict(), "search": "trap_of_checkpoint:from_dict"}}
    else:
        values = {**other.to_dict(), "problem": {**other.to_dict()["problem"], named: "trap_of_checkpoint:it"}}
    trap = Run.from_dict(values)
    assert trap.to_dict() == values
    monkeypatch.setattr(Store, "has", lambda store, run, has=Store.has: run == trap or has(store, run))
    said = []
    checkpoints = Checkpoints(out, report=said.append)
    checkpoints.write(checkpoints.of([mine, trap]), {"anything": 1})
    assert checkpoints.usable([mine, other], Store(out)) == []
    assert len(said) == 1
    assert "is not used" in said[0]
    assert {"search": "not imported"}.get(named, "not that of the runs") in said[0]
    assert "trap_of_checkpoint" not in sys.modules


@pytest.mark.parametrize("harm", ["torn", "version", "others", "state"])
def test_a_stale_checkpoint_is_passed_over_with_a_message(tmp_path, harm, monkeypatch):
    study = small(seeds=3)
    runs = plan(study)
    checkpoints = Checkpoints(tmp_path, report=pytest.fail)
    held = plan(small(seeds=4)) if harm == "others" else runs
    checkpoint = checkpoints.of(held)
    state = fake_engine.make(held, None).state_dict()
    if harm == "version":
        monkeypatch.setattr("gradline.lab.jobs.checkpoints.versions", lambda: {"gradline": "0.0.1", "torch": "0"})
    checkpoints.write(checkpoint, {"what": 1} if harm == "state" else state)
    monkeypatch.undo()
    if harm == "torn":
        checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-40])
    listener = Listener()
    run(study, tmp_path, observer=listener)
    expected = {
        "torn": "damaged",
        "version": "gradline 0.0.1",
        "others": "holds other runs",
        "state": "'rows'",
    }[harm]
    assert any(expected in text and "start anew" in text for text in listener.messages), listener.messages
    if harm == "others":
        assert checkpoint.path.exists()  # somebody may still ask for the others
        run(small(seeds=4), tmp_path)
        assert not checkpoint.path.exists()
    else:
        checkpoint.path.unlink(missing_ok=True)
        (tmp_path / "checkpoints").exists() and (tmp_path / "checkpoints").rmdir()
        assert_complete(tmp_path, study)


def test_a_bad_run_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADLINE_FAKE_RAISE", "1")
    study, listener = small(seeds=4), Listener()
    done = run(study, tmp_path, observer=listener)
    bad = plan(study)[1]
    assert [failure.key for failure in done.failures] == [bad.key]
    assert "ZeroDivisionError: seed 1 divides by zero" in done.failures[0].error
    assert "fake_engine" in done.failures[0].trace
    assert any(bad.key in text for text in listener.errors)
    assert Store(tmp_path).missing(plan(study)) == [bad]
    monkeypatch.delenv("GRADLINE_FAKE_RAISE")
    assert run(study, tmp_path).made == 1
    assert_complete(tmp_path, study)


def test_a_worker_that_dies_is_replaced(tmp_path, monkeypatch):
    kills = tmp_path / "kills"
    kills.write_text("xx", encoding="utf-8")
    monkeypatch.setenv("GRADLINE_FAKE_KILL", str(kills))
    study, listener = small(seeds=6), Listener()
    done = run(study, tmp_path / "out", backend="processes", workers=2, observer=listener)
    assert done.failures == ()
    assert kills.read_text(encoding="utf-8") == ""
    assert sum("a worker died" in text for text in listener.errors) == 2
    assert_complete(tmp_path / "out", study)


@pytest.mark.slow
def test_a_task_that_always_kills_its_worker_is_given_up(tmp_path, monkeypatch):
    kills = tmp_path / "kills"
    kills.write_text("x" * 99, encoding="utf-8")
    monkeypatch.setenv("GRADLINE_FAKE_KILL", str(kills))
    done = run(small(seeds=1), tmp_path / "out", backend="processes", workers=1, observer=Listener())
    assert [failure.error for failure in done.failures] == ["its worker died 3 times (was it out of memory?)"]


PROGRAM = """
    import sys
    from lab import fake_engine
    from lab.helping import small
    from gradline.lab.jobs.runner import Interrupted
    from gradline.lab.studies.running import run_study

    class Talk:
        def update(self, snapshot): pass
        def message(self, text): print(text, flush=True)
        def error(self, text): print(text, flush=True)

    if __name__ == "__main__":
        try:
            done = run_study(
                small(seeds=4, budget=60), sys.argv[1], workers=2, backend=sys.argv[2], checkpoint_every=0.05,
                make_engine=fake_engine.make, key=fake_engine.key, observer=Talk(),
            )
        except Interrupted:
            sys.exit(130)
        print("made", done.made, "failed", len(done.failures))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_kill_9_at_random_moments_then_resume_equals_uninterrupted(tmp_path, backend):
    study, moments = small(seeds=4, budget=60), random.Random(backend)
    for _ in range(2):
        program = python(PROGRAM, tmp_path, backend, GRADLINE_FAKE_PACE=0.03)
        wait_until(lambda: has_state(tmp_path) or program.poll() is not None)
        time.sleep(moments.uniform(0.0, 0.3))
        program.kill()
        program.communicate()
    program = python(PROGRAM, tmp_path, backend)
    out, err = program.communicate()
    assert program.returncode == 0, err
    assert "resuming" in out or "made 0" in out or "waiting" in out
    assert_complete(tmp_path, study)


@pytest.mark.parametrize(("number", "backend"), [(signal.SIGINT, "processes"), (signal.SIGTERM, "inline")])
def test_a_signal_writes_a_checkpoint_and_resume_equals_uninterrupted(tmp_path, number, backend, hold):
    program = python(PROGRAM, tmp_path, backend, GRADLINE_FAKE_PACE=0.03, GRADLINE_FAKE_HOLD=hold)
    wait_until(lambda: has_state(tmp_path))
    os.kill(program.pid, number)
    hold.unlink()
    out, err = program.communicate(timeout=240)
    assert program.returncode == 130, err
    assert "stopping: writing checkpoints" in out
    assert has_state(tmp_path)
    assert not (tmp_path / "runners").exists()
    listener = Listener()
    run(small(seeds=4, budget=60), tmp_path, observer=listener)
    assert any("resuming" in text for text in listener.messages)
    assert_complete(tmp_path, small(seeds=4, budget=60))


@pytest.mark.slow
def test_two_runners_do_not_do_the_same_work_twice(tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    first, second = (python(PROGRAM, out, "inline", GRADLINE_FAKE_PACE=0.05, GRADLINE_FAKE_LOG=log) for _ in range(2))
    outputs = [program.communicate(timeout=240) for program in (first, second)]
    assert first.returncode == second.returncode == 0, outputs
    assert sum(int(text.splitlines()[-1].split()[1]) for text, _ in outputs) == 4
    study = small(seeds=4, budget=60)
    assert sorted(log.read_text(encoding="utf-8").split()) == sorted(run.key for run in plan(study))
    assert_complete(out, study)


@pytest.mark.slow
def test_runs_of_a_runner_that_is_killed_are_taken_over(tmp_path, hold):
    first = python(PROGRAM, tmp_path, "inline", GRADLINE_FAKE_PACE=0.03, GRADLINE_FAKE_HOLD=hold)
    wait_until(lambda: has_state(tmp_path))
    second = python(PROGRAM, tmp_path, "inline")
    assert "waiting" in second.stdout.readline()
    first.kill()
    first.communicate()
    out, err = second.communicate(timeout=240)
    assert second.returncode == 0, err
    assert "resuming 4 runs" in out
    assert_complete(tmp_path, small(seeds=4, budget=60))


@pytest.mark.slow
def test_a_dask_worker_that_is_killed(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    kills = tmp_path / "kills"
    kills.write_text("x", encoding="utf-8")
    monkeypatch.setenv("GRADLINE_FAKE_KILL", str(kills))
    program = python(PROGRAM, tmp_path / "out", "dask", GRADLINE_FAKE_KILL=kills)
    out, err = program.communicate(timeout=240)
    assert program.returncode == 0, err
    assert kills.read_text(encoding="utf-8") == ""
    assert "failed 0" in out
    assert_complete(tmp_path / "out", small(seeds=4, budget=60))


def test_tasks_that_a_cluster_gives_up_are_told_and_go_on_the_next_time(tmp_path, monkeypatch):
    # As a Dask client does when its scheduler dies: the futures are cancelled, though nobody wanted it.
    class Lost(Inline):
        def submit(self, fn, /, *args, **kwargs):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 1:
                return super().submit(fn, *args, **kwargs)
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    @contextmanager
    def opened(backend, workers):
        yield Lost(), 1

    study = small(seeds=3, problems=("bcwd-logr", "bcwd-netpi"))
    monkeypatch.setattr(runner, "open_executor", opened)
    listener = Listener()
    done = run(study, tmp_path, observer=listener)
    assert done.made == 3
    assert len(done.failures) == 3
    assert {failure.error for failure in done.failures} == {"the cluster gave it up (is its scheduler gone?)"}
    assert any("is its scheduler gone?" in text for text in listener.errors)
    assert len(list((tmp_path / "checkpoints").glob("*.zip"))) == 1
    monkeypatch.undo()
    assert run(study, tmp_path).made == 3
    assert_complete(tmp_path, study)


def test_workers_that_are_silent_for_long_are_told_of(tmp_path, monkeypatch):
    told = threading.Event()

    class Late(Executor):
        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.set_running_or_notify_cancel()
            threading.Thread(target=lambda: told.wait(100) and future.set_result(fn(*args, **kwargs))).start()
            return future

    class Telling(Listener):
        def message(self, text):
            super().message(text)
            told.set()

    @contextmanager
    def opened(backend, workers):
        yield Late(), 1

    monkeypatch.setattr(runner, "open_executor", opened)
    monkeypatch.setattr(runner, "SILENCE", 0.0)
    listener = Telling()
    assert run(small(seeds=2), tmp_path, observer=listener).made == 2
    assert listener.messages == [
        "workers have reported nothing for minutes: are there any left? The study waits for them"
    ]


def test_a_clock_that_is_set_back_changes_nothing(tmp_path, monkeypatch):
    clock = itertools.count(1e9, -1000.0)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * next(clock)))
    listener = Listener()
    done = run(small(seeds=3), tmp_path, observer=listener, checkpoint_every=1e-9)
    assert done.made == 3
    assert done.seconds >= 0.0
    assert all(snapshot.seconds >= 0.0 for snapshot in listener.snapshots)
    assert_complete(tmp_path, small(seeds=3))


def test_what_run_study_refuses(tmp_path):
    for options, text in (
        ({"workers": 0}, "workers must be a whole number above 0, or None"),
        ({"backend": "slurm"}, "backend must be processes, inline, dask or tcp://host:port"),
        ({"checkpoint_every": 0.0}, "checkpoint_every must be above 0"),
        ({"threads": 0}, "threads must be a whole number above 0"),
    ):
        with pytest.raises(ValueError, match=text):
            run(small(), tmp_path / "out", **options)
    with pytest.raises(ValueError, match="batch_size must be at most 400"):
        run(small(batch_sizes=(500,)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
