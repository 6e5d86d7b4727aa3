"""The rate of a study is that of its workers: the time in which they start does not count."""

from types import SimpleNamespace

import pytest

from gradline.lab.jobs.progress import Meter


def test_the_time_in_which_workers_start_is_not_in_the_rate():
    meter = Meter([], SimpleNamespace())
    for now in range(10):
        assert meter._pace(float(now), 0, 0.0) == (None, None)
    assert meter._pace(10.0, 100, 0.1) == (None, None)
    rate, left = meter._pace(14.0, 500, 0.5)  # 5 s since the last time at which nothing was made
    assert rate == pytest.approx(100.0)
    assert left == pytest.approx(5.0)
