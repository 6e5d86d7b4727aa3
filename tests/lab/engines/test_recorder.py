"""Watching a run changes nothing in it, and shows the searches that a study makes."""

import pytest

from gradline.lab.engines import make
from gradline.lab.engines.recorder import watch
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS


@pytest.mark.parametrize("method", ["gols-i", "prls", "golden-section"])
@pytest.mark.parametrize("sampling", [Sampling.DYNAMIC, Sampling.STATIC])
def test_the_searches_are_those_of_the_run(method, sampling):
    run = Run(
        problem=PROBLEMS["bcwd-netpi"], method=METHODS[method], batch_size=50, seed=3, budget=150, sampling=sampling
    )
    engine = make([run])
    while engine.active:
        engine.advance()
    (result,) = engine.finished()
    records = list(watch(run))
    assert [record.step for record in records] == result.columns["step"][1:].tolist()
    assert [record.stop.name for record in records] == result.columns["stop"][1:].tolist()
    assert [record.evaluations for record in records] == result.columns["probes"][1:].tolist()
    assert [record.origin.norm for record in records] == result.columns["norm"][1:].tolist()
