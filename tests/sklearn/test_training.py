"""The course of training, which classifier and regressor share."""

import copy
import pickle
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gradline
from gradline.searches import Armijo, Fixed, GolsI, GolsMax, Prls
from gradline.sklearn import LineSearchClassifier, LineSearchRegressor
from gradline.sklearn.training import Training, Weights

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def small(kind=LineSearchClassifier, **options):
    return kind(**{"hidden_layer_sizes": 10, "max_iter": 8, "random_state": 0, **options})


def same(left, right):
    return all(map(np.array_equal, left.coefs_ + left.intercepts_, right.coefs_ + right.intercepts_))


@quiet
def test_the_attributes_tell_what_happened(data):
    model = small(batch_size=30).fit(*data)
    assert model.n_iter_ == len(model.loss_curve_) == 8
    assert model.best_loss_ == min(model.loss_curve_)
    assert model.n_evaluations_ >= 8 * 5
    assert 0 < len(model.steps_) < model.n_evaluations_
    assert all(step > 0.0 for step in model.steps_)
    assert (model.n_layers_, model.n_outputs_, model.n_features_in_) == (3, 3, 4)
    assert [coef.shape for coef in model.coefs_] == [(4, 10), (10, 3)]
    assert model.validation_scores_ is None


@quiet
@pytest.mark.parametrize("alpha", [0.0, 50.0])
def test_the_loss_is_that_of_the_best_weights_and_all_samples(data, alpha):
    X, y = data
    model = small(alpha=alpha, batch_size=50).fit(X, y)
    log_loss = -model.predict_log_proba(X)[np.arange(len(y)), y].mean()
    penalty = alpha / 2 * sum((coef**2).sum() for coef in model.coefs_) / len(y)
    assert model.best_loss_ == pytest.approx(log_loss + penalty)


@quiet
def test_alpha_keeps_the_weights_small(data):
    free, held = small(alpha=0.0, max_iter=30).fit(*data), small(alpha=50.0, max_iter=30).fit(*data)
    assert np.abs(held.coefs_[0]).sum() < 0.5 * np.abs(free.coefs_[0]).sum()


@quiet
@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
@pytest.mark.parametrize("sizes", [(), 6, (6, 5), np.array([4])], ids=["none", "number", "two", "array"])
def test_layers_of_any_number_and_kind(data, activation, sizes):
    X, y = data
    model = small(hidden_layer_sizes=sizes, activation=activation, max_iter=12).fit(X, y)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    network = model_of(model)
    with torch.no_grad():
        np.testing.assert_allclose(network(torch.tensor(X)), model.decision_function(X), rtol=1e-9)


def model_of(model):
    return Weights(model.coefs_, model.intercepts_).network(model.activation, "cpu")


