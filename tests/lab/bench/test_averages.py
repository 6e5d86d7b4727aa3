"""Methods whose answer is not the model that is trained: an average, with BatchNorm's statistics of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lab.bench_cases import TINY, objective, run
from torch import nn

from gradline.lab.bench.objective import Objective, Task
from gradline.lab.bench.training import train
from gradline.lab.methods.peers import METHODS
from gradline.lab.methods.peers.learning_rate_free import has_batch_norm, with_new_statistics


def normed():
    inputs = 3.0 + 2.0 * torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    return Objective(Task(model, 30, lambda model, chosen: model(inputs[chosen]).squeeze(1), None), 30, 0), inputs


def test_new_statistics_are_those_of_the_data_and_the_model_keeps_its_own():
    work, inputs = normed()
    old = work.model[0].running_mean.clone()
    model = with_new_statistics(work)
    torch.testing.assert_close(model[0].running_mean, inputs.mean(dim=0))
    assert torch.equal(work.model[0].running_mean, old)
    assert work.counter.thirds == 0


def test_a_model_without_batch_norm_is_taken_as_it_is():
    work = objective()
    assert not has_batch_norm(work.model)
    assert with_new_statistics(work) is work.model


@pytest.mark.parametrize("name", ["dog", "schedule-free"])
def test_the_average_is_judged_and_training_goes_on_from_its_own_point(name):
    if METHODS[name].unavailable():
        pytest.skip(METHODS[name].unavailable())
    work = objective()
    stepper = METHODS[name].build(work)
    for _ in range(5):
        stepper.step()
    trained = [part.detach().clone() for part in work.parameters]
    with stepper.measured() as model:
        judged = [part.detach().clone() for part in model.parameters()]
    assert not all(map(torch.equal, trained, judged))
    # Schedule-Free goes there and back by arithmetic, which rounds.
    for before, after in zip(trained, work.parameters, strict=True):
        torch.testing.assert_close(before, after.detach())


def test_measuring_more_often_changes_nothing_else():
    if METHODS["dog"].unavailable():
        pytest.skip(METHODS["dog"].unavailable())
    few, many = (train(run("dog"), problem=replace(TINY, points=points)) for points in (1, 20))
    assert few.train_loss == many.train_loss
