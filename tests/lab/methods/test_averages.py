"""Methods whose answer is not the model that is trained: an average, with BatchNorm's statistics of its own."""

from __future__ import annotations

import pytest
import torch
from lab.compare_cases import batches, objective, run, train
from torch import nn

from gradline.lab.methods import METHODS
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.peers import batch_norms, with_new_statistics
from gradline.lab.problems.task import Task


def normed():
    inputs = 3.0 + 2.0 * torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    task = Task(model, 30, lambda model, chosen: model(inputs[chosen]).squeeze(1), None)
    return Objective(task, batches(size=30)), inputs


def test_new_statistics_are_those_of_the_data_and_the_model_keeps_its_own():
    work, inputs = normed()
    old = work.model[0].running_mean.clone()
    model = with_new_statistics(work)
    torch.testing.assert_close(model[0].running_mean, inputs.mean(dim=0))
    assert torch.equal(work.model[0].running_mean, old)
    assert work.evaluations == 0


def test_a_model_without_batch_norm_is_taken_as_it_is():
    work = objective()
    assert not batch_norms(work.model)
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
    few, many = (train(run("dog", record_every=every)) for every in (40, 2))
    assert few.at_budget("train_loss") == many.at_budget("train_loss")
