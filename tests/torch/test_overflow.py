"""Numbers beyond what a type can hold: parameters that overflow are never accepted, and training recovers."""

import math
import warnings
from functools import partial

import pytest
import torch
from helpers import plain_angle
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Angle, Fixed, GolsB, GolsBack, GolsI, GolsMax, StrongWolfe
from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import measure

SEARCHES = [
    *(Angle(), GolsI(step_min=1.0, step_max=1e30), GolsB(step_min=1.0, step_max=1e30), GolsMax(step_max=1e30)),
    *(GolsBack(), Fixed(1e6), Fixed(1e60), StrongWolfe()),
]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize(("dtype", "scale"), [("float16", 1.0), ("float32", 1e32), ("bfloat16", 1e32)])
@pytest.mark.parametrize(("search", "closure"), [*((s, True) for s in SEARCHES), *((s, False) for s in SEARCHES[:-1])])
def test_infinite_parameters_are_never_accepted(search, dtype, scale, closure):
    """A linear loss has the same finite gradient everywhere, at infinity too."""
    x = nn.Parameter(torch.zeros(3, dtype=getattr(torch, dtype)))
    factors = torch.tensor([1.0, -2.0, 3.0]).to(x.dtype) * scale
    optimizer = gradline.LineSearchOptimizer([x], search)

    def evaluate():
        optimizer.zero_grad()
        loss = (x * factors).sum()
        loss.backward()
        return loss

    for _ in range(12 if closure else 60):
        if closure:
            optimizer.step(evaluate)
        else:
            evaluate()
            optimizer.step()
        with optimizer.eval():
            assert x.isfinite().all()
    assert optimizer.iterations


def test_parameters_are_looked_at_only_where_they_may_overflow():
    info = torch.finfo(torch.float32)
    largest = torch.tensor([info.max, 1.0])
    line = Line([largest])
    line.directions[0].copy_(torch.tensor([1.0, 0.0]))
    line.go(1e30)  # less than half the distance to the next number: it is rounded away
    assert largest.isfinite().all()
    assert line.is_finite(1e30, 1.0)
    line.go(info.max * info.eps)
    assert not line.is_finite(info.max * info.eps, 1.0)
    assert line.is_finite(1e30, 1.0)  # it does not look at them


@pytest.mark.parametrize("size", [3, 6000])
def test_slopes_that_overflow_are_measured_again(size):
    """LocalReduce, and with direction and gradient side by side."""
    x, gradient = torch.zeros(size), torch.full((size,), 1e15)
    line = Line([x])
    line.directions[0].fill_(-1e25)
    norm, slope, _ = line.measure(Gradients([x], [gradient]))
    assert norm == pytest.approx(1e15 * math.sqrt(size), rel=1e-5)
    assert slope == pytest.approx(-1e40 * size, rel=1e-5)
    assert measure([gradient], line.directions)[1] == pytest.approx(slope, rel=1e-5)


def spoiled_first(make, dtype=torch.float32, *, closure):
    """Losses before and after training in which the first batch is 1e25 times the others."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).to(dtype)
    inputs = torch.randn(64, 3, dtype=dtype)
    targets = inputs.sum(dim=1, keepdim=True)
    optimizer = make(model.parameters())
    calls = 0

    def evaluate():
        nonlocal calls
        optimizer.zero_grad()
        batch = torch.randint(64, (16,))
        loss = nn.functional.mse_loss(model(inputs[batch]), targets[batch]) * (1.0 if calls else 1e25)
        loss.backward()
        calls += 1
        return loss

    before = nn.functional.mse_loss(model(inputs), targets).item()
    while calls < 300:
        if closure:
            optimizer.step(evaluate)
        else:
            evaluate()
            optimizer.step()
    with optimizer.eval():
        return before, nn.functional.mse_loss(model(inputs), targets).item()


@pytest.mark.parametrize("closure", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        gradline.Angle,
        plain_angle,
        partial(plain_angle, direction=None),
        gradline.GOLSI,
        partial(gradline.GOLSI, direction=torch.optim.Adam),
        partial(gradline.GOLSI, direction=partial(torch.optim.Adam, amsgrad=True)),
        partial(gradline.GOLSI, direction=torch.optim.RMSprop),
    ],
    ids=["Angle", "plain Angle", "plain Angle, steepest", "GOLSI", "GOLSI Adam", "GOLSI amsgrad", "GOLSI RMSprop"],
)
def test_training_recovers_from_a_first_batch_that_overflows(make, closure):
    """Every probe along its direction is refused; and Adam's second moments would be infinite for ever."""
    before, after = spoiled_first(make, closure=closure)
    assert after < 0.1 * before


def test_a_refused_search_evaluates_its_origin_anew():
    x = nn.Parameter(torch.tensor([1.0]))
    optimizer = gradline.LineSearchOptimizer([x], Fixed(0.1))
    factors = iter([1e30, math.nan, 1.0, 1.0])
    seen = []

    def closure():
        optimizer.zero_grad()
        seen.append(x.item())
        loss = (x.square() * next(factors)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert optimizer.last.stop is Stop.NON_FINITE
    optimizer.step(closure)
    assert optimizer.last.stop is Stop.FIXED
    assert seen[2] == 1.0  # the origin
    assert x.item() == pytest.approx(0.8)


def test_a_base_whose_squares_overflow_is_left_as_it_was():
    x = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = gradline.GOLSI([x], direction=torch.optim.Adam, step_first=0.1)
    scale = 1.0

    def closure():
        optimizer.zero_grad()
        loss = x.square().sum() * scale
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    optimizer.refresh()
    held = {name: value.clone() for name, value in optimizer.state[x].items() if not name.startswith("line_")}
    point, scale = x.detach().clone(), 1e25
    optimizer.step(closure)
    assert optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    assert torch.equal(x, point)
    assert all(torch.equal(optimizer.state[x][name], value) for name, value in held.items())
    assert optimizer.state[x]["line_direction"] is optimizer._session.line.directions[0]
