import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from lab.study_runs import blobs
from torch.nn import functional

from gradline.lab.problems import PROBLEMS, Activation, Loss, Network
from gradline.lab.problems.networks import angle_between, criterion, initial_weights, largest, network
from gradline.torch.moments import Evaluated

BCE, MSE = PROBLEMS["bcwd-netpi"], PROBLEMS["bcwd-netpii"]
TANH = replace(MSE, activation=Activation.TANH)
PUBLISHED = PROBLEMS["bcwd-netpi-as-published"]
OUTPUTS = torch.tensor([[0.0, 0.0], [1.5, -2.0], [-3.0, 0.5], [9.0, -9.0]], dtype=torch.float64)
TARGETS = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)


def losses_and_gradients(problem, outputs=OUTPUTS, targets=TARGETS):
    outputs = outputs.clone().requires_grad_()
    losses = criterion(problem)(outputs, targets)
    losses.sum().backward()
    return losses.detach(), outputs.grad


def test_bce_is_that_of_torch():
    losses, gradients = losses_and_gradients(BCE)
    expected = functional.binary_cross_entropy_with_logits(OUTPUTS, TARGETS, reduction="none").sum(dim=1)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(gradients, torch.sigmoid(OUTPUTS) - TARGETS)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_bce_of_saturated_outputs_keeps_its_digits(sign):
    outputs = sign * torch.tensor([[50.0, -50.0]], dtype=torch.float64)
    right = torch.tensor([[1.0, 0.0]] if sign > 0 else [[0.0, 1.0]], dtype=torch.float64)
    assert criterion(BCE)(outputs, right).item() == pytest.approx(2.0 * math.exp(-50.0), rel=1e-12)
    losses, gradients = losses_and_gradients(BCE, outputs, 1.0 - right)
    assert losses.item() == 100.0
    assert gradients.tolist() == [[sign, -sign]]


@pytest.mark.parametrize(("problem", "squash"), [(MSE, torch.sigmoid), (TANH, torch.tanh)])
def test_mse_is_proben1s(problem, squash):
    outputs = OUTPUTS.clone().requires_grad_()
    expected = 100.0 * (squash(outputs) - TARGETS).square().mean(dim=1)
    expected.sum().backward()
    losses, gradients = losses_and_gradients(problem)
    torch.testing.assert_close(losses, expected.detach())
    torch.testing.assert_close(gradients, outputs.grad)


def plain_published(z, y):
    q = 1.0 / (1.0 + math.exp(-z))
    value = -(y * math.log10(q + 1e-12) + (1.0 - y) * math.log10(1.0 + 1e-12 - q))
    return value, (q - y) / (q - q * q + 1e-15) * math.exp(-z) / (1.0 + math.exp(-z)) ** 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("z", [-40.0, -30.0, -5.0, -0.5, 0.0, 0.25, 8.0, 20.0, 36.0, 40.0])
def test_the_published_bce_has_the_published_value_and_gradient(z, dtype):
    outputs = torch.tensor([[z, 1.0]], dtype=dtype)
    targets = torch.tensor([[0.0, 1.0]], dtype=dtype)
    losses, gradients = losses_and_gradients(PUBLISHED, outputs, targets)
    (value, slope), (other, other_slope) = plain_published(z, 0.0), plain_published(1.0, 1.0)
    assert losses.item() == pytest.approx(0.5 * (value + other), rel=1e-12)
    assert gradients.tolist() == [pytest.approx([slope, other_slope], rel=1e-6 if dtype is torch.float32 else 1e-9)]


def test_the_published_gradient_is_k_ln_10_times_that_of_the_published_value():
    _, gradients = losses_and_gradients(PUBLISHED)
    ahead, behind = OUTPUTS.clone(), OUTPUTS.clone()
    ahead[1, 0] += 1e-6
    behind[1, 0] -= 1e-6
    values = criterion(PUBLISHED).values
    difference = (values(ahead, TARGETS, 1) - values(behind, TARGETS, 1))[1].item() / 2e-6
    assert gradients[1, 0].item() == pytest.approx(2.0 * math.log(10.0) * difference, rel=1e-6)


