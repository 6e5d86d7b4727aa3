"""Learning rate schedules: their shapes, and that optimizers follow them over the budget of a run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from lab.compare_cases import batches, build

from gradline.lab.methods import GROUPS, METHODS
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.peers import ADAMW_RATES, MOMENTUM_RATES, SCHEDULES, WARM_UP, cosine, warm_up


def rates(name, budget, steps):
    stepper = METHODS[name].build(Objective(build(0), batches(), budget=budget))
    found = []
    for _ in range(steps):
        stepper.step()
        found.append(stepper.optimizer.param_groups[0]["lr"])
    return found


def test_a_cosine_goes_from_one_to_zero():
    assert (cosine(0.0), cosine(0.5), cosine(1.0)) == (1.0, pytest.approx(0.5), pytest.approx(0.0, abs=1e-15))
    assert cosine(1.5) == cosine(1.0)


def test_a_warm_up_rises_linearly_and_then_follows_the_cosine():
    assert warm_up(0.0) == 0.0
    assert warm_up(WARM_UP / 2) == pytest.approx(0.5)
    assert warm_up(WARM_UP) == 1.0
    assert warm_up(WARM_UP + 0.5 * (1.0 - WARM_UP)) == pytest.approx(0.5)


def test_an_optimizer_follows_its_schedule_over_the_budget():
    assert rates("adamw-constant-0.01", 20, 20) == [0.01] * 20
    falling = rates("adamw-cosine-0.01", 20, 20)
    assert falling == sorted(falling, reverse=True)
    assert falling[0] == pytest.approx(0.01, rel=0.01)
    assert 0.0 < falling[-1] < 1e-4
    risen = rates("momentum-warm-up-0.1", 40, 40)
    assert risen[0] > 0.0
    assert risen.index(max(risen)) == pytest.approx(40 * WARM_UP, abs=1)
    assert risen[-1] < 1e-3


def test_the_same_schedule_takes_twice_as_long_for_twice_the_budget():
    assert rates("adamw-cosine-0.01", 40, 11)[10] == pytest.approx(0.01 * cosine(10.5 / 40))
    assert rates("prodigy-cosine", 10, 10)[9] < 0.01 * rates("prodigy-cosine", 10, 1)[0]


def test_without_a_budget_the_rate_is_constant():
    assert set(rates("adamw-warm-up-0.01", None, 5)) == {0.01}


def test_the_groups_hold_every_rate_with_every_schedule():
    assert len(GROUPS["adamw-tuned"]) == len(ADAMW_RATES) * len(SCHEDULES) == 24
    assert len(GROUPS["momentum-tuned"]) == len(MOMENTUM_RATES) * len(SCHEDULES)
    assert set(GROUPS["adamw-cosine"]) < set(GROUPS["adamw-tuned"])
    for grid in (ADAMW_RATES, MOMENTUM_RATES):
        assert all(2.9 < after / before < 3.4 for before, after in pairwise(grid))
    assert METHODS["momentum-cosine-0.1"].described == "torch.optim.SGD(lr=0.1, momentum=0.9), cosine"