@quiet
@pytest.mark.parametrize("search", [None, GolsMax(), Prls(), Armijo(), Fixed(step=0.1)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("direction", [None, torch.optim.Adam, partial(torch.optim.SGD, momentum=0.5)])
def test_any_search_and_any_direction_trains(data, search, direction):
    model = small(search=search, direction=direction, batch_size=50, max_iter=20).fit(*data)
    assert model.best_loss_ < 0.9 * model.loss_curve_[0] or model.best_loss_ < 0.3


@quiet
def test_searches_that_compare_values_see_one_batch_per_search(data, monkeypatch):
    drawn = {}
    of_batch = Training._of_batch

    def spy(training, chosen):
        drawn.setdefault(training.optimizer.iterations, set()).add(tuple(chosen.tolist()))
        return of_batch(training, chosen)

    monkeypatch.setattr(Training, "_of_batch", spy)
    small(search=Armijo(), batch_size=20).fit(*data)
    assert {len(batches) for batches in drawn.values()} == {1}
    drawn.clear()
    small(search=GolsI(), batch_size=20).fit(*data)
    assert max(len(batches) for batches in drawn.values()) > 1


@quiet
@pytest.mark.parametrize("kind", [LineSearchClassifier, LineSearchRegressor])
def test_a_random_state_makes_training_reproducible(data, kind):
    one, two = small(kind, batch_size=40).fit(*data), small(kind, batch_size=40).fit(*data)
    other = small(kind, batch_size=40, random_state=1).fit(*data)
    assert same(one, two)
    assert one.steps_ == two.steps_
    assert not same(one, other)


@quiet
def test_a_generator_as_random_state_goes_on(data):
    generator = np.random.RandomState(0)
    one, two = small(random_state=generator).fit(*data), small(random_state=generator).fit(*data)
    assert not same(one, two)
    assert same(one, small(random_state=np.random.RandomState(0)).fit(*data))


@quiet
def test_the_global_generators_are_left_alone(data):
    numpy_before, torch_before = np.random.get_state(), torch.get_rng_state()
    small(batch_size=40, early_stopping=True).fit(*data)
    small(search=Prls(), batch_size=40).fit(*data).predict_proba(data[0])
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert all(map(np.array_equal, np.random.get_state(), numpy_before))


@quiet
def test_without_a_random_state_numpys_global_one_decides(data):
    state = np.random.get_state()
    one = small(random_state=None).fit(*data)
    np.random.set_state(state)
    assert same(one, small(random_state=None).fit(*data))


def test_max_iter_is_told(data):
    with pytest.warns(ConvergenceWarning, match=r"Maximum iterations \(3\) reached") as told:
        small(max_iter=3).fit(*data)
    assert told[0].filename == __file__


def test_it_ends_when_nothing_improves_and_says_so(data, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small(max_iter=500, tol=0.05, n_iter_no_change=3, verbose=True).fit(*data)
    assert 4 < model.n_iter_ < 100
    said = capsys.readouterr().out.splitlines()
    assert len(said) == model.n_iter_ + 1
    assert said[0].startswith(f"Iteration 1, loss = {model.loss_curve_[0]:.8f}")
    assert said[-1] == "Training loss did not improve by 0.05 in 3 passes in a row. Stopping."
    gains = np.minimum.accumulate(model.loss_curve_)[:-1] - model.loss_curve_[1:]
    assert (gains[-4:] < 0.05).all()
    assert gains[-5] >= 0.05


@quiet
def test_it_says_nothing_unless_asked(data, capsys):
    small().fit(*data)
    assert capsys.readouterr().out == ""


@quiet
def test_warm_start_goes_on_where_it_was(data):
    model = small(warm_start=True).fit(*data)
    first, steps = model.best_loss_, len(model.steps_)
    model.fit(*data)
    assert model.best_loss_ < first
    assert model.loss_curve_[8] < 1.5 * first
    assert len(model.loss_curve_) == 16
    assert model.steps_[steps] > 1e-4  # not from the smallest step again
    cold = small().fit(*data).fit(*data)
    assert len(cold.loss_curve_) == 8


@quiet
def test_warm_start_takes_another_search(data):
    model = small(warm_start=True, direction=torch.optim.Adam).fit(*data)
    before = model.best_loss_
    model.set_params(search=Armijo(), direction=None).fit(*data)
    assert model.best_loss_ < before


@quiet
def test_warm_start_needs_the_same_network(data):
    model = small(warm_start=True).fit(*data)
    with pytest.raises(ValueError, match=r"hidden_layer_sizes must be those of the last fit .*got 11"):
        model.set_params(hidden_layer_sizes=11).fit(*data)


def test_partial_fit_goes_on_exactly_after_pickling(data):
    X, y = data
    whole, parted = small(), small()
    for turn in range(6):
        rows = slice(25 * turn, 25 * turn + 25)
        whole.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
        parted = pickle.loads(pickle.dumps(parted)).partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert same(whole, parted)
    assert whole.steps_ == parted.steps_


def test_partial_fit_refuses_early_stopping(data):
    with pytest.raises(ValueError, match="early_stopping must be False for partial_fit"):
        small(early_stopping=True).partial_fit(*data, classes=[0, 1, 2])


@quiet
@pytest.mark.parametrize("direction", [None, torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9)])
def test_it_is_cloned_pickled_and_copied(data, direction):
    model = small(search=GolsMax(), direction=direction).fit(*data)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model).fit(*data)):
        assert same(model, again)
        np.testing.assert_array_equal(model.predict_proba(data[0]), again.predict_proba(data[0]))
    assert not hasattr(clone(model), "coefs_")


