"""One run: it ends when its budget is spent, its failures are told, and it leaves the world as it was."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from lab.bench_cases import TINY, run

from gradline.lab.bench.runs import Status
from gradline.lab.bench.training import train
from gradline.lab.methods.peers import GROUPS, METHODS, Method
from gradline.lab.methods.peers.stepping import Gradients
from gradline.lab.problems.bench import HELD_OUT, PROBLEMS, TUNE


def method_of(build):
    return Method("mine", "mine", build, "searches", "torch", "torch")


def test_a_run_is_the_same_when_it_is_made_again():
    first, again = (train(run("gols-i", seed=3), problem=TINY) for _ in range(2))
    assert [point.train_loss for point in first.points] == [point.train_loss for point in again.points]
    assert first.train_loss < first.points[0].train_loss


def test_all_methods_of_a_seed_begin_at_the_same_weights():
    starts = {train(run(name, seed=1), problem=TINY).points[0].train_loss for name in ("gols-i", "sgd-0.1", "lbfgs")}
    assert len(starts) == 1
    assert starts != {train(run("gols-i", seed=2), problem=TINY).points[0].train_loss}


def test_a_step_that_goes_beyond_the_budget_does_not_count():
    made = train(run("lbfgs", budget=10), problem=TINY)
    assert made.points[-1].thirds > 30
    assert made.last is made.counted[-1] is not made.points[-1]
    assert made.last.thirds <= 30


def test_a_method_that_raises_is_told_with_its_reason():
    def build(objective):
        raise ZeroDivisionError("no step\nand more")

    made = train(run("mine"), problem=TINY, method=method_of(build))
    assert (made.status, made.reason) == (Status.FAILED, "ZeroDivisionError: no step")
    assert made.train_loss == math.inf


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

    made = train(run("mine"), problem=TINY, method=method_of(build))
    assert made.reason == "RuntimeError: enough"
    assert len(made.points) > 2
    assert made.last is None


def test_a_method_that_never_evaluates_is_a_failure():
    class Idle:
        def __init__(self, objective):
            self.objective = objective

        def step(self):
            pass

        def measured(self):
            return Gradients(self.objective, torch.optim.SGD(self.objective.parameters, lr=0.1)).measured()

    made = train(run("mine"), problem=TINY, method=method_of(Idle))
    assert "without an evaluation" in made.reason


def test_a_learning_rate_that_is_too_large_diverges_and_ends_early():
    made = train(run("sgd-100", budget=400), problem=TINY)
    assert made.status is Status.DIVERGED
    assert made.points[-1].thirds < 1200
    assert made.train_loss == math.inf


def test_interrupts_are_not_swallowed():
    def stop(evaluations):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run(), problem=TINY, tick=stop)


def test_random_numbers_and_output_outside_are_left_alone(capsys):
    name = "sgd-0.1" if METHODS["salsa"].unavailable() else "salsa"  # it reseeds both generators, and prints
    np.random.seed(5)
    torch.manual_seed(5)
    expected = np.random.rand(), torch.rand(())
    np.random.seed(5)
    torch.manual_seed(5)
    train(run(name, budget=200), problem=TINY)
    assert (np.random.rand(), torch.rand(())) == expected
    assert capsys.readouterr().out == ""


def test_every_problem_is_either_for_tuning_or_held_out():
    assert sorted(TUNE + HELD_OUT) == sorted(PROBLEMS)
    assert not set(TUNE) & set(HELD_OUT)
    assert len({problem.name for problem in PROBLEMS.values()}) == len(PROBLEMS)


def test_grids_have_a_median():
    for family in ("sgd", "adam"):
        assert len(GROUPS[family]) % 2 == 1


@pytest.mark.parametrize("name", [name for name in PROBLEMS if not name.startswith("cifar")])
def test_a_problem_can_be_trained(name):
    problem = PROBLEMS[name]
    quick = replace(problem, points=2)
    for size in problem.sizes[:2]:
        made = train(run("gols-i", problem=name, batch_size=size.batch_size, budget=6), problem=quick)
        assert made.status is Status.DONE, made.reason
        assert all(math.isfinite(point.train_loss) and math.isfinite(point.test_error) for point in made.points)


def test_targets_are_below_where_training_starts():
    for name in ("bcwd-logr", "bcwd-netpi", "bcwd-netpii", "regression", "factorisation", "pinn", "vae-digits"):
        task = PROBLEMS[name].build(0)
        with torch.no_grad():
            loss, _ = task.measure(task.model.eval())
        assert all(size.target < loss for size in PROBLEMS[name].sizes)


def test_a_method_whose_package_is_missing_says_so():
    absent = replace(METHODS["gols-i"], package="no-such-thing", module="no_such_thing")
    assert absent.unavailable() == "no-such-thing is not installed: pip install 'gradline[bench]'"
    assert absent.version() == "unknown"


def test_a_method_is_warmed_up_once_and_not_on_the_problem():
    built = []

    def build(objective):
        built.append(objective)
        return Gradients(objective, torch.optim.SGD(objective.parameters, lr=0.1))

    mine = method_of(build)
    first, second = (train(run("mine", budget=5), problem=TINY, method=mine) for _ in range(2))
    assert len(built) == 3
    assert (first.forwards, first.backwards) == (second.forwards, second.backwards) == (5, 5)


@pytest.mark.skipif(not os.environ.get("GRADLINE_DATA"), reason="GRADLINE_DATA must name a folder that has CIFAR10")
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("cifar")])
def test_the_problems_on_images_can_be_trained(name):
    made = train(run("gols-i", problem=name, batch_size=16, budget=4), problem=replace(PROBLEMS[name], points=1))
    assert made.status is Status.DONE, made.reason
    assert 0.0 < made.test_error <= 1.0


@pytest.mark.skipif(not os.environ.get("GRADLINE_DATA"), reason="GRADLINE_DATA must name a folder that has CIFAR10")
def test_a_method_that_refuses_batch_norm_is_told_as_failed():
    made = train(run("prls", problem="cifar-conv", batch_size=16, budget=4), problem=PROBLEMS["cifar-conv"])
    assert made.status is Status.FAILED
    assert "BatchNorm" in made.reason
