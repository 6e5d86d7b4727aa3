"""The progress of a study: how fast its workers are, and how long the rest takes."""

import json
from types import SimpleNamespace

import pytest

from gradline.lab.jobs import progress
from gradline.lab.jobs.progress import Meter
from gradline.lab.jobs.runs import Sampling


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def meter(tmp_path, monkeypatch):
    """Four runs of two problems; an evaluation of the second takes ten times as long as estimated."""
    monkeypatch.setattr(progress, "cost", lambda run: float(run.budget))
    same = {"batch_size": 10, "sampling": Sampling.DYNAMIC, "budget": 100}
    runs = [
        SimpleNamespace(key=f"{name}{seed}", problem=SimpleNamespace(name=name), **same)
        for name in ("small", "large")
        for seed in (0, 1)
    ]
    made = Meter(runs, SimpleNamespace(progress=lambda task: tmp_path / task.name))
    made.tasks = [SimpleNamespace(name=run.key, runs=[run]) for run in runs]
    return made


def report(directory, task, evaluations):
    (directory / task.name).write_text(json.dumps({"evaluations": evaluations, "made": evaluations, "saved": 0}))


def test_the_time_in_which_workers_start_is_not_in_the_rate(meter):
    for now in range(10):
        assert meter._rate(float(now), 0) is None
    assert meter._rate(10.0, 100) is None
    assert meter._rate(14.0, 500) == pytest.approx(100.0)  # 5 s since the last time at which nothing was made


def test_problems_are_weighed_by_the_time_their_evaluations_were_seen_to_take(meter, clock, tmp_path):
    def shown(tasks):
        return meter.snapshot(tasks, runs=4, before=0, done=0, failed=0, elsewhere=0, working=1, workers=1)

    small, _, large, _ = meter.tasks
    assert shown(meter.tasks).left is None
    for seconds, evaluations in ((10.0, 10), (20.0, 60)):  # a fifth of the estimate
        clock.seconds = seconds
        report(tmp_path, small, evaluations)
        first = shown([small])
    assert (first.left, first.fraction) == pytest.approx((0.2 * 340, 60 / 400))
    meter.finish({"small0"})
    for seconds, evaluations in ((30.0, 10), (50.0, 20)):  # ten times as long
        clock.seconds = seconds
        report(tmp_path, large, evaluations)
        second = shown([large])
    assert second.left == pytest.approx(0.2 * 100 + 2.0 * 180)
    assert second.fraction == pytest.approx(1.0 - second.left / (0.2 * 200 + 2.0 * 200))
    assert second.evaluations == 120
    assert second.total_evaluations == 400
