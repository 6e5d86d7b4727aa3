"""Angle along Adam is trained by `gradline.Angle`, its average is measured, and its runs are resumed exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab.compare_cases import finished, objective, run

from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.methods import METHODS, Direction, SearchMethod
from gradline.lab.methods.stepper import AngleSteps, Searching
from gradline.searches import Angle, GolsI


@pytest.mark.parametrize(
    ("direction", "kind"),
    [
        (Direction("adam"), AngleSteps),
        (Direction.of("adamw", {"betas": (0.8, 0.99), "weight_decay": 0.1}), AngleSteps),
        (Direction.of("adam", {"amsgrad": True}), Searching),
        (Direction("rmsprop"), Searching),
        (None, Searching),
    ],
)
def test_the_optimizer_is_gradlines_own_where_it_can_be(direction, kind):
    stepper = SearchMethod("mine", Angle(climb=0.5), direction).build(objective())
    assert type(stepper) is kind
    assert stepper.optimizer.search == Angle(climb=0.5)
    assert type(SearchMethod("mine", GolsI(), Direction("adam")).build(objective())) is Searching


def test_options_of_the_direction_are_those_of_the_optimizer():
    groups = [
        SearchMethod("mine", Angle(), direction).build(objective()).optimizer.param_groups[0]
        for direction in (Direction("adam"), Direction("adamw"), Direction.of("adamw", {"weight_decay": 0.3}))
    ]
    assert [group["weight_decay"] for group in groups] == [
        0.0,
        torch.optim.AdamW([torch.ones(1)]).defaults["weight_decay"],
        0.3,
    ]


def test_the_average_is_measured_and_training_goes_on_from_its_own_point():
    work = objective()
    stepper = METHODS["angle"].build(work)
    for _ in range(60):
        stepper.step()
    trained = [part.detach().clone() for part in work.parameters]
    with stepper.measured() as model:
        assert not all(map(torch.equal, trained, model.parameters()))
    assert all(map(torch.equal, trained, work.parameters))


@pytest.mark.parametrize("name", ["angle", "angle-adam"])
def test_a_run_is_resumed_exactly(name):
    one = run(name, budget=80, record_every=8)
    (whole,) = finished(one)
    engine = Ordinary(one)
    for _ in range(45):
        engine.advance()
    again = Ordinary(one, state=engine.state_dict())
    assert again.evaluations == 45
    while again.active:
        again.advance()
    (resumed,) = again.finished()
    for column in ("evaluations", "step", "train_loss"):
        np.testing.assert_array_equal(whole.columns[column], resumed.columns[column])
    assert whole.columns["evaluations"][-1] == 80
    assert np.isnan(whole.columns["step"][1])  # the first search
    assert whole.columns["step"][-1] > 0.0
