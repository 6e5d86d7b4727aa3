"""Evaluations are counted exactly, whatever an optimizer does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab.compare_cases import finished, objective, run, train

import gradline
from gradline.lab.methods import METHODS

AVAILABLE = [
    name
    for name, method in METHODS.items()
    if method.unavailable() is None and getattr(method, "rate", None) in (None, 0.1)
]


class Independent:
    """Counts by looking at the model and its parameters, not at losses."""

    def __init__(self, model):
        self.forwards = self.backwards = 0
        model.register_forward_pre_hook(self._forward)
        first = next(model.parameters())
        first.register_hook(self._backward)

    def _forward(self, *_):
        self.forwards += 1

    def _backward(self, gradient):
        self.backwards += 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", AVAILABLE)
def test_the_counts_of_an_adapter_are_those_of_hooks_on_the_model(name):
    work = objective()
    seen = Independent(work.model)
    stepper = METHODS[name].build(work)
    before = [part.detach().clone() for part in work.parameters]
    for _ in range(12):
        stepper.step()
    assert work.forwards == seen.forwards > 0
    assert work.backwards == seen.backwards > 0
    assert round(3 * work.evaluations) == seen.forwards + 2 * seen.backwards
    assert not all(map(torch.equal, before, work.parameters))


@pytest.mark.parametrize("name", ["sgd-0.1", "adam-0.1", "prodigy", "dog", "schedule-free", "momo", "alig"])
def test_a_method_of_one_gradient_a_step_makes_exactly_that(name):
    if METHODS[name].unavailable():
        pytest.skip(METHODS[name].unavailable())
    made = train(run(name))
    assert made.last("iterations") == made.last("evaluations") == 40


def test_gradlines_own_count_agrees():
    work = objective()
    optimizer = gradline.GOLSI(work.parameters)

    def closure():
        work.next_batch()
        optimizer.zero_grad()
        loss = work.loss()
        loss.backward()
        return loss

    for _ in range(10):
        optimizer.step(closure)
    assert work.forwards == work.backwards == optimizer.evaluations


def test_a_forward_pass_alone_is_a_third():
    work = objective()
    with torch.no_grad():
        work.loss()
    assert work.evaluations == pytest.approx(1 / 3)
    work.loss().backward()
    assert work.evaluations == pytest.approx(4 / 3)


def test_two_passes_back_through_one_loss_are_both_counted():
    work = objective()
    loss = work.loss()
    loss.backward(retain_graph=True)
    loss.backward()
    assert (work.forwards, work.backwards) == (1, 2)


def test_searches_that_compare_values_make_forward_passes_alone():
    if METHODS["salsa"].unavailable():
        pytest.skip(METHODS["salsa"].unavailable())
    work = objective()
    stepper = METHODS["salsa"].build(work)
    for _ in range(5):
        stepper.step()
    assert work.forwards > work.backwards
    (made,) = finished(run("salsa"))
    evaluations = made.columns["evaluations"]
    assert (evaluations % 1 > 0.1).any()
    assert set(np.round(3 * evaluations) - 3 * evaluations) <= {0.0}
