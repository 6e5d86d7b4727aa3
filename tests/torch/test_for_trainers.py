"""What trainers do to an optimizer: schedulers, closures of one batch, hooks, `lr=None`."""

import copy
import warnings

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch.optim import lr_scheduler

import gradline
from gradline.searches import Armijo, GolsB, GolsI, Prls

SCHEDULERS = {
    "step": lambda optimizer: lr_scheduler.StepLR(optimizer, 3),
    "lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=99, cycle_momentum=False),
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "linear": lambda optimizer: lr_scheduler.LinearLR(optimizer),
    "chained": lambda optimizer: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(optimizer, 0.9)]),
}


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_does_nothing_and_is_told_so_once(name, direction):
    plain, scheduled = problem_with(GolsI(), direction=direction), problem_with(GolsI(), direction=direction)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scheduler = SCHEDULERS[name](scheduled.optimizer)
        for _ in range(10):
            plain.optimizer.step(plain.closure)
            scheduled.optimizer.step(scheduled.closure)
            assert scheduled.optimizer.param_groups[0]["lr"] == scheduled.optimizer.last.step
            scheduler.step()
            assert scheduled.optimizer.param_groups[0]["lr"] == scheduled.optimizer.last.step
    assert equal(plain.parameters(), scheduled.parameters())
    (warning,) = told
    assert "the search finds each step" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("cycle", ["one cycle", "cyclic"])
def test_a_scheduler_that_cycles_the_momentum_does_nothing_to_angle(cycle):
    def schedule(optimizer):
        if cycle == "one cycle":
            return lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=99)
        return lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=4)

    plain, scheduled = Problem(), Problem()
    for problem in (plain, scheduled):
        problem.optimizer = gradline.Angle(problem.model.parameters())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scheduler = schedule(scheduled.optimizer)
        for _ in range(30):
            plain.optimizer.step(plain.closure)
            scheduled.optimizer.step(scheduled.closure)
            scheduler.step()
    assert scheduled.optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    assert {str(warning.message)[:40] for warning in told} == {
        "gradline: something set group['lr'], a s",
        "gradline: something set group['betas'], ",
    }
    assert len(told) == 2
    with plain.optimizer.eval(), scheduled.optimizer.eval():
        assert equal(plain.parameters(), scheduled.parameters())


def test_no_schedule_is_silent_and_shows_the_steps():
    problem = problem_with(GolsI())
    scheduler = gradline.NoSchedule(problem.optimizer)
    for _ in range(5):
        problem.optimizer.step(problem.closure)
        scheduler.step()
        assert scheduler.get_last_lr() == [problem.optimizer.last.step] == [problem.optimizer.param_groups[0]["lr"]]


def test_no_schedule_is_saved_and_loaded():
    problem = problem_with(GolsI())
    scheduler = gradline.NoSchedule(problem.optimizer)
    problem.optimizer.step(problem.closure)
    scheduler.step()
    again = gradline.NoSchedule(problem_with(GolsI()).optimizer)
    again.load_state_dict(scheduler.state_dict())
    assert again.last_epoch == scheduler.last_epoch == 1
    assert again.get_last_lr() == [0.0]  # what its own optimizer shows


def test_a_learning_rate_saved_by_a_scheduler_is_not_taken_for_news():
    problem = problem_with(GolsI())
    problem.optimizer.step(problem.closure)
    saved = problem.optimizer.state_dict()
    saved["param_groups"][0]["lr"] = 17.0
    again = problem_with(GolsI())
    again.optimizer.load_state_dict(saved)
    assert again.optimizer.param_groups[0]["lr"] == problem.optimizer.last.step
    again.optimizer.step(again.closure)


@pytest.mark.parametrize("build", [gradline.GOLSI, gradline.PrLS])
def test_lr_none_is_no_learning_rate(build):
    parameters = list(Problem().model.parameters())
    assert build(parameters, lr=None).param_groups[0]["lr"] == 0.0
    assert build([{"params": parameters, "lr": None}]).param_groups[0]["lr"] == 0.0
    with pytest.raises(ValueError, match=r"lr( of parameter group 0)? must be None or not given .*got 0.01"):
        build(parameters, lr=0.01)
    with pytest.raises(ValueError, match=r"lr( of parameter group 0)? must be None or not given .*got 0.01"):
        build([{"params": parameters, "lr": 0.01}])


