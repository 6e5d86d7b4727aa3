"""Parameters in bfloat16 or float16: slopes are summed in float32, and small steps are not lost."""

import copy
from functools import partial

import pytest
import torch
from helpers import Problem, equal
from torch import nn

import gradline
from gradline.searches import GolsI
from gradline.torch.line import Gradients, Line

HALF = [torch.bfloat16, torch.float16]


def test_a_step_that_float16_cannot_hold_still_moves():
    """float16 has nothing between 0 and 6e-8, but 1e-8 of a long direction is far above that."""
    x = nn.Parameter(torch.zeros(3, dtype=torch.float16))
    optimizer = gradline.GOLSI([x], step_min=1e-8)
    (-60000.0 * x).sum().backward()
    optimizer.step()
    assert x.tolist() == pytest.approx([6e-4] * 3, rel=1e-3)
    with optimizer.eval():
        assert x.tolist() == [0.0] * 3
    assert x.tolist() == pytest.approx([6e-4] * 3, rel=1e-3)  # the same way from the saved origin


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("size", [500, 20000])
def test_slopes_of_many_small_products_are_summed_in_float32(dtype, size):
    """In half precision a sum of ones stops growing at 256 or 2048: the next 1 is rounded away."""
    x = nn.Parameter(torch.zeros(size, dtype=dtype))
    line = Line([x])
    line.directions[0].fill_(-1.0)
    norm, slope, (value,) = line.measure(Gradients([x], [torch.ones_like(x)]), torch.tensor(0.5))
    assert (norm, slope, value) == (pytest.approx(size**0.5), -size, 0.5)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("direction", [None, partial(torch.optim.SGD, momentum=0.9)], ids=["steepest", "momentum"])
def test_half_precision_trains(dtype, direction):
    problem = Problem(dtype=dtype, batch_size=100)
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), direction=direction)
    before = problem.loss().item()
    for _ in range(60):
        problem.optimizer.step(problem.closure)
    assert problem.loss().item() < 0.85 * before
    assert all(p.dtype == dtype for p in problem.model.parameters())


def test_adam_in_float16_needs_a_larger_eps_as_it_does_by_itself():
    problem = Problem(dtype=torch.float16, batch_size=100)
    adam = partial(torch.optim.Adam, eps=1e-4)
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), direction=adam)
    before = problem.loss().item()
    for _ in range(40):
        problem.optimizer.step(problem.closure)
    assert problem.loss().item() < 0.85 * before


def test_a_step_too_small_to_change_bfloat16_grows_until_it_does():
    """1 + 1e-8 is 1 in bfloat16. The slope is then still that of the start: negative, so the search goes on."""
    x = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = gradline.GOLSI([x])
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = (x - 3.0).square().sum()
        loss.backward()
        seen.append(x.detach().clone())
        return loss

    optimizer.step(closure)
    still = [torch.equal(point, torch.ones_like(point)) for point in seen]
    assert still[:10] == [True] * 10
    assert not still[-1]
    assert optimizer.last.step > 0.05
    assert torch.equal(x, seen[-1])


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_resumes_exactly(dtype, tmp_path):
    def build():
        problem = Problem(dtype=dtype)
        problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), GolsI(), direction=torch.optim.SGD)
        return problem

    problem, again = build(), build()
    for _ in range(33):
        problem.turn()
    torch.save([problem.model.state_dict(), problem.optimizer.state_dict()], tmp_path / "saved.pt")
    model, optimizer = torch.load(tmp_path / "saved.pt", weights_only=True)
    again.model.load_state_dict(model)
    again.optimizer.load_state_dict(optimizer)
    again.draws.set_state(problem.draws.get_state())
    for _ in range(20):
        problem.turn()
        again.turn()
        assert equal(problem.parameters(), again.parameters())


@pytest.mark.parametrize("dtype", HALF)
def test_angles_average_and_displacement_keep_terms_that_half_precision_loses(dtype):
    """Both are sums of thousands of small terms; compared with sums in float64."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(dtype)
    optimizer = gradline.Angle(model.parameters(), eps=1e-3)
    parameters = list(model.parameters())
    inputs = torch.randn(256, 4, dtype=dtype)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    average = displacement = None
    for _ in range(400):
        batch = torch.randint(256, (32,))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs[batch]), targets[batch]).backward()
        taken, before = optimizer._driver.memory.taken, [p.detach().double() for p in parameters]
        origins = [optimizer.state[p]["origin"].double() for p in parameters] if optimizer.state else []
        optimizer.step()
        number = optimizer._driver.memory.taken + 1
        if number == taken + 1:
            continue
        if average is None:
            average = [x.clone() for x in before]
            displacement = [x - x0 for x, x0 in zip(before, origins, strict=True)]
        for mean, p in zip(average, parameters, strict=True):
            mean.lerp_(optimizer.state[p]["iterate"].double(), number**3 / sum(k**3 for k in range(number + 1)))
        for sum_, x0, p in zip(displacement, before, parameters, strict=True):
            sum_.add_(p.detach().double() - x0, alpha=number)
    assert optimizer.iterations > 300
    states = [optimizer.state[p] for p in parameters]
    for names, expected in (("average", average), ("displacement", displacement)):
        size = max(float(part.abs().max()) for part in expected)
        for held, part in zip(states, expected, strict=True):
            assert float((held[names].double() - part).abs().max()) < 1e-4 * size
    exact = [held["average"].clone() for held in states]
    with optimizer.eval():
        assert all(torch.equal(p, mean.to(dtype)) for p, mean in zip(parameters, exact, strict=True))
        inside = optimizer.state_dict()
    assert equal([held["average"] for held in states], exact)
    other = gradline.Angle(copy.deepcopy(model).parameters(), eps=1e-3)
    for state in (inside, optimizer.state_dict()):
        other.load_state_dict(state)
        assert equal([held["average"] for held in other.state.values()], exact)
        assert equal(list(other.param_groups[0]["params"]), parameters)
