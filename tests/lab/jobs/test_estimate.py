"""Estimates follow from what was measured."""

import pytest
from lab import fake_engine
from lab.helping import small

from gradline.lab.jobs.estimate import estimate
from gradline.lab.studies import plan


def test_the_time_follows_from_the_paces():
    runs = plan(small(seeds=8, batch_sizes=(10, 50), budget=1000))
    told = []
    found = estimate(runs, 1, probe_seconds=0.01, make_engine=fake_engine.make, key=fake_engine.key, notice=told.append)
    assert told == ["bcwd-logr, batch size 50", "bcwd-logr, batch size 10"]
    assert [(pace.runs, pace.evaluations) for pace in found.paces] == [(8, 8000), (8, 8000)]
    assert found.seconds == pytest.approx(sum(pace.seconds for pace in found.paces))
    assert found.disk > 16 * 1000
    assert found.memory > 50e6


def test_two_workers_share_the_time():
    runs = plan(small(seeds=8, budget=1000))
    found = estimate(runs, 2, probe_seconds=0.01, make_engine=fake_engine.make, key=fake_engine.key)
    assert found.seconds == pytest.approx(found.paces[0].seconds / 2)