@pytest.mark.parametrize(
    ("kind", "options"),
    [("SGD", {"momentum": 0.9}), ("AdamW", {"weight_decay": 0.1}), ("AdamW", {"betas": (0.9, 0.99)})],
)
def test_options_of_a_direction_are_not_settings_of_a_search(kind, options):
    (name,) = options
    with pytest.raises(TypeError, match=rf"{name} must be given to a direction .*partial\(torch.optim.{kind}, {name}="):
        gradline.GOLSI(Problem().model.parameters(), **options)


def test_weight_decay_without_a_direction_is_not_ignored():
    parameters = list(Problem().model.parameters())
    with pytest.raises(ValueError, match=r"weight_decay must be 0 without a direction .* got 0.5"):
        gradline.GOLSI([{"params": parameters, "weight_decay": 0.5}])
    gradline.GOLSI([{"params": parameters, "weight_decay": 0.0}])
    gradline.GOLSI([{"params": parameters, "weight_decay": 0.5}], direction=torch.optim.AdamW)


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_spread_over_calls_a_closure_makes_the_same_steps_as_none(direction):
    turned = problem_with(GolsI(), direction=direction)
    spread = problem_with(GolsI(), direction=direction, spread=True)
    for _ in range(40):
        turned.turn()
        loss = spread.optimizer.step(spread.closure)
        assert loss.requires_grad
        assert equal(turned.parameters(), spread.parameters())
    assert spread.optimizer.evaluations == 40 > spread.optimizer.iterations > 5


def test_spread_a_search_under_way_can_be_copied():
    problem = problem_with(GolsB(), spread=True)
    for _ in range(30):
        problem.optimizer.step(problem.closure)
        copy.deepcopy(problem)


def test_spread_a_closure_that_fails_changes_nothing():
    problem = problem_with(GolsI(), spread=True)
    for _ in range(6):
        problem.optimizer.step(problem.closure)
    before, evaluations = problem.parameters(), problem.optimizer.evaluations

    def broken():
        raise OSError("no data")

    with pytest.raises(OSError, match="no data"):
        problem.optimizer.step(broken)
    assert equal(problem.parameters(), before)
    assert problem.optimizer.evaluations == evaluations
    problem.optimizer.step(problem.closure)


@pytest.mark.parametrize("search", [Armijo(), Prls()])
def test_values_of_several_batches_are_not_compared(search):
    with pytest.raises(ValueError, match=r"spread must be False for \w+ \(it compares values of one batch.*got True"):
        gradline.LineSearchOptimizer(Problem().model.parameters(), search, spread=True)


def test_a_closure_that_computes_nothing_is_refused():
    problem = problem_with(GolsI())
    problem.closure()
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        problem.optimizer.step(lambda: None)
    spread = problem_with(GolsI(), spread=True)
    spread.closure()
    spread.optimizer.step(lambda: None)  # one probe, on the gradients there are


def test_a_closure_need_not_clear_gradients():
    careful, careless = problem_with(GolsI()), problem_with(GolsI())

    def closure():
        loss = careless.loss(careless.draw())
        loss.backward()
        return loss

    for _ in range(5):
        careful.optimizer.step(careful.closure)
        careless.optimizer.step(closure)
    assert equal(careful.parameters(), careless.parameters())


def test_it_tells_whether_the_parameters_stand_at_a_probe():
    problem = problem_with(GolsI())
    assert not problem.optimizer.probing
    problem.turn()
    assert problem.optimizer.probing
    with problem.optimizer.eval():
        assert not problem.optimizer.probing
    assert problem.optimizer.probing
    problem.optimizer.step(problem.closure)
    assert not problem.optimizer.probing


def test_a_search_hook_is_called_at_the_end_of_each_search():
    problem = problem_with(GolsI())
    seen = []
    handle = problem.optimizer.register_search_hook(seen.append)
    for _ in range(30):
        problem.turn()
    assert len(seen) == problem.optimizer.iterations
    assert seen[-1] is problem.optimizer.last
    problem.optimizer.step(problem.closure)
    assert len(seen) == problem.optimizer.iterations
    handle.remove()
    problem.optimizer.step(problem.closure)
    assert len(seen) == problem.optimizer.iterations - 1


def test_hooks_stay_behind_when_an_optimizer_is_copied():
    problem = problem_with(GolsI())
    seen = []
    problem.optimizer.register_search_hook(seen.append)
    problem.optimizer.step(problem.closure)
    twin = copy.deepcopy(problem)
    twin.optimizer.step(twin.closure)
    assert len(seen) == 1
    twin.optimizer.register_search_hook(seen.append)
    twin.optimizer.step(twin.closure)
    assert len(seen) == 2