def test_published_gradients_of_huge_outputs_fade_and_are_finite():
    outputs = torch.tensor([[800.0, -800.0]], dtype=torch.float64)
    losses, gradients = losses_and_gradients(PUBLISHED, outputs, torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    assert losses.item() == pytest.approx(12.0, rel=1e-4)
    assert gradients.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("problem", [BCE, MSE, TANH, PUBLISHED])
def test_autograd_and_lock_step_use_the_same_derivatives(problem):
    losses, gradients = losses_and_gradients(problem)
    chosen = criterion(problem)
    turned = OUTPUTS.t()[None], TARGETS.t()[None]
    torch.testing.assert_close(chosen.values(*turned, 1)[0], losses)
    torch.testing.assert_close(chosen.deltas(*turned, 1)[0].t(), gradients)


@pytest.mark.parametrize("problem", [BCE, MSE, TANH, PUBLISHED, replace(PUBLISHED, dtype="float32")])
def test_variances_are_found_layer_by_layer(problem):
    data = blobs()
    model = network(problem, data, seed=0)
    dtype = getattr(torch, problem.dtype)
    inputs, targets = (
        torch.tensor(data.train_inputs[:20], dtype=dtype),
        torch.tensor(data.train_targets[:20], dtype=dtype),
    )
    evaluated = Evaluated(criterion(problem)(model(inputs), targets), list(model.parameters()))
    assert evaluated.by_layers
    assert evaluated.diagonal_by_layers


def test_bce_needs_probabilities():
    with pytest.raises(ValueError, match=r"activation must be sigmoid where the loss is a binary cross-entropy \(its"):
        criterion(replace(BCE, activation=Activation.TANH))


def test_initial_weights_are_normal_and_the_same_for_every_method_and_layout():
    data = blobs()
    problem = replace(BCE, hidden=(200, 100), scale=0.5)
    weights = initial_weights(problem, data, 3)
    assert [weight.shape for weight in weights] == [(200, 7), (200,), (100, 200), (100,), (2, 100), (2,)]
    joined = np.concatenate([weight.ravel() for weight in weights])
    assert joined.std() == pytest.approx(0.5, rel=0.02)
    assert abs(joined.mean()) < 0.02
    model = network(problem, data, seed=3)
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        np.testing.assert_array_equal(parameter.detach().numpy(), weight)
    assert not np.array_equal(weights[0], initial_weights(problem, data, 4)[0])


def test_building_a_network_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    network(BCE, blobs(), seed=0)
    assert torch.equal(before, torch.get_rng_state())


def test_a_network_ends_with_pre_activations():
    kinds = [type(layer).__name__ for layer in network(TANH, blobs(), seed=0)]
    assert kinds == ["Linear", "Tanh", "Linear"]
    assert network(replace(BCE, dtype="float32"), blobs(), seed=0)[0].weight.dtype == torch.float32


def test_a_model_is_built_from_the_seed():
    problem = replace(BCE, model="lab.study_runs:tiny_model")
    one, same, other = (network(problem, blobs(), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.inner.weight, same.inner.weight)
    assert not torch.equal(one.inner.weight, other.inner.weight)
    assert one.inner.weight.dtype == torch.float64


def test_a_model_must_be_one():
    with pytest.raises(ValueError, match=r"model must be 'package\.module:function'"):
        network(replace(BCE, model="lab.study_runs"), blobs(), seed=0)
    with pytest.raises(TypeError, match=r"model must build an nn\.Module"):
        network(replace(BCE, model="builtins:repr"), blobs(), seed=0)


def test_the_class_is_that_of_the_largest_output():
    outputs = torch.tensor([[0.0, 1.0, 0.5], [3.0, -1.0, 2.0]])
    assert largest(outputs, 1).tolist() == [1, 0]
    assert largest(outputs.t(), 0).tolist() == [1, 0]


def test_small_angles_are_exact():
    left = torch.tensor([1.0, 0.0], dtype=torch.float64)
    for angle in (1e-12, 0.1, 1.0, math.pi / 2, 3.0):
        right = 7.0 * torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
        assert angle_between(left, right) == pytest.approx(angle, rel=1e-9)
    assert math.isnan(angle_between(left, torch.zeros(2, dtype=torch.float64)))


def test_losses_are_named_by_the_problems():
    networks = [problem for problem in PROBLEMS.values() if isinstance(problem, Network)]
    assert {problem.loss for problem in networks} == set(Loss)
    for problem in networks:
        assert criterion(problem)(OUTPUTS, TARGETS).shape == (4,)
