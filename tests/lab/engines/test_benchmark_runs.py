"""One run: it ends when its budget is spent, its failures are told, and it leaves the world as it was."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from lab.compare_cases import finished, run, train

from gradline.lab import studies
from gradline.lab.jobs.result import Status
from gradline.lab.methods import GROUPS, METHODS, Peer
from gradline.lab.methods.stepper import Gradients, Stepper
from gradline.lab.problems import PROBLEMS, Built

COMPARED = studies.load("compare").settings


def method_of(build):
    return Peer(f"mine-{id(build)}", "mine", build, "torch", "torch")


def test_a_run_is_the_same_when_it_is_made_again():
    first, again = (train(run("gols-i", seed=3)) for _ in range(2))
    losses = first.columns["train_loss"].tolist()
    assert losses == again.columns["train_loss"].tolist()
    assert first.at_budget("train_loss") < losses[0]


def test_all_methods_of_a_seed_begin_at_the_same_weights():
    starts = {train(run(name, seed=1)).columns["train_loss"][0] for name in ("gols-i", "sgd-0.1", "lbfgs")}
    assert len(starts) == 1
    assert starts != {train(run("gols-i", seed=2)).columns["train_loss"][0]}


def test_a_step_that_goes_beyond_the_budget_does_not_count():
    made = train(run("lbfgs", budget=10))
    assert made.last("evaluations") > 10
    assert made.counted == made.rows - 1
    assert made.at_budget("evaluations") <= 10


def test_a_method_that_raises_is_told_with_its_reason():
    def build(objective):
        raise ZeroDivisionError("no step\nand more")

    made = train(run(method_of(build)))
    assert (made.status, made.reason) == (Status.FAILED, "ZeroDivisionError: no step")
    assert made.at_budget("train_loss") == math.inf


def test_a_method_that_raises_later_keeps_what_it_had():
    def build(objective):
        optimizer = torch.optim.SGD(objective.parameters, lr=0.1)
        taken = []

        def take(loss):
            taken.append(loss)
            if len(taken) > 10:
                raise RuntimeError("enough")
            optimizer.step()

        return Gradients(objective, optimizer, take=take)

    made = train(run(method_of(build)))
    assert made.reason == "RuntimeError: enough"
    assert made.rows > 2
    assert made.at_budget("train_loss") == math.inf


def test_a_method_that_never_evaluates_is_a_failure():
    class Idle(Stepper):
        def step(self):
            pass

    made = train(run(method_of(Idle)))
    assert "without an evaluation" in made.reason


def test_a_learning_rate_that_is_too_large_diverges_and_ends_early():
    made = train(run("sgd-100", budget=400))
    assert made.status is Status.DIVERGED
    assert made.last("evaluations") < 400
    assert made.at_budget("train_loss") == math.inf


def test_an_error_of_a_run_that_is_none_of_a_comparison_is_raised():
    def build(objective):
        raise ZeroDivisionError("no step")

    with pytest.raises(ZeroDivisionError):
        finished(run(method_of(build), benchmark=False))


def test_a_search_without_variances_is_told_as_failed():
    made = train(run("prls", batch_size=1))  # one sample has none
    assert made.status is Status.FAILED
    assert "at least 2 with prls" in made.reason


def test_random_numbers_and_output_outside_are_left_alone(capsys):
    name = "sgd-0.1" if METHODS["salsa"].unavailable() else "salsa"  # it reseeds both generators, and prints
    np.random.seed(5)
    torch.manual_seed(5)
    expected = np.random.rand(), torch.rand(())
    np.random.seed(5)
    torch.manual_seed(5)
    train(run(name, budget=200))
    assert (np.random.rand(), torch.rand(())) == expected
    assert capsys.readouterr().out == ""


def test_grids_have_a_median():
    for family in ("sgd", "adam"):
        assert len(GROUPS[family]) % 2 == 1


@pytest.mark.parametrize(
    "name", [name for name, one in PROBLEMS.items() if isinstance(one, Built) and one.data is None]
)
def test_a_problem_can_be_trained(name):
    problem = PROBLEMS[name]
    for size in problem.batch_sizes[:2]:
        made = train(run("gols-i", problem=problem, batch_size=size, budget=6, record_every=3))
        assert made.status is Status.DONE, made.reason
        assert all(map(math.isfinite, made.columns["train_loss"]))
        assert math.isfinite(made.final("test_error"))


def test_targets_are_below_where_training_starts():
    for setting in COMPARED:
        if setting.problem.data != "cifar10":
            task = setting.problem.build(0)
            with torch.no_grad():
                assert setting.target < task.measure(task.model.eval()).train_loss


def test_a_method_whose_package_is_missing_says_so():
    absent = replace(METHODS["lbfgs"], package="no-such-thing", module="no_such_thing")
    assert absent.unavailable() == "no-such-thing is not installed: pip install '.[bench]' in a clone of gradline"
    assert absent.version() == "unknown"


def test_a_method_is_warmed_up_once_and_not_on_the_problem():
    built = []

    def build(objective):
        built.append(objective)
        return Gradients(objective, torch.optim.SGD(objective.parameters, lr=0.1))

    mine = method_of(build)
    first, second = (train(run(mine, budget=5)) for _ in range(2))
    assert len(built) == 3
    assert first.last("evaluations") == second.last("evaluations") == 5


@pytest.mark.skipif(not os.environ.get("GRADLINE_DATA"), reason="GRADLINE_DATA must name a folder that has CIFAR10")
@pytest.mark.parametrize("name", ["cifar-conv", "cifar-resnet"])
def test_the_problems_on_images_can_be_trained(name):
    made = train(run("gols-i", problem=PROBLEMS[name], batch_size=16, budget=4))
    assert made.status is Status.DONE, made.reason
    assert 0.0 < made.at_budget("test_error") <= 1.0


@pytest.mark.skipif(not os.environ.get("GRADLINE_DATA"), reason="GRADLINE_DATA must name a folder that has CIFAR10")
def test_a_method_that_refuses_batch_norm_is_told_as_failed():
    made = train(run("prls", problem=PROBLEMS["cifar-conv"], batch_size=16, budget=4))
    assert made.status is Status.FAILED
    assert "BatchNorm" in made.reason
