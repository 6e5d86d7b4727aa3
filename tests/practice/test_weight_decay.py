"""Weight decay: in the loss it is searched with it, in the direction's optimizer it is a part of the direction only."""

from functools import partial

import pytest
import torch
from helpers import Problem, equal

import gradline
from gradline.searches import Fixed

DECAYS = {
    "SGD": partial(torch.optim.SGD, weight_decay=0.1),
    "momentum": partial(torch.optim.SGD, weight_decay=0.1, momentum=0.9, nesterov=True),
    "Adam": partial(torch.optim.Adam, weight_decay=0.1),
    "AdamW": partial(torch.optim.AdamW, weight_decay=0.1),
}


@pytest.mark.parametrize("name", DECAYS)
def test_at_a_fixed_step_it_is_the_plain_optimizer(name):
    plain, searched = Problem(), Problem()
    plain.optimizer = DECAYS[name](plain.model.parameters(), lr=0.05)
    searched.optimizer = gradline.LineSearchOptimizer(
        searched.model.parameters(), Fixed(step=0.05), direction=DECAYS[name], reuse_gradient=False
    )
    for _ in range(20):
        plain.optimizer.step(plain.closure)
        state = searched.draws.get_state()

        def closure(state=state):
            searched.draws.set_state(state)  # static: the batch of the start at the probe too
            return searched.closure()

        searched.optimizer.step(closure)
    torch.testing.assert_close(searched.parameters(), plain.parameters(), rtol=1e-9, atol=1e-12)


def decayed(problem, decay):
    """The closure of the loss with an L2 term."""

    def closure():
        problem.optimizer.zero_grad()
        loss = problem.loss()
        loss = loss + 0.5 * decay * sum(p.square().sum() for p in problem.model.parameters())
        loss.backward()
        return loss

    return closure


def norm(problem):
    return sum(p.square().sum().item() for p in problem.model.parameters())


def test_in_the_loss_the_slope_is_that_of_the_sum():
    problem = Problem()
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    closure = decayed(problem, 0.1)
    closure()
    square = sum(p.grad.square().sum().item() for p in problem.model.parameters())
    before = problem.loss().item() + 0.05 * norm(problem)
    problem.optimizer.step(closure)
    assert problem.optimizer.last.origin.at_zero.slope == pytest.approx(-square)
    assert problem.loss().item() + 0.05 * norm(problem) < before


def test_in_the_direction_the_slope_is_that_of_the_loss_alone():
    """d = -(g + λx), and the slope is d·g."""
    problem = Problem()
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), direction=partial(torch.optim.SGD, weight_decay=0.1))
    problem.full()
    along = sum((p.grad * (p.grad + 0.1 * p)).sum().item() for p in problem.model.parameters())
    problem.optimizer.step(problem.full)
    assert problem.optimizer.last.origin.at_zero.slope == pytest.approx(-along)


def test_both_keep_the_weights_smaller():
    free, in_loss, in_direction = Problem(), Problem(), Problem()
    free.optimizer = gradline.GOLSI(free.model.parameters())
    in_loss.optimizer = gradline.GOLSI(in_loss.model.parameters())
    in_direction.optimizer = gradline.GOLSI(
        in_direction.model.parameters(), direction=partial(torch.optim.SGD, weight_decay=0.01)
    )
    closure = decayed(in_loss, 0.01)
    for _ in range(60):
        free.optimizer.step(free.full)
        in_loss.optimizer.step(closure)
        in_direction.optimizer.step(in_direction.full)
    assert norm(in_loss) < norm(free)
    assert norm(in_direction) < norm(free)


def test_groups_have_decays_of_their_own():
    problem = Problem()
    first, second = problem.model[0], problem.model[2]
    groups = [{"params": first.parameters(), "weight_decay": 0.5}, {"params": second.parameters()}]
    problem.optimizer = gradline.GOLSI(groups, direction=torch.optim.SGD)
    problem.full()
    wanted = [-(p.grad + 0.5 * p).detach() for p in first.parameters()] + [-p.grad for p in second.parameters()]
    problem.optimizer.step()
    found = [problem.optimizer.state[p]["line_direction"] for p in problem.model.parameters()]
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    assert not equal(found, [-p.grad for p in problem.model.parameters()])


def test_only_in_the_loss_it_leads_to_the_minimum_of_the_sum():
    """Beyond the loss's own minimum a decay leads uphill for the loss, and the search follows only by tiny steps."""
    ends = []
    for decay, direction in ((0.5, None), (0.0, partial(torch.optim.SGD, weight_decay=0.5))):
        x = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        optimizer = gradline.GOLSI([x], direction=direction)

        def closure(x=x, optimizer=optimizer, decay=decay):
            optimizer.zero_grad()
            loss = 0.5 * ((x - 1.0).square() + decay * x.square()).sum()
            loss.backward()
            return loss

        for _ in range(60):
            optimizer.step(closure)
        ends.append(x.item())
    assert ends[0] == pytest.approx(1.0 / 1.5)
    assert 0.75 < ends[1] < 1.01
