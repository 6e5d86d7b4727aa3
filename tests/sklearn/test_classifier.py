"""What the classifier says, and what it accepts."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, make_multilabel_classification
from sklearn.exceptions import DataConversionWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from gradline.sklearn import LineSearchClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def small(**options):
    return LineSearchClassifier(**{"hidden_layer_sizes": 12, "max_iter": 15, "random_state": 0, **options})


@pytest.fixture(scope="module")
def two():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def labels():
    X, y = make_multilabel_classification(n_samples=150, n_features=8, n_classes=4, random_state=0)
    return StandardScaler().fit_transform(X), y


def test_two_classes(two):
    X, y = two
    model = small().fit(X, y)
    assert model.score(X, y) > 0.95
    scores, chances = model.decision_function(X), model.predict_proba(X)
    assert scores.shape == (len(X),)
    assert chances.shape == (len(X), 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(chances[:, 1] / chances[:, 0]), scores)
    np.testing.assert_array_equal(model.predict(X), model.classes_[(scores > 0).astype(int)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), chances)


def test_three_classes(three):
    X, y = three
    model = small(max_iter=40).fit(X, y)
    assert model.score(X, y) > 0.9
    chances = model.predict_proba(X)
    assert model.decision_function(X).shape == chances.shape == (len(X), 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), chances.argmax(axis=1))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), chances)


def test_many_labels_at_once(labels):
    X, y = labels
    model = small(max_iter=100).fit(X, y)
    chances = model.predict_proba(X)
    assert chances.shape == model.decision_function(X).shape == y.shape
    np.testing.assert_array_equal(model.predict(X), chances > 0.5)
    assert (model.predict(X) == y).mean() > 0.85
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), chances)


def test_log_probabilities_stay_finite_where_probabilities_vanish(two):
    X, y = two
    model = small().fit(X, y)
    far = 1e4 * X[:5]
    assert (model.predict_proba(far) == 0.0).any()
    assert np.isfinite(model.predict_log_proba(far)).all()


@pytest.mark.parametrize(
    "names",
    [
        np.array(["setosa", "versicolor", "virginica"]),
        np.array(["a", "b", "c"], dtype=object),
        np.array([-5, 0, 70]),
        np.array([0.0, 1.0, 2.0]),
    ],
    ids=["strings", "objects", "numbers", "floats"],
)
def test_classes_may_be_of_any_type(three, names):
    X, y = three
    model, plain = small().fit(X, names[y]), small().fit(X, y)
    np.testing.assert_array_equal(model.classes_, names)
    np.testing.assert_array_equal(model.predict(X), names[plain.predict(X)])


def test_truth_values_are_classes(two):
    X, y = two
    model = small().fit(X, y == 1)
    assert model.predict(X).dtype == bool


def test_one_class_is_always_predicted(two):
    X, _ = two
    model = small(max_iter=2).fit(X, np.full(len(X), "only"))
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))


def test_a_column_of_classes_is_taken_with_a_warning(two):
    X, y = two
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = small(max_iter=2).fit(X, y[:, None])
    assert model.predict(X).shape == y.shape


def test_several_columns_of_classes_are_refused(three):
    X, y = three
    with pytest.raises(ValueError, match="Multioutput target data is not supported"):
        small().fit(X, np.column_stack([y, y]))


def test_numbers_that_are_no_classes_are_refused(three):
    X, _ = three
    with pytest.raises(ValueError, match="Unknown label type"):
        small().fit(X, X[:, 0])


def test_partial_fit_learns_from_parts_that_lack_classes(three):
    X, y = three
    model = small()
    for _ in range(40):
        for part in (y < 2, y > 0):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert model.score(X, y) > 0.7  # who knows only one part has two thirds at most
    assert model.n_iter_ == 1
    assert len(model.loss_curve_) == 80


def test_partial_fit_needs_the_classes_once(three):
    X, y = three
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        small().partial_fit(X, y)
    model = small().partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y must have classes of classes_.*got array\(\[7\]\) too"):
        model.partial_fit(X, np.where(y == 2, 7, y))


def test_partial_fit_knows_all_labels_of_a_multilabel_y(labels):
    X, y = labels
    model = small()
    for _ in range(30):
        model.partial_fit(X, y)
    assert (model.predict(X) == y).mean() > 0.8


def test_warm_start_needs_the_same_classes(three):
    X, y = three
    model = small(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="y must have the same classes as before for warm_start"):
        model.fit(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="y must have classes of classes_"):
        model.fit(X, y + 1)


def test_without_warm_start_the_classes_are_new(three):
    X, y = three
    model = small().fit(X, y).fit(X[y < 2], y[y < 2])
    np.testing.assert_array_equal(model.classes_, [0, 1])


@pytest.mark.parametrize("which", ["two", "three", "labels"])
def test_early_stopping_keeps_the_weights_of_the_best_accuracy(request, which):
    X, y = request.getfixturevalue(which)
    model = small(max_iter=60, early_stopping=True, n_iter_no_change=5, validation_fraction=0.2).fit(X, y)
    assert len(model.validation_scores_) == model.n_iter_ < 60
    assert model.best_validation_score_ == max(model.validation_scores_)
    passes = model.validation_scores_.index(model.best_validation_score_) + 1
    again = small(max_iter=passes, early_stopping=True, n_iter_no_change=5, validation_fraction=0.2).fit(X, y)
    np.testing.assert_array_equal(model.coefs_[0], again.coefs_[0])


def test_early_stopping_copes_with_a_class_of_one_sample(three):
    X, y = three
    y = np.where(np.arange(len(y)) == 0, 9, y)
    assert 9 in small(max_iter=3, early_stopping=True).fit(X, y).classes_


def test_sparse_inputs_give_what_dense_ones_give(three):
    X, y = three
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense, thin = small().fit(X, y), small().fit(sparse.csc_matrix(X), y)
    np.testing.assert_allclose(dense.coefs_[0], thin.coefs_[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(dense.predict_proba(X), thin.predict_proba(sparse.coo_array(X)), rtol=1e-6)


def test_it_starts_from_the_weights_of_scikit_learns_classifier(three, monkeypatch):
    X, y = three
    monkeypatch.setattr("gradline.sklearn.training.Training.go", interrupt)
    with pytest.warns(UserWarning, match="interrupted"):
        model = small(hidden_layer_sizes=(7, 5), random_state=3).fit(X, y)
    peer = MLPClassifier((7, 5), random_state=3, max_iter=1, learning_rate_init=1e-300).fit(X, y)
    for ours, theirs in zip(model.coefs_ + model.intercepts_, peer.coefs_ + peer.intercepts_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def interrupt(training):
    raise KeyboardInterrupt


def test_torchs_default_device_changes_nothing():
    X, y = load_iris(return_X_y=True)
    outputs = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            outputs.append(LineSearchClassifier(max_iter=5, random_state=0).fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(*outputs)
