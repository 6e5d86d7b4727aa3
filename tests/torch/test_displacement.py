"""The way that the parameters have come: from the mean of all earlier points to where they are."""

import copy
import json
import warnings
from functools import partial

import pytest
import torch
from helpers import plain_angle, problem_with
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Angle


def joined(tensors):
    return torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors])


def way_of(optimizer):
    return joined(optimizer._session.sensor.buffers["displacement"].parts)


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
    seen = problem.optimizer._session.driver.pending.origin.at_zero
    gradient = joined(parameter.grad for parameter in problem.model.parameters())
    way = way_of(problem.optimizer)
    assert seen.along == pytest.approx(float(gradient @ way), rel=1e-5)
    assert seen.cosine == pytest.approx(float(gradient @ way / (gradient.norm() * way.norm())), rel=1e-5)
    assert problem.optimizer.evaluations - problem.optimizer.iterations < 40  # only the first search takes several


def test_a_parameter_that_joins_later_has_come_no_way():
    first, second = (nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    optimizer = plain_angle([first, second])

    def closure(both):
        loss = first.square().sum() + (second.square().sum() if both else 0.0)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(lambda: closure(False))
    assert len(optimizer._session.sensor.buffers["displacement"].parts) == 1
    optimizer.refresh()
    for _ in range(5):
        optimizer.step(lambda: closure(True))
    assert len(optimizer._session.sensor.buffers["displacement"].parts) == 2
    twin = copy.deepcopy(optimizer)
    assert torch.equal(way_of(twin), way_of(optimizer))
    assert optimizer.state_dict()["state"][1]["line_buffer_displacement"].abs().sum() > 0


def test_a_step_that_is_not_taken_adds_nothing():
    x = nn.Parameter(torch.tensor([3.0, -4.0]))
    optimizer = plain_angle([x])
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
    broken, step = False, optimizer._session.driver.memory.step
    optimizer.step(closure)
    assert 0.4 * step < optimizer.last.step < 2.1 * step


class Overflowing(torch.optim.SGD):
    """SGD whose update overflows when it is told to."""

    overflows = False

    def step(self, closure=None):
        super().step(closure)
        if self.overflows:
            self.param_groups[0]["params"][0].fill_(float("inf"))


def test_a_direction_that_is_not_finite_leaves_the_displacement_finite():
    x = nn.Parameter(torch.tensor([3.0, -4.0]))
    optimizer = plain_angle([x], direction=Overflowing)

    def closure():
        loss = x.square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    optimizer._base.overflows = True
    optimizer.refresh()
    with pytest.warns(RuntimeWarning, match="not finite"):
        optimizer.step(closure)
    optimizer._base.overflows = False
    assert optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    assert way_of(optimizer).isfinite().all()
    optimizer.step(closure)
    assert optimizer.last.step > 0.0


def test_the_way_of_a_parameter_that_rests_becomes_shorter():
    first, second = (nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    optimizer = plain_angle([first, second])

    def closure(both):
        loss = first.square().sum() + (second.square().sum() if both else 0.0)
        loss.backward()
        return loss

    points = [joined([first, second])]
    for step in range(9):
        if step in (3, 6):
            optimizer.refresh()
        optimizer.step(partial(closure, not 3 <= step < 6))
        points.append(joined([first, second]))
    torch.testing.assert_close(way_of(optimizer), points[-1] - torch.stack(points[:-1]).mean(dim=0))


def test_a_gradient_that_is_not_finite_leaves_the_direction_of_a_parameter_to_begin_later():
    first, second = (nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    optimizer = plain_angle([first, second])

    def closure(scale, both):
        loss = scale * first.square().sum() + (second.square().sum() if both else 0.0)
        loss.backward()
        return loss

    with pytest.warns(RuntimeWarning, match="not finite"):
        optimizer.step(lambda: closure(float("nan"), True))
    optimizer.step(lambda: closure(1.0, False))
    optimizer.refresh()
    optimizer.step(lambda: closure(1.0, True))
    assert "exp_avg" in optimizer.state[second]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_steps_that_the_type_cannot_hold_are_added_to_the_way(dtype):
    x = nn.Parameter(torch.tensor([1.0], dtype=dtype))
    optimizer = plain_angle([x], direction=None, step_first=2.0**22)

    def closure():
        (x * 2.0**-14).sum().backward()

    before = x.item()
    optimizer.step(closure)
    assert optimizer.last.step >= 2.0**22
    assert way_of(optimizer).item() == pytest.approx(x.item() - before, rel=0.01)


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


@pytest.mark.parametrize(("inputs", "batch_size"), [(1, 100), (1, 10), (10, 100), (10, 10)])
def test_least_squares_go_down_to_their_noise(inputs, batch_size):
    torch.manual_seed(0)
    x = torch.randn(100, inputs)
    y = x @ torch.ones(inputs, 1) + 0.01 * torch.randn(100, 1)
    model = nn.Linear(inputs, 1)
    optimizer = gradline.Angle(model.parameters())
    for _ in range(600):
        batch = torch.randperm(100)[:batch_size]
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[batch]), y[batch]).backward()
        optimizer.step()
    with optimizer.eval():
        assert nn.functional.mse_loss(model(x), y).item() < 1e-2


def bowl(scales, direction=torch.optim.Adam):
    """Minimise the square of (x - 1), times one of these scales at each evaluation."""
    x = nn.Parameter(torch.full((1,), 0.5))
    optimizer = plain_angle([x], direction=direction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for scale in scales:
            optimizer.zero_grad()
            (scale * (x - 1.0).square()).sum().backward()
            optimizer.step()
    return x, optimizer


DECAYED = partial(torch.optim.AdamW, weight_decay=0.1)


@pytest.mark.parametrize("direction", [torch.optim.Adam, torch.optim.SGD, DECAYED, None], ids=str)
@pytest.mark.parametrize("nothing", [0.0, float("nan")])
def test_searches_that_went_nowhere_at_the_start_change_nothing_afterwards(direction, nothing):
    _, plain = bowl([1.0] * 200, direction)
    x, optimizer = bowl([nothing] * 50 + [1.0] * 200, direction)
    driver = optimizer._session.driver
    assert optimizer.iterations - driver.taken == 50
    assert driver.taken == driver.memory.taken
    with optimizer.eval():
        assert (x - 1.0).square().item() < 5e-3
    if nothing != 0.0 or direction in (torch.optim.SGD, None):  # Adam itself counts gradients of 0
        assert optimizer.last.step == plain.last.step
        assert torch.equal(way_of(optimizer), way_of(plain))


@pytest.mark.parametrize("nothing", [0.0, float("nan")])
def test_only_steps_count_as_points_that_the_way_has_come_through(nothing):
    x = nn.Parameter(torch.tensor([3.0, -4.0], dtype=torch.float64))
    optimizer = plain_angle([x], direction=None)
    points = [joined([x])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for k in range(20):
            optimizer.step(
                lambda k=k: (torch.tensor([1.0, 3.0]) * x * x).sum().mul(nothing if 5 <= k < 12 else 1.0).backward()
            )
            optimizer.refresh()
            if optimizer.last.step:
                points.append(joined([x]))
    assert len(points) == 14 == optimizer._session.driver.taken + 1 == optimizer._session.driver.memory.taken + 1
    torch.testing.assert_close(way_of(optimizer), points[-1] - torch.stack(points[:-1]).mean(dim=0))


def test_the_count_of_steps_is_saved_and_training_goes_on_exactly():
    scales = [0.0] * 30 + [1.0] * 40
    x, optimizer = bowl(scales)
    saved = copy.deepcopy(optimizer.state_dict())
    y = nn.Parameter(x.detach().clone())
    twin = plain_angle([y])
    twin.load_state_dict(saved)
    assert twin._session.driver.taken == optimizer._session.driver.taken < optimizer.iterations
    for point, each in ((x, optimizer), (y, twin)):
        for _ in range(20):
            each.zero_grad()
            (point - 1.0).square().sum().backward()
            each.step()
    assert torch.equal(x, y)
    assert torch.equal(way_of(optimizer), way_of(twin))


@pytest.mark.parametrize("count", [-1, 2.5, True, "many"])
def test_a_count_of_steps_that_is_none_is_refused(count):
    _, optimizer = bowl([1.0] * 30)
    saved = copy.deepcopy(optimizer.state_dict())
    packed = json.loads(saved["param_groups"][0]["line_search"])
    saved["param_groups"][0]["line_search"] = json.dumps({**packed, "driver": {**packed["driver"], "taken": count}})
    with pytest.raises(ValueError, match=r"damaged one.* is not a count"):
        optimizer.load_state_dict(saved)
