"""The way that the parameters have come: from the mean of all earlier points to where they are."""

import copy

import pytest
import torch
from helpers import problem_with
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Angle


def joined(tensors):
    return torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors])


def way_of(optimizer):
    return joined(optimizer._descent.way.parts)


@pytest.mark.parametrize("direction", [None, torch.optim.Adam], ids=str)
def test_it_leads_from_the_mean_of_all_earlier_points_to_the_present_one(direction):
    problem = problem_with(Angle(), direction=direction)
    points = [joined(problem.parameters())]
    for _ in range(25):
        problem.optimizer.step(problem.closure)
        points.append(joined(problem.parameters()))
        expected = points[-1] - torch.stack(points[:-1]).mean(dim=0)
        torch.testing.assert_close(way_of(problem.optimizer), expected, rtol=1e-5, atol=1e-7)


def test_the_search_is_told_the_angle_between_gradient_and_way():
    problem = problem_with(Angle())
    for _ in range(10):
        problem.optimizer.step(problem.closure)
    seen = problem.optimizer._descent.pending.origin.at_zero
    gradient = joined(parameter.grad for parameter in problem.model.parameters())
    way = way_of(problem.optimizer)
    assert seen.along == pytest.approx(float(gradient @ way), rel=1e-5)
    assert seen.cosine == pytest.approx(float(gradient @ way / (gradient.norm() * way.norm())), rel=1e-5)
    assert problem.optimizer.evaluations - problem.optimizer.iterations < 40  # only the first search takes several


def test_a_parameter_that_joins_later_has_come_no_way():
    first, second = (nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    optimizer = gradline.Angle([first, second])

    def closure(both):
        loss = first.square().sum() + (second.square().sum() if both else 0.0)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(lambda: closure(False))
    assert len(optimizer._descent.way.parts) == 1
    optimizer.refresh()
    for _ in range(5):
        optimizer.step(lambda: closure(True))
    assert len(optimizer._descent.way.parts) == 2
    twin = copy.deepcopy(optimizer)
    assert torch.equal(way_of(twin), way_of(optimizer))
    assert optimizer.state_dict()["state"][1]["line_way"].abs().sum() > 0


def test_a_step_that_is_not_taken_adds_nothing():
    x = nn.Parameter(torch.tensor([3.0, -4.0]))
    optimizer = gradline.Angle([x])
    broken = False

    def closure():
        loss = x.square().sum() * (float("nan") if broken else 1.0)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    before, place = way_of(optimizer), x.detach().clone()
    broken = True
    with pytest.warns(RuntimeWarning, match="not finite"):
        optimizer.step(closure)
    assert optimizer.last.stop is Stop.NON_FINITE
    assert torch.equal(x.detach(), place)
    assert torch.nn.functional.cosine_similarity(way_of(optimizer), before, dim=0) == pytest.approx(1.0)


def test_the_front_door_goes_along_adams_direction():
    problem = problem_with(Angle(), direction=torch.optim.Adam)
    twin = problem_with(Angle())
    twin.optimizer = gradline.Angle(twin.model.parameters())
    for _ in range(8):
        problem.optimizer.step(problem.closure)
        twin.optimizer.step(twin.closure)
    assert all(map(torch.equal, problem.parameters(), twin.parameters()))
    plain = gradline.Angle(twin.model.parameters(), direction=None, gain=3.0)
    assert plain.search == Angle(gain=3.0)


def test_it_trains_at_every_batch_size():
    for batch_size in (4, 16, 64):
        torch.manual_seed(0)
        inputs = torch.randn(64, 6)
        targets = torch.tanh(inputs @ torch.randn(6, 1))
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = gradline.Angle(model.parameters())
        loss = nn.functional.mse_loss
        before = loss(model(inputs), targets).item()
        for _ in range(300):
            batch = torch.randint(64, (batch_size,))
            optimizer.zero_grad()
            loss(model(inputs[batch]), targets[batch]).backward()
            optimizer.step()
        with optimizer.eval():
            assert loss(model(inputs), targets).item() < 0.1 * before


def test_a_learning_rate_is_refused_and_so_is_an_option_of_adam():
    model = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="lr must be None or not given"):
        gradline.Angle(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match="weight_decay must be given to a direction"):
        gradline.Angle(model.parameters(), weight_decay=0.1)
