"""What the regressor says, on any scale of its targets."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.preprocessing import StandardScaler

from gradline.sklearn import LineSearchRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def small(**options):
    return LineSearchRegressor(**{"hidden_layer_sizes": 12, "max_iter": 15, "random_state": 0, **options})


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(300, random_state=0)
    return StandardScaler().fit_transform(X), y


def test_it_learns_a_function(friedman):
    X, y = friedman
    model = small(max_iter=60).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.predict(X).shape == y.shape


def test_it_learns_targets_of_hundreds():
    X, y = load_diabetes(return_X_y=True)
    assert y.max() > 300.0
    X = StandardScaler().fit_transform(X)
    assert small(early_stopping=True).fit(X, y).score(X, y) > 0.4


@pytest.mark.parametrize(("scale", "offset"), [(1e-6, 0.0), (300.0, 1e5), (1e12, -1e12), (1e200, 0.0)])
def test_predictions_follow_the_scale_of_the_targets(friedman, scale, offset):
    X, y = friedman
    plain, scaled = small(max_iter=5).fit(X, y), small(max_iter=5).fit(X, scale * y + offset)
    expected = scale * plain.predict(X) + offset
    np.testing.assert_allclose(scaled.predict(X), expected, atol=1e-5 * scale * y.std(), rtol=0)
    np.testing.assert_allclose(scaled.loss_curve_, plain.loss_curve_, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6, -3e-9])
def test_a_constant_target_is_predicted(friedman, value):
    X, y = friedman
    model = small(max_iter=40, hidden_layer_sizes=()).fit(X, np.full_like(y, value))
    np.testing.assert_array_equal(model.target_scale_, [1.0])
    np.testing.assert_allclose(model.predict(X), value, atol=0.2)


def test_many_targets_of_different_scales_are_all_learned(friedman):
    X, y = friedman
    both = np.column_stack([1e4 * y, 1e-3 * X[:, 0]])
    model = small(max_iter=60).fit(X, both)
    predicted = model.predict(X)
    assert predicted.shape == both.shape
    for column in range(2):
        rest = (both[:, column] - predicted[:, column]).var()
        assert rest < 0.25 * both[:, column].var()


def test_a_column_of_targets_stays_a_column(friedman):
    X, y = friedman
    assert small(max_iter=2).fit(X, y[:, None]).predict(X).shape == (len(y), 1)


def test_partial_fit_makes_one_pass_at_a_time(friedman):
    X, y = friedman
    model = small()
    for _ in range(40):
        for part in (slice(0, 150), slice(150, 300)):
            model.partial_fit(X[part], y[part])
    assert model.n_iter_ == 1
    assert len(model.loss_curve_) == 80
    assert model.score(X, y) > 0.7


def test_partial_fit_keeps_the_number_of_targets(friedman):
    X, y = friedman
    model = small().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"y must have as many targets as before, 1 .*got 2"):
        model.partial_fit(X, np.column_stack([y, y]))


def test_weights_count_in_the_scale_of_targets_too(friedman):
    X, y = friedman
    y = y.copy()
    y[:10] = 1e6
    weights = np.where(np.arange(len(y)) < 10, 0.0, 1.0)
    model = small(max_iter=3).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.target_mean_, y[10:].mean())
    np.testing.assert_allclose(model.target_scale_, y[10:].std())


def test_early_stopping_watches_r_squared(friedman):
    X, y = friedman
    model = small(max_iter=80, early_stopping=True, n_iter_no_change=4, tol=1e-3, verbose=False).fit(X, y)
    assert len(model.validation_scores_) == model.n_iter_
    assert model.best_validation_score_ == max(model.validation_scores_) > 0.5