@quiet
@pytest.mark.parametrize(("search", "copies"), [(None, 6), (GolsI(), 3)])
def test_a_pickle_holds_the_weights_and_the_optimizers_state(data, search, copies):
    model = small(search=search, hidden_layer_sizes=(60, 60, 60, 60)).fit(*data)
    weights = sum(part.nbytes for part in model.coefs_ + model.intercepts_)
    assert len(pickle.dumps(model)) < (1 + copies + 0.5) * weights


@quiet
def test_an_interrupt_keeps_what_was_learned(data, monkeypatch):
    of_batch = Training._of_batch

    def interrupted(training, chosen):
        if training.optimizer.evaluations > 60:
            raise KeyboardInterrupt
        return of_batch(training, chosen)

    monkeypatch.setattr(Training, "_of_batch", interrupted)
    with pytest.warns(UserWarning, match=r"Training interrupted by user\.") as told:
        model = small(max_iter=500).fit(*data)
    assert told[0].filename == __file__
    assert 0 < model.n_iter_ == len(model.loss_curve_) < 60
    assert model.score(*data) > 0.7
    assert all(np.isfinite(coef).all() for coef in model.coefs_)


@quiet
def test_it_works_in_a_pipeline_and_a_grid_search(data):
    grid = {
        "linesearchclassifier__hidden_layer_sizes": [4, (8, 8)],
        "linesearchclassifier__search": [GolsI(), GolsMax()],
    }
    found = GridSearchCV(make_pipeline(StandardScaler(), small(max_iter=20)), grid, cv=3).fit(*data)
    assert found.best_score_ > 0.8


@quiet
@pytest.mark.parametrize("kind", [LineSearchClassifier, LineSearchRegressor])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_stay_as_precise_as_they_come(data, kind, dtype):
    X, y = data
    model = small(kind).fit(X.astype(dtype), y)
    assert model.coefs_[0].dtype == dtype
    said = model.predict_proba(X.astype(dtype)) if kind is LineSearchClassifier else model.predict(X.astype(dtype))
    assert said.dtype == dtype
    assert model.score(X, y) > 0.7


@quiet
def test_names_of_features_are_remembered(data):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(data[0], columns=["a", "b", "c", "d"])
    model = small().fit(X, data[1])
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.rename(columns={"a": "z"}))


@quiet
@pytest.mark.parametrize("kind", [LineSearchClassifier, LineSearchRegressor])
def test_a_weight_is_worth_so_many_samples(data, kind):
    X, y = data
    weights = np.random.RandomState(0).randint(0, 3, len(y))
    # All samples in one batch, so that both have the same.
    weighted = small(kind, alpha=1.0, batch_size=np.count_nonzero(weights)).fit(X, y, sample_weight=weights)
    repeated = small(kind, alpha=1.0, batch_size=weights.sum())
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.loss_curve_, repeated.loss_curve_, rtol=1e-6)
    np.testing.assert_allclose(weighted.coefs_[0], repeated.coefs_[0], rtol=1e-5, atol=1e-8)


