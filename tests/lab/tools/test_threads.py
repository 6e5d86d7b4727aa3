"""How many threads torch has: one for what is small, and afterwards as many as the user set."""

import dataclasses

import pytest
import torch

from gradline.lab.engines import recorder as watch
from gradline.lab.figures import FIGURES
from gradline.lab.figures import iris as example
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS
from gradline.lab.tools.threads import threads


@pytest.fixture
def three():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_number_is_put_back_also_after_an_error(three):
    with threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 3

    @threads()
    def fail():
        raise KeyError(torch.get_num_threads())

    with pytest.raises(KeyError, match="1"):
        fail()
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if not figure.needs and name != "figure_4"])
def test_illustrations_compute_on_one_thread(three, monkeypatch, name):
    class SeenError(Exception):
        pass

    def load(name):
        raise SeenError(torch.get_num_threads())

    monkeypatch.setattr(example, "load", load)
    with pytest.raises(SeenError, match="1"):
        FIGURES[name].data()
    assert torch.get_num_threads() == 3


def test_a_run_that_is_watched_goes_on_one_thread_and_its_watcher_does_not(three, monkeypatch):
    seen, real = [], watch.make

    def engine(runs):
        made = real(runs)
        seen.append(torch.get_num_threads())
        advance = made.advance
        made.advance = lambda: (seen.append(torch.get_num_threads()), advance())
        return made

    monkeypatch.setattr(watch, "make", engine)
    run = Run(problem=PROBLEMS["bcwd-logr"], method=METHODS["gols-i"], batch_size=50, seed=0, budget=100)
    for _, record in zip(range(2), watch.watch(dataclasses.replace(run)), strict=False):
        assert record.transcript
        assert torch.get_num_threads() == 3
    assert set(seen) == {1}
