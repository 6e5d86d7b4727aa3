"""bfloat16 autocast: parameters, gradients and slopes stay in float32, and probes never see stale weights."""

import pytest
import torch
from helpers import Problem, equal
from torch import nn

import gradline
from gradline.searches import Armijo, GolsI

DIRECTIONS = [None, torch.optim.Adam]


def autocast(**options):
    return torch.autocast("cpu", dtype=torch.bfloat16, **options)


def training(search=None, **options):
    problem = Problem(dtype=torch.float32, batch_size=50)
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search or GolsI(), **options)
    return problem


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("with_closure", [False, True])
def test_one_region_around_everything_takes_the_steps_of_a_region_for_each_forward_pass(direction, with_closure):
    """Autocast casts a weight once and keeps it until its region ends: moves of the parameters end that too."""
    around, inside = training(direction=direction), training(direction=direction)

    def closure():
        inside.optimizer.zero_grad()
        with autocast():
            loss = inside.loss(inside.draw())
        loss.backward()
        return loss

    with autocast():
        for _ in range(40 if with_closure else 80):
            around.optimizer.step(around.closure) if with_closure else around.turn()
    for _ in range(40 if with_closure else 80):
        inside.optimizer.step(closure) if with_closure else inside.turn(closure)
    assert inside.optimizer.iterations > 5
    assert around.optimizer.last == inside.optimizer.last
    assert equal(around.parameters(), inside.parameters())


def test_the_accepted_point_is_seen_in_the_same_region():
    problem = training()
    with autocast():
        for turn in range(40):
            problem.turn()
            with problem.optimizer.eval():
                here = problem.loss().item()
                torch.clear_autocast_cache()
                assert problem.loss().item() == here, turn
            here = problem.loss().item()
            torch.clear_autocast_cache()
            assert problem.loss().item() == here, turn


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_parameters_gradients_and_directions_stay_in_float32(direction):
    problem = training(direction=direction)
    for _ in range(3):
        with autocast():
            problem.optimizer.step(problem.closure)
    for parameter in problem.model.parameters():
        held = problem.optimizer.state[parameter]
        kinds = {parameter.dtype, parameter.grad.dtype, held["line_origin"].dtype, held["line_direction"].dtype}
        assert kinds == {torch.float32}


@pytest.mark.parametrize("width", [8, 600])  # few numbers are measured side by side, many one by one
def test_a_step_inside_the_region_sums_slopes_in_float32(width):
    """Autocast may run matrix products in bfloat16: a slope that is one must not be."""
    x = torch.nn.Parameter(torch.zeros(width * width))
    optimizer = gradline.GOLSI([x])
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(width * width, generator=generator) for _ in range(2))
    with autocast():
        for gradient in (first, second):
            x.grad = gradient.clone()
            optimizer.step()
    told = (optimizer._session.driver.last or optimizer._session.driver.pending).transcript
    exact = -(first.double() * second.double()).sum().item()
    assert told[0][1].slope == pytest.approx(exact, rel=1e-4)


def test_searches_that_compare_values_work_too():
    problem = training(Armijo())
    before = problem.loss().item()
    with autocast():
        for _ in range(20):
            problem.optimizer.step(problem.full)
    assert problem.loss().item() < 0.9 * before


def test_angle_trains_under_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    inputs = torch.randn(64, 3)
    targets = inputs.sum(dim=1, keepdim=True)
    optimizer = gradline.Angle(model.parameters())
    for _ in range(200):
        optimizer.zero_grad()
        with autocast():
            outputs = model(inputs)
        nn.functional.mse_loss(outputs.float(), targets).backward()
        optimizer.step()
    with optimizer.eval():
        assert nn.functional.mse_loss(model(inputs), targets) < 0.05
