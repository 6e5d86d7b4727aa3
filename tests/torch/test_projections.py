"""Non-negative gradient projection points in many dimensions."""

import numpy as np
import pytest
import torch

from gradline import landscape


def bowl(spread):
    """A quadratic of 12 weights whose samples have their optima around 0."""
    weights = torch.zeros(12, dtype=torch.float64, requires_grad=True)
    normal = torch.randn(100, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    targets = spread * (normal - normal.mean(dim=0))
    return weights, lambda target: (weights - target).square().sum(dim=1) / 2, targets


def test_the_optimum_of_all_data_is_both_kinds_of_point():
    weights, loss, targets = bowl(1.0)
    found = landscape.projections([weights], loss, targets, distances=[0.1, 0.5], batch_size=10, seed=0)
    assert found.full.shape == (100, 2)
    assert found.slopes.shape == (20, 100, 2)
    np.testing.assert_allclose(found.full, np.tile([0.1, 0.5], (100, 1)), atol=1e-12)  # u·(x + λu) at x = 0
    assert found.is_nn_gpp
    assert found.is_snn_gpp
    assert found.probabilities[:, 1].mean() > found.probabilities[:, 0].mean() > 0.4
    assert not weights.any()


def test_a_point_inside_the_ball_is_a_stochastic_one_only_and_far_away_neither():
    weights, loss, targets = bowl(1.0)
    with torch.no_grad():
        weights[0] = 0.3
    near = landscape.projections([weights], loss, targets, distances=[0.05], batch_size=2, batches=200, seed=0)
    assert not near.is_nn_gpp
    assert near.is_snn_gpp
    with torch.no_grad():
        weights[0] = 50.0
    far = landscape.projections([weights], loss, targets, distances=[0.05], batch_size=2, seed=0)
    assert not far.is_snn_gpp
    assert far.probabilities.min() == 0.0


def test_the_same_seed_draws_the_same():
    weights, loss, targets = bowl(1.0)
    first, second = (
        landscape.projections([weights], loss, targets, distances=[1.0], directions=3, batch_size=5, seed=4)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.slopes, second.slopes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distances": [0.0, 1.0]}, r"distances must be above 0 .*, got 0"),
        ({"distances": [2.0, 1.0]}, "distances must be finite numbers in ascending order"),
        ({"directions": 0}, "directions must be a whole number of 1 or more"),
        ({"batches": 1.5}, "batches must be a whole number of 1 or more"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    weights, loss, targets = bowl(1.0)
    with pytest.raises(ValueError, match=message):
        landscape.projections([weights], loss, targets, **{"distances": [1.0], "batch_size": 5} | options)
