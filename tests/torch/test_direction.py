"""Any torch optimizer's update as the direction; its state advances once per accepted step, not per probe."""

from functools import partial

import pytest
import torch
from helpers import Problem
from lion_pytorch import Lion

import gradline
from gradline.searches import Fixed, GolsI

BASES = [
    torch.optim.SGD,
    partial(torch.optim.SGD, momentum=0.9),
    partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    partial(torch.optim.SGD, weight_decay=0.1),
    torch.optim.Adam,
    partial(torch.optim.Adam, amsgrad=True, foreach=False),
    partial(torch.optim.AdamW, weight_decay=0.1),
    torch.optim.RMSprop,
    partial(torch.optim.RMSprop, momentum=0.5, centered=True),
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.NAdam,
    Lion,
]
bases = pytest.mark.parametrize("base", BASES, ids=str)


def problem_with(search, direction, **options):
    problem = Problem(**options)
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search, direction=direction)
    return problem


@bases
def test_with_a_fixed_step_it_is_that_optimizer_with_that_learning_rate(base):
    ours, theirs = problem_with(Fixed(0.01), base), Problem()
    theirs.optimizer = base(theirs.model.parameters(), lr=0.01)
    for _ in range(15):
        ours.optimizer.step(ours.full)
        theirs.optimizer.step(theirs.full)
        torch.testing.assert_close(ours.parameters(), theirs.parameters(), rtol=1e-9, atol=1e-12)


@bases
def test_it_trains_and_its_state_advances_once_per_accepted_step(base):
    problem = problem_with(GolsI(), base, batch_size=100)
    before = problem.loss().item()
    for _ in range(40):
        problem.optimizer.step(problem.closure)
    assert problem.loss().item() < before
    assert problem.optimizer.evaluations > problem.optimizer.iterations + 1
    for state in problem.optimizer.state.values():
        if "step" in state:
            assert float(state["step"]) == problem.optimizer.iterations + 1  # the next direction is already known


def test_plain_sgd_is_steepest_descent():
    """Up to the last digit of the direction, which is a difference of two sets of parameters."""
    plain, through_sgd = problem_with(GolsI(), None), problem_with(GolsI(), torch.optim.SGD)
    for _ in range(10):
        plain.optimizer.step(plain.closure)
        through_sgd.optimizer.step(through_sgd.closure)
    assert plain.optimizer.evaluations == through_sgd.optimizer.evaluations
    for one, other in zip(plain.parameters(), through_sgd.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_small_updates_of_large_parameters_keep_their_digits():
    x = torch.nn.Parameter(torch.tensor([1000.0, 1.0]))
    optimizer = gradline.LineSearchOptimizer([x], Fixed(1.0), direction=torch.optim.SGD)
    gradient = torch.tensor([1.2345e-6, 1.2345e-12])
    x.grad = gradient.clone()
    optimizer.step()
    torch.testing.assert_close(optimizer.state[x]["line_direction"], -gradient, rtol=1e-4, atol=0)


def test_groups_keep_their_own_options():
    grouped, reference = Problem(), Problem()

    def groups(problem):
        layers = list(problem.model.parameters())
        return [{"params": layers[:2], "weight_decay": 0.5}, {"params": layers[2:]}]

    grouped.optimizer = gradline.LineSearchOptimizer(groups(grouped), Fixed(0.1), direction=torch.optim.AdamW)
    reference.optimizer = torch.optim.AdamW(groups(reference), lr=0.1)
    for _ in range(5):
        grouped.optimizer.step(grouped.full)
        reference.optimizer.step(reference.full)
    torch.testing.assert_close(grouped.parameters(), reference.parameters(), rtol=1e-9, atol=1e-12)
    assert [group["weight_decay"] for group in grouped.optimizer.param_groups] == [0.5, 0.01]


def test_options_changed_in_the_groups_reach_the_direction():
    problem = problem_with(Fixed(0.1), partial(torch.optim.SGD, weight_decay=0.0))
    problem.optimizer.step(problem.full)
    problem.optimizer.param_groups[0]["weight_decay"] = 10.0
    problem.optimizer.step(problem.full)
    decayed = problem.optimizer.state[problem.model[0].weight]["line_direction"]
    torch.testing.assert_close(
        decayed, -problem.model[0].weight.grad - 10.0 * problem.model[0].weight.detach(), rtol=1e-9, atol=1e-12
    )


def test_added_groups_get_the_direction_too():
    problem = Problem()
    problem.optimizer = gradline.GOLSI(problem.model[0].parameters(), direction=torch.optim.Adam)
    problem.optimizer.step(problem.closure)
    problem.optimizer.add_param_group({"params": problem.model[2].parameters()})
    assert problem.optimizer.param_groups[1]["betas"] == (0.9, 0.999)
    assert problem.optimizer.param_groups[1]["lr"] == problem.optimizer.last.step
    with pytest.warns(UserWarning, match="lr of an added parameter group has no effect"):
        problem.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 0.1})
    assert problem.optimizer.param_groups[2]["lr"] == problem.optimizer.last.step
    before = problem.model[2].weight.detach().clone()
    for _ in range(3):
        problem.optimizer.step(problem.closure)
    assert not torch.equal(before, problem.model[2].weight)


def test_the_step_is_shown_and_not_the_directions_unit():
    problem = problem_with(GolsI(), torch.optim.Adam)
    shown = []
    problem.optimizer.register_step_post_hook(lambda optimizer, *_: shown.append(optimizer.param_groups[0]["lr"]))
    for _ in range(5):
        problem.optimizer.step(problem.closure)
        assert shown[-1] == problem.optimizer.last.step == problem.optimizer.param_groups[0]["lr"]