@quiet
def test_weights_count_in_mini_batches_and_validation_scores(data):
    X, y = data
    wrong = np.where(np.arange(len(y)) % 3 == 0, (y + 1) % 3, y)
    weights = np.where(wrong == y, 1.0, 1e-3)
    plain = small(batch_size=30, max_iter=50, early_stopping=True, validation_fraction=0.3).fit(X, wrong)
    weighted = clone(plain).fit(X, wrong, sample_weight=weights)
    assert plain.best_validation_score_ < 0.8 < 0.85 < weighted.best_validation_score_
    assert weighted.score(X, y) > 0.85


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.full(150, -1.0), "sample_weight must be 0 or more .*got -1.0"),
        (np.zeros(150), "sample_weight must be above zero for some samples .*got 0.0"),
        (np.ones(7), r"sample_weight must be of shape \(150,\) .*got \(7,\)"),
        (np.full(150, np.nan), "Input sample_weight contains NaN"),
    ],
    ids=["negative", "zero", "short", "nan"],
)
def test_unusable_weights_are_refused(data, weights, said):
    with pytest.raises(ValueError, match=said):
        small().fit(*data, sample_weight=weights)


@quiet
def test_one_weight_for_all_changes_nothing_but_the_penalty(data):
    assert same(small(alpha=0.0).fit(*data, sample_weight=1.0), small(alpha=0.0).fit(*data))


@quiet
def test_a_batch_larger_than_the_data_is_all_the_data(data):
    with pytest.warns(UserWarning, match="150 is used instead of 151"):
        model = small(batch_size=151).fit(*data)
    assert same(model, small(batch_size=150).fit(*data))


@quiet
@pytest.mark.parametrize(
    ("search", "samples", "size"),
    [(GolsI(), 150, 150), (GolsI(), 450, 150), (None, 64, 64), (None, 65, 8), (None, 150, 18), (None, 1800, 200)],
)
def test_an_automatic_batch_has_two_hundred_samples_at_most(data, monkeypatch, search, samples, size):
    sizes = set()
    X, y = (np.resize(part, (samples, *part.shape[1:])) for part in data)
    of_batch = Training._of_batch
    monkeypatch.setattr(Training, "_of_batch", lambda self, chosen: sizes.add(len(chosen)) or of_batch(self, chosen))
    small(search=search, max_iter=1).fit(X, y)
    assert sizes == {size}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_give_scikit_learns_error(data, bad):
    X = data[0].copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        small().fit(X, data[1])
    with pytest.raises(ValueError, match=r"Input y contains (NaN|infinity)"):
        small(LineSearchRegressor).fit(data[0], X[:, 1])


