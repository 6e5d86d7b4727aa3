"""The line through parameter space: exact positions, few transfers, the same numbers whichever kernels do the work."""

import math
from collections import Counter

import pytest
import torch
from helpers import Problem, equal, linear
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gradline
from gradline.searches import Armijo, GolsI
from gradline.torch import line
from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import measure


def tensors(seed=0, scale=1.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(shape, generator=generator, dtype=dtype) for shape in [(3, 4), (5,), (), (2, 3, 2)]]


def aimed(parameters, directions):
    made = Line(parameters)
    torch._foreach_copy_(made.directions, directions)
    return made


@given(st.lists(st.floats(0, 1e6), max_size=8), st.booleans())
def test_positions_do_not_drift_and_the_way_back_is_exact(steps, small):
    parameters = [p if small else p.repeat_interleave(500) for p in tensors(1)]
    made = aimed(parameters, [torch.randn_like(p) for p in parameters])
    start = [p.clone() for p in parameters]
    for step in steps:
        made.go(step)
        fresh = [torch.add(x, d, alpha=step) for x, d in zip(start, made.directions, strict=True)]
        assert equal(parameters, fresh)
    made.home()
    assert equal(parameters, start)


def test_foreach_kernels_go_to_the_same_points(monkeypatch):
    def run():
        problem = Problem()
        problem.optimizer = gradline.GOLSI(problem.model.parameters())
        for _ in range(20):
            problem.optimizer.step(problem.closure)
        return problem

    one_by_one = run()
    monkeypatch.setattr(line, "single_pass", lambda tensors: False)
    monkeypatch.setattr(line, "is_small", lambda parameters: False)
    foreach = run()
    torch.testing.assert_close(foreach.parameters(), one_by_one.parameters(), rtol=1e-9, atol=1e-12)
    assert foreach.optimizer.evaluations == one_by_one.optimizer.evaluations


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("single", [True, False])
def test_measured_in_float32_or_better(dtype, single, monkeypatch):
    monkeypatch.setattr(line, "single_pass", lambda tensors: single)
    left, right = tensors(2, dtype=dtype), tensors(3, dtype=dtype)
    norm, product, (more,) = measure(left, right, torch.tensor(7.0))
    expected = sum((a.double() * b.double()).sum() for a, b in zip(left, right, strict=True))
    length = math.sqrt(sum(a.double().square().sum() for a in left))
    assert product == pytest.approx(expected.item(), rel=1e-5)
    assert norm == pytest.approx(length, rel=1e-6)
    assert more == 7.0


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e25])
def test_lengths_whose_squares_overflow(scale):
    left = tensors(4, scale)
    norm, product, _ = measure(left, left)
    length = math.sqrt(sum(a.double().square().sum() for a in left))
    assert norm == pytest.approx(length, rel=1e-5)
    assert product == pytest.approx(length**2, rel=1e-5)


def test_infinities_of_both_signs_are_not_a_number():
    norm, product, _ = measure([torch.tensor([math.inf, 1.0])], [torch.tensor([1.0, math.inf])])
    assert norm == math.inf
    assert product == math.inf
    _, product, _ = measure([torch.tensor([1.0, 1.0])], [torch.tensor([math.inf, -math.inf])])
    assert math.isnan(product)


@pytest.mark.parametrize("size", [2, 2000])
def test_parameters_that_do_not_move_add_nothing_to_the_slope(size):
    moving, resting = torch.ones(size), torch.ones(size)
    made = aimed([moving], [torch.full((size,), 2.0)])
    both = Gradients([moving, resting], [torch.full((size,), 3.0), torch.full((size,), 5.0)])
    norm, slope, _ = made.measure(both)
    assert slope == pytest.approx(6.0 * size)
    assert norm == pytest.approx(math.sqrt(34.0 * size))
    assert made.measure(Gradients([resting], [torch.ones(size)]))[1] == 0.0


@pytest.mark.parametrize("search", [GolsI(), Armijo()], ids=str)
@pytest.mark.parametrize("width", [4, 2000])
def test_one_transfer_for_each_evaluation(search, width, monkeypatch):
    """Whatever turns a tensor into a Python number is counted: on an accelerator each would wait for the device."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))
    inputs = torch.randn(20, 3)
    optimizer = gradline.LineSearchOptimizer(model.parameters(), search)
    transfers = Counter()

    def counted(name):
        original = getattr(torch.Tensor, name)

        def wrapper(*args):
            transfers[name] += 1
            return original(*args)

        monkeypatch.setattr(torch.Tensor, name, wrapper)

    def closure():
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        return loss

    for name in ("item", "tolist", "__float__", "__bool__", "__int__", "cpu", "numpy"):
        counted(name)
    for _ in range(10):
        optimizer.step(closure)
    assert sum(transfers.values()) == optimizer.evaluations


def test_extra_memory_is_two_copies_of_the_parameters():
    model = nn.Sequential(nn.Linear(50, 400), nn.Tanh(), nn.Linear(400, 1))
    optimizer = gradline.GOLSI(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(4, 50)).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    held = sum(buffer.numel() for state in optimizer.state.values() for buffer in state.values())
    assert held == 2 * sum(p.numel() for p in model.parameters())
    assert optimizer._session.line._pair is None
    assert optimizer._session.kept == {}


def test_few_numbers_take_the_short_way_and_others_do_not():
    assert Line(list(linear(3).parameters()))._pair is not None
    assert Line([torch.zeros(5000)])._pair is None
    assert Line([torch.zeros(3, dtype=torch.bfloat16)])._pair is None
    assert Line([torch.zeros(3), torch.zeros(3, dtype=torch.float64)])._pair is None


@pytest.mark.parametrize(("dtype", "step"), [(torch.float16, 1e6), (torch.float32, 1e40), (torch.bfloat16, 1e40)])
def test_steps_that_the_parameters_type_cannot_hold(dtype, step):
    parameters = [torch.ones(3, dtype=dtype)]
    line = Line(parameters)
    line.directions[0].copy_(torch.tensor([0.0, 0.5, torch.finfo(dtype).tiny]))
    for _ in range(2):
        line.go(step)
        expected = 1.0 + torch.finfo(dtype).tiny * step
        assert parameters[0].tolist() == [1.0, float("inf"), pytest.approx(expected, rel=1e-2)]
    line.home()
    assert parameters[0].tolist() == [1.0, 1.0, 1.0]
