"""Parameters of every kind that models have: complex, sparse, scalar, empty, many, tied, lazy, reparametrised."""

import pytest
import torch
from helpers import Problem, equal
from torch import nn
from torch.nn.utils import parametrizations

import gradline
from gradline.protocol import Stop

DIRECTIONS = [None, torch.optim.Adam]


def closure_of(optimizer, evaluate):
    def closure():
        optimizer.zero_grad()
        loss = evaluate()
        loss.backward()
        return loss

    return closure


def minimised(optimizer, evaluate, steps=40):
    """The loss after some steps."""
    for _ in range(steps):
        optimizer.step(closure_of(optimizer, evaluate))
    return evaluate().item()


def test_complex_parameters_are_refused_with_a_hint_that_works():
    torch.manual_seed(0)
    target = torch.randn(4, dtype=torch.complex64)
    weight = nn.Parameter(torch.zeros(4, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"must be real.*make torch.view_as_real of it the parameter, and use"):
        gradline.GOLSI([weight])
    real = nn.Parameter(torch.view_as_real(weight.detach()).clone())
    optimizer = gradline.GOLSI([real])
    assert minimised(optimizer, lambda: (torch.view_as_complex(real) - target).abs().square().sum()) < 1e-8


def test_sparse_gradients_are_refused_and_dense_ones_of_the_same_layer_work():
    torch.manual_seed(0)
    words = torch.tensor([1, 2, 5])
    sparse = nn.Embedding(10, 3, sparse=True)
    optimizer = gradline.GOLSI(sparse.parameters())
    before = sparse.weight.detach().clone()
    with pytest.raises(TypeError, match=r"gradients must be dense.*use sparse=False"):
        optimizer.step(closure_of(optimizer, lambda: sparse(words).square().sum()))
    assert torch.equal(sparse.weight, before)
    dense = nn.Embedding(10, 3)
    assert minimised(gradline.GOLSI(dense.parameters()), lambda: dense(words).square().sum()) < 1e-6


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_numbers_and_empty_parameters(direction):
    number, nothing = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.empty(0, 3))
    optimizer = gradline.GOLSI([nothing, number], direction=direction)
    assert minimised(optimizer, lambda: (number - 1.0).square() + nothing.sum()) < 1e-5
    assert nothing.shape == (0, 3)


def test_nothing_but_empty_parameters_has_no_direction():
    nothing = nn.Parameter(torch.empty(0))
    optimizer = gradline.GOLSI([nothing])
    optimizer.step(closure_of(optimizer, lambda: nothing.sum()))
    assert optimizer.last.stop is Stop.ZERO_DIRECTION


@pytest.mark.parametrize(("count", "size"), [(1000, 10), (20, 5000)])  # side by side, and one by one
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_many_parameters_move_as_one_vector(count, size, direction):
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(count, size, generator=generator, dtype=torch.float64)
    one = nn.Parameter(torch.zeros_like(target))
    many = [nn.Parameter(torch.zeros_like(row)) for row in target]
    whole, parted = gradline.GOLSI([one], direction=direction), gradline.GOLSI(many, direction=direction)
    for _ in range(2):
        whole.step(closure_of(whole, lambda: (one - target).square().sum()))
        parted.step(closure_of(parted, lambda: (torch.stack(many) - target).square().sum()))
        assert parted.last.step == pytest.approx(whole.last.step)
        assert parted.last.stop is whole.last.stop
    assert (parted._session.line._pair is not None) == (count == 1000)
    torch.testing.assert_close(torch.stack(many), one)


def test_float32_and_float64_in_one_optimizer_share_one_step():
    single, double = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = gradline.GOLSI([single, double])
    closure = closure_of(optimizer, lambda: single.square().sum().double() + double.square().sum())
    optimizer.step(closure)
    assert optimizer.last.origin.at_zero.slope == pytest.approx(-24.0)
    assert optimizer.last.transcript[0][1].slope == pytest.approx(-24.0, rel=1e-6)
    torch.testing.assert_close(single.double(), double, rtol=1e-6, atol=0.0)
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)


def test_a_tied_weight_is_one_parameter():
    def model(inputs):
        layers = nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
        layers[2].weight = layers[0].weight
        return layers

    problem = Problem(model=model)
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    problem.full()
    square = sum(p.grad.square().sum().item() for p in problem.model.parameters())  # parameters() has it once
    before = problem.loss().item()
    problem.optimizer.step(problem.full)
    assert problem.optimizer.last.origin.at_zero.slope == pytest.approx(-square)
    assert problem.model[2].weight is problem.model[0].weight
    assert problem.loss().item() < before


def test_a_parameter_given_twice_is_torchs_error():
    weight = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        gradline.GOLSI([{"params": [weight]}, {"params": [weight]}])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_lazy_layers_take_shape_after_the_optimizer_is_built(direction):
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(1))
    optimizer = gradline.GOLSI(model.parameters(), direction=direction)
    inputs = torch.randn(50, 6)
    assert minimised(optimizer, lambda: (model(inputs) - 0.5).square().mean()) < 0.05


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.orthogonal])
def test_parametrised_layers_are_searched_in_their_own_parameters(wrap):
    def model(inputs):
        return nn.Sequential(wrap(nn.Linear(inputs, 6)), nn.Tanh(), nn.Linear(6, 1))

    problem = Problem(model=model, batch_size=200)
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    before = problem.loss().item()
    for _ in range(30):
        problem.optimizer.step(problem.full)
    assert problem.loss().item() < 0.95 * before
    if wrap is parametrizations.orthogonal:
        weight = problem.model[0].weight
        torch.testing.assert_close(weight @ weight.T, torch.eye(6, dtype=weight.dtype), rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_unfreezing_a_layer_lets_it_join_the_next_search(direction):
    problem = Problem()
    frozen = problem.model[0].requires_grad_(False)
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), direction=direction)
    before = [p.detach().clone() for p in frozen.parameters()]
    for _ in range(40):
        problem.turn()
    assert equal(before, list(frozen.parameters()))
    frozen.requires_grad_(True)
    for _ in range(40):
        problem.turn()
    assert not any(map(torch.equal, before, frozen.parameters()))


def test_freezing_a_layer_keeps_it_still_after_refresh():
    problem = Problem()
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), direction=torch.optim.Adam)
    for _ in range(40):
        problem.turn()
    frozen = problem.model[0].requires_grad_(False)
    problem.optimizer.refresh()
    before = [p.detach().clone() for p in frozen.parameters()]
    for _ in range(40):
        problem.turn()
    with problem.optimizer.eval():
        assert equal(before, list(frozen.parameters()))
