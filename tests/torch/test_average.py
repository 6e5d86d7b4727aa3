"""LateAverage: the weights of the points, BatchNorm's statistics, and saving."""

import copy
import pickle

import pytest
import torch
from torch import nn

import gradline


def moved(model, points):
    average = gradline.LateAverage(model)
    for point in points:
        with torch.no_grad():
            model.weight.fill_(point)
        average.update_parameters(model)
    return average


def test_the_first_point_is_the_average_of_itself():
    assert moved(nn.Linear(1, 1, bias=False), [3.0]).module.weight.item() == 3.0


@pytest.mark.parametrize("power", [0.0, 2.0, 8.0])
def test_weights_grow_with_a_power_of_the_number_of_points(power):
    points = [float(k) for k in range(1, 401)]
    model = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    average = gradline.LateAverage(model, power=power)
    for point in points:
        nn.init.constant_(model.weight, point)
        average.update_parameters(model)
    # The mean of k with weights k^p, for many k, is (p + 1)/(p + 2) of the last one.
    assert average.module.weight.item() == pytest.approx(400 * (power + 1) / (power + 2), rel=0.01)


@pytest.mark.slow
def test_after_a_hundred_thousand_points_the_weights_are_still_right_and_rounding_is_far_below_the_noise():
    draws = torch.Generator().manual_seed(0)
    models = [nn.Linear(64, 1, bias=False, dtype=dtype) for dtype in (torch.float32, torch.float64)]
    averages = [gradline.LateAverage(model) for model in models]
    ramp = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    of_ramp = gradline.LateAverage(ramp)
    for k in range(1, 100_001):
        noisy = 1.0 + 0.01 * torch.randn(1, 64, generator=draws)
        for model, average in zip(models, averages, strict=True):
            with torch.no_grad():
                model.weight.copy_(noisy)
            average.update_parameters(model)
        nn.init.constant_(ramp.weight, k)
        of_ramp.update_parameters(ramp)
    assert of_ramp.module.weight.item() == pytest.approx(0.9 * 100_000, rel=1e-4)
    single, double = (average.module.weight.double() for average in averages)
    assert (single - double).abs().max() < 0.01 * 0.01  # a hundredth of the noise of one point


def test_a_plain_mean_is_the_power_of_0():
    model = nn.Linear(1, 1, bias=False)
    average = gradline.LateAverage(model, power=0.0)
    for point in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, point)
        average.update_parameters(model)
    assert average.module.weight.item() == pytest.approx(3.0)


def test_statistics_are_averaged_and_counts_are_copied():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    average = gradline.LateAverage(model)
    means = []
    for _ in range(5):
        model(torch.randn(8, 3))
        average.update_parameters(model)
        means.append(model[1].running_mean.clone())
    expected = means[0]
    for k, mean in enumerate(means[1:], start=1):
        expected = torch.lerp(expected, mean, 9 / (k + 9))
    torch.testing.assert_close(average.module[1].running_mean, expected)
    assert average.module[1].num_batches_tracked.item() == 5


def test_it_is_saved_copied_and_goes_on():
    model = nn.Linear(2, 1)
    average = moved(model, [1.0, 2.0])
    twin = gradline.LateAverage(nn.Linear(2, 1))
    twin.load_state_dict(average.state_dict())
    others = [copy.deepcopy(average), pickle.loads(pickle.dumps(average)), twin]
    nn.init.constant_(model.weight, 7.0)
    for one in (average, *others):
        one.update_parameters(model)
    assert all(torch.equal(other.module.weight, average.module.weight) for other in others)


@pytest.mark.parametrize("power", [-1.0, float("nan"), float("inf")])
def test_a_bad_power_gets_its_sentence(power):
    with pytest.raises(ValueError, match=r"power must be 0 or more and finite \(weights grow with it\), got"):
        gradline.LateAverage(nn.Linear(1, 1), power=power)