@pytest.mark.filterwarnings("ignore:gradline.*not finite:RuntimeWarning")
def test_a_loss_that_is_not_finite_is_told(data):
    with pytest.raises(ValueError, match=r"X must be of moderate size .*StandardScaler"):
        small(LineSearchRegressor).fit(1e200 * data[0], data[1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hidden_layer_sizes": (5, 0)}, r"hidden_layer_sizes must be whole numbers from 1 on .*got \(5, 0\)"),
        ({"hidden_layer_sizes": 2.5}, r"hidden_layer_sizes must be whole numbers from 1 on .*got 2\.5"),
        ({"activation": "softplus"}, "activation must be one of 'identity', .*got 'softplus'"),
        ({"alpha": -1.0}, "alpha must be 0 or more and finite .*got -1.0"),
        ({"alpha": float("nan")}, "alpha must be 0 or more and finite .*got nan"),
        ({"batch_size": 0}, "batch_size must be 'auto' or a whole number from 1 on .*got 0"),
        ({"batch_size": "all"}, "batch_size must be 'auto' or a whole number from 1 on .*got 'all'"),
        ({"max_iter": 0}, "max_iter must be a whole number from 1 on .*got 0"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number from 1 on .*got 0"),
        ({"tol": "small"}, "tol must be 0 or more and finite .*got 'small'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be 0 or more and below 1 .*got 1.0"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(data, options, said):
    with pytest.raises(ValueError, match=said):
        small(**options).fit(*data)


@pytest.mark.parametrize("given", [GolsI, gradline.GOLSI, "gols-i", gradline.Angle, "angle", torch.optim.SGD, 0.001])
def test_what_is_no_search_is_refused_with_advice(data, given):
    with pytest.raises(TypeError, match=r"search must be None.* or an instance of a search .*: write search=gradline"):
        small(search=given).fit(*data)


def test_an_optimizer_is_no_search(data):
    built = gradline.Angle(torch.nn.Linear(4, 3).parameters())
    with pytest.raises(TypeError, match="search must be None, which is Angle"):
        small(search=built).fit(*data)


@quiet
def test_the_default_is_angle_with_one_evaluation_per_step(data):
    model = small(batch_size=30, max_iter=20).fit(*data)
    first = model.n_evaluations_ - len(model.steps_)
    assert 5 < first < 30  # of the first search, in the first pass
    assert len(model.steps_) == 19 * 5 + 1 + max(0, 5 - first - 1)
    assert same(model, small(batch_size=30, max_iter=20, search=gradline.searches.Angle()).fit(*data))
    assert not same(model, small(batch_size=30, max_iter=20, search=gradline.searches.Angle(gain=6.0)).fit(*data))


@quiet
def test_angles_average_is_kept(data, monkeypatch):
    iterates = []
    step = gradline.Angle.step

    def spy(optimizer, closure):
        loss = step(optimizer, closure)
        if len(trained[0].steps):
            held = optimizer.state[optimizer.param_groups[0]["params"][0]]
            iterates.extend([] if iterates else [held["origin"].clone()])  # the first search ends there
            iterates.append(held["iterate"].clone())
        return loss

    trained = []
    build = Training.__init__
    monkeypatch.setattr(Training, "__init__", lambda *given, **more: trained.append(given[0]) or build(*given, **more))
    monkeypatch.setattr(gradline.Angle, "step", spy)
    model = small(batch_size=10, max_iter=1).fit(*data)
    weights = [count**3 for count in range(1, len(iterates) + 1)]
    mean = sum(weight * point for weight, point in zip(weights, iterates, strict=True)) / sum(weights)
    np.testing.assert_allclose(model.coefs_[0], mean.T, rtol=1e-9)
    assert np.abs(model.coefs_[0] - trained[0].network[0].weight.detach().numpy().T).max() > 1e-4


@quiet
@pytest.mark.parametrize("search", [None, GolsI()])
def test_gradients_of_zero_end_a_pass_too(data, search, monkeypatch):
    monkeypatch.setattr(LineSearchRegressor, "_losses", lambda self, outputs, targets: 0.0 * outputs.sum(dim=1))
    model = small(LineSearchRegressor, search=search, alpha=0.0, batch_size=50, max_iter=2, verbose=True).fit(*data)
    assert (model.n_iter_, model.best_loss_) == (2, 0.0)
    assert model.n_evaluations_ == 2 * 3


@quiet
def test_a_warm_start_of_single_passes_is_one_training(data):
    parted = small(warm_start=True, max_iter=1, batch_size=150)
    for _ in range(8):
        parted.fit(*data)
    whole = small(batch_size=150).fit(*data)
    np.testing.assert_allclose(parted.loss_curve_, whole.loss_curve_, rtol=1e-6)


def test_too_little_to_judge_by_is_refused(data):
    with pytest.raises(ValueError, match=r"validation_fraction must be a part of at least 2 samples .*got 0.001"):
        small(early_stopping=True, validation_fraction=0.001).fit(*data)


@quiet
def test_patience_without_end_trains_to_max_iter(data):
    model = small(n_iter_no_change=np.inf, tol=10.0, max_iter=30).fit(*data)
    assert model.n_iter_ == 30


@pytest.mark.parametrize(("module", "name"), [("torch", "PyTorch"), ("sklearn", "scikit-learn")])
def test_what_is_missing_is_named(module, name):
    code = f"import sys, scipy.special; sys.modules[{module!r}] = None; import gradline.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        f"gradline.sklearn needs {name}, which is not installed: pip install '.[sklearn]' in a clone of gradline"
        in done.stderr
    )
