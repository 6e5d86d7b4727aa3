"""The progress of a study: how fast its workers are, and how long the rest takes."""

from types import SimpleNamespace

import pytest

from gradline.lab.jobs import progress
from gradline.lab.jobs.progress import Meter
from gradline.lab.jobs.runs import Sampling
from gradline.lab.jobs.work import write_report


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def meter(tmp_path, monkeypatch):
    """Four runs of two problems; an evaluation of the second costs ten times as much."""
    monkeypatch.setattr(progress, "cost", lambda run: run.budget * {"small": 1.0, "large": 10.0}[run.problem.name])
    same = {"batch_size": 10, "sampling": Sampling.DYNAMIC, "budget": 100}
    runs = [
        SimpleNamespace(key=f"{name}{seed}", problem=SimpleNamespace(name=name), **same)
        for name in ("small", "large")
        for seed in (0, 1)
    ]
    made = Meter(runs, SimpleNamespace(report=lambda task: tmp_path / task.name))
    made.tasks = [SimpleNamespace(name=run.key, runs=[run]) for run in runs]
    return made


def report(directory, task, evaluations):
    write_report(directory / task.name, (evaluations, evaluations, 0), {})


def shown(meter, tasks):
    return meter.snapshot(tasks, runs=4, before=0, done=0, failed=0, workers=2)


def test_the_time_in_which_workers_start_is_not_in_the_rate(meter, clock, tmp_path):
    small = meter.tasks[0]
    for clock.seconds in range(10):
        assert shown(meter, meter.tasks).rate is None
    rates = []
    for clock.seconds, evaluations in ((10.0, 20), (14.0, 50)):
        report(tmp_path, small, evaluations)
        rates.append(shown(meter, [small]).rate)
    assert rates == [None, pytest.approx(10.0)]  # 5 s since the last time at which nothing was made


def test_problems_are_weighed_by_the_cost_of_their_evaluations(meter, clock, tmp_path):
    small, _, large, _ = meter.tasks
    assert shown(meter, meter.tasks).left is None
    clock.seconds = 10.0
    report(tmp_path, small, 50)
    report(tmp_path, large, 20)
    first = shown(meter, [small, large])
    assert (first.working, first.evaluations, first.total_evaluations) == (2, 70, 400)
    assert first.fraction == pytest.approx((50 + 10 * 20) / 2200)
    assert first.left == pytest.approx(10.0 * (2200 - 250) / 250)
    meter.finish({"small0"})
    assert shown(meter, [large]).fraction == pytest.approx((100 + 10 * 20) / 2200)
    meter.finish({run.runs[0].key for run in meter.tasks})
    assert shown(meter, []).fraction == 1.0
