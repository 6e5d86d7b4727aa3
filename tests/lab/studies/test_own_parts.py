"""Models and data of users: "package.module:name", the same numbers each time, and errors that say what is wrong."""

import dataclasses
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from gradline.lab import run_study, studies
from gradline.lab.engines import make
from gradline.lab.jobs.progress import Observer
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.problems import Loss, Network, data


def read(directory):
    draws = np.random.default_rng(0)
    inputs = draws.standard_normal((60, 3))
    return data.Samples(train_inputs=inputs, train_labels=(inputs.sum(axis=1) > 0).astype(int))


@pytest.fixture(autouse=True)
def mine():
    module = types.ModuleType("own_parts")
    module.clouds = data.Source(read)
    module.dropping = lambda generator: nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2))
    module.narrow = lambda generator: nn.Linear(3, 1)
    module.nothing = lambda generator: None
    sys.modules["own_parts"] = module
    yield module
    del sys.modules["own_parts"]


def own(seed=0, model="own_parts:dropping"):
    problem = Network(name="own", data="own_parts:clouds", model=model, loss=Loss.BCE, batch_sizes=(10,))
    return Run(problem=problem, method=METHODS["gols-i"], batch_size=10, seed=seed, budget=60, record_every=5)


def finished(runs, state=None, stop_after=None):
    columns = {}
    for run in runs:
        made = make([run], state)
        rounds = 0
        while made.active:
            made.advance()
            rounds += 1
            if rounds == stop_after:
                return made.state_dict()
        columns |= {result.run.seed: result.columns for result in made.finished()}
    return columns


def same(one, other):
    names = set(one) - {"seconds", "cpu_seconds"}
    return all(np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f") for name in names)


def test_a_run_of_an_own_model_is_the_same_alone_and_after_others():
    together = finished([own(0), own(1)])
    torch.manual_seed(5)
    assert same(finished([own(1)])[1], together[1])
    assert not same(together[0], together[1])


def test_dropout_is_the_same_after_a_resume_and_off_where_losses_are_measured():
    whole = finished([own(0)])
    state = finished([own(0)], stop_after=7)
    torch.manual_seed(99)
    assert same(finished([own(0)], state=state)[0], whole[0])
    before = torch.get_rng_state()
    finished([own(0)])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("own_parts:narrow", r"of shape \(2, 2\) for two samples .*narrow gave \(2, 1\)"),
        ("own_parts:nothing", "must build an nn.Module"),
        ("own_parts:absent", "can be imported .*own_parts:absent"),
        ("no_such_module:f", "can be imported .*no_such_module:f"),
    ],
)
def test_models_that_do_not_fit(model, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        finished([own(model=model)])


def test_own_data_in_a_study(tmp_path):
    file = tmp_path / "own.toml"
    text = 'problems = ["own"]\nmethods = ["gols-i"]\nbatch_sizes = [10]\n\n[[problem]]\nname = "own"\ndata = "{}"\n'
    file.write_text(text.format("own_parts:clouds"))
    (problem,) = studies.load(file).problems
    assert problem.data == "own_parts:clouds"
    for wrong, sentence in (
        ("own_parts:absent", "line 7.*can be imported"),
        ("own_parts:narrow", "line 7.*must be a gradline.lab.problems.data.Source"),
        ("mnisst", "line 7.*there is no data set"),
    ):
        file.write_text(text.format(wrong))
        with pytest.raises(studies.StudyError, match=sentence):
            studies.load(file)
    file.write_text(text.format("bcwd").replace('data = "bcwd"', 'data = ["bcwd"]'))
    with pytest.raises(studies.StudyError, match="line 7"):
        studies.load(file)


def test_a_search_of_a_script_is_written_as_the_script_knows_it():
    search = dataclasses.make_dataclass("Mine", [], bases=(type(METHODS["gols-i"].search),), frozen=True)
    search.__module__ = "__mp_main__"
    method = dataclasses.replace(METHODS["gols-i"], search=search())
    assert method.to_dict()["search"] == "__main__:Mine"


def test_failed_runs_are_warned_of_unless_somebody_observes(tmp_path, mine):
    @dataclasses.dataclass(frozen=True)
    class Broken:
        def start(self):
            return 0.0

        def search(self, origin, memory):
            raise ArithmeticError("no idea")
            yield 1.0

    mine.Broken = Broken
    file = tmp_path / "mine.toml"
    file.write_text(
        'problems = ["iris"]\nmethods = ["broken"]\nbatch_sizes = [10]\nseeds = 2\nbudget = 30\n'
        '[[method]]\nname = "broken"\nsearch = "own_parts:Broken"\n'
    )
    text = "2 of 2 runs failed, the first one by ArithmeticError: no idea"
    with pytest.warns(RuntimeWarning, match=text):
        done = run_study(file, tmp_path / "out", backend="inline")
    assert len(done.failures) == 2
    assert len(run_study(file, tmp_path / "out", backend="inline", observer=Observer()).failures) == 2
