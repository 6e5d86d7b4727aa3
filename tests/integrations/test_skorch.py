"""skorch: a closure of one batch makes a whole search, so nets are always at an accepted point."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from helpers import equal
from torch import nn

import gradline

skorch = pytest.importorskip("skorch")

from sklearn.model_selection import GridSearchCV  # noqa: E402
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, GradientNormClipping, LRScheduler  # noqa: E402


class Module(nn.Module):
    def __init__(self, outputs=2):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, outputs))

    def forward(self, inputs):
        return self.layers(inputs)


class Accepted(Callback):
    """What the page tells to add where `spread=True`: skorch does not call `train()` and `eval()` by itself."""

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        if training:
            net.optimizer_.train()
        else:
            net.optimizer_.eval()

    def on_train_end(self, net, **kwargs):
        net.optimizer_.eval()


@pytest.fixture(scope="module")
def data():
    draws = np.random.default_rng(0)
    inputs = draws.normal(size=(240, 6)).astype("float32")
    return inputs, (inputs[:, :3].sum(axis=1) * inputs[:, 3] > 0).astype("int64")


def classifier(**options):
    torch.manual_seed(0)
    defaults = {"criterion": nn.CrossEntropyLoss, "max_epochs": 15, "batch_size": 64, "verbose": 0, "lr": None}
    return skorch.NeuralNetClassifier(Module, optimizer=gradline.GOLSI, **{**defaults, **options})


def parameters(net):
    return [parameter.detach().clone() for parameter in net.module_.parameters()]


def validation_loss(net, inputs, targets):
    chosen = net.get_split_datasets(inputs, targets)[1].indices
    with torch.no_grad():
        outputs = net.module_(torch.from_numpy(inputs[chosen]))
    return nn.functional.cross_entropy(outputs, torch.from_numpy(targets[chosen])).item()


@pytest.mark.parametrize("options", [{}, {"direction": torch.optim.Adam}, {"reuse_gradient": False}])
def test_a_classifier_learns_by_a_whole_search_on_each_batch(data, options):
    net = classifier(**{f"optimizer__{name}": value for name, value in options.items()})
    net.fit(*data)
    losses = net.history[:, "train_loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert net.optimizer_.iterations == 15 * 3  # 192 samples are three batches
    assert net.optimizer_.evaluations > net.optimizer_.iterations
    assert net.history[-1, "valid_loss"] == pytest.approx(validation_loss(net, *data), rel=1e-5)


def test_the_train_loss_is_that_of_the_first_probe(data):
    seen = []

    class Net(skorch.NeuralNetClassifier):
        def train_step_single(self, batch, **options):
            step = super().train_step_single(batch, **options)
            seen[-1].append(step["loss"].item())
            return step

        def train_step(self, batch, **options):
            seen.append([])
            return super().train_step(batch, **options)

    options = {"criterion": nn.CrossEntropyLoss, "max_epochs": 1, "batch_size": -1, "verbose": 0, "lr": None}
    net = Net(Module, optimizer=gradline.GOLSI, **options).fit(*data)
    (probes,) = seen
    assert len(probes) > 5
    assert net.history[-1, "train_loss"] == pytest.approx(probes[0], rel=1e-6)


def test_a_regressor_learns(data):
    inputs, _ = data
    torch.manual_seed(0)
    net = skorch.NeuralNetRegressor(
        Module, module__outputs=1, optimizer=gradline.GOLSI, lr=None, max_epochs=15, batch_size=64, verbose=0
    )
    net.fit(inputs, np.tanh(inputs[:, :1] - inputs[:, 1:2]))
    assert net.history[-1, "valid_loss"] < 0.8 * net.history[0, "valid_loss"]


def test_without_lr_none_the_error_says_what_to_do(data):
    net = skorch.NeuralNetClassifier(Module, optimizer=gradline.GOLSI)
    with pytest.raises(ValueError, match=r"lr must .*None .*the search finds the step.*got 0\.01"):
        net.fit(*data)


def test_a_learning_rate_set_later_does_nothing_and_is_told_so(data):
    plain, changed = classifier(max_epochs=2).fit(*data), classifier(max_epochs=2).fit(*data)
    with pytest.warns(UserWarning, match="the search finds each step"):
        changed.set_params(lr=0.5)
    changed.partial_fit(*data)
    plain.partial_fit(*data)
    assert equal(parameters(plain), parameters(changed))


def test_a_scheduler_does_nothing_and_is_told_so_once(data):
    plain = classifier().fit(*data)
    scheduled = classifier(callbacks=[LRScheduler(policy="StepLR", step_size=2)])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scheduled.fit(*data)
    assert ["the search finds each step" in str(one.message) for one in told] == [True]
    assert equal(parameters(plain), parameters(scheduled))


def test_spread_with_the_callback_of_the_page_validates_and_ends_at_accepted_points(data):
    accepted = []

    class Net(skorch.NeuralNetClassifier):
        """Notes the accepted points by itself: GOLS-I accepts its last probe, where the gradient was computed."""

        def train_step(self, batch, **options):
            probe = parameters(self)
            ended = self.optimizer_.iterations
            step = super().train_step(batch, **options)
            if self.optimizer_.iterations > ended:
                accepted.append(probe)
            return step

        def validation_step(self, batch, **options):
            assert not accepted or equal(parameters(self), accepted[-1])
            return super().validation_step(batch, **options)

    torch.manual_seed(0)
    net = Net(
        Module,
        criterion=nn.CrossEntropyLoss,
        optimizer=gradline.GOLSI,
        lr=None,
        optimizer__spread=True,
        callbacks=[Accepted()],
        max_epochs=40,
        batch_size=64,
        verbose=0,
    ).fit(*data)
    assert net.optimizer_.evaluations == 40 * 3 > len(accepted) > 20
    assert equal(parameters(net), accepted[-1])
    assert net.history[-1, "valid_loss"] == pytest.approx(validation_loss(net, *data), rel=1e-5)


def test_partial_fit_goes_on_where_fit_ended(data):
    whole, parts = classifier(max_epochs=6).fit(*data), classifier(max_epochs=3).fit(*data)
    parts.partial_fit(*data)
    assert equal(parameters(whole), parameters(parts))
    assert parts.optimizer_.evaluations == whole.optimizer_.evaluations


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_saved_parameters_and_optimizer_go_on_bit_for_bit(data, tmp_path, direction):
    net = classifier(optimizer__direction=direction).fit(*data)
    files = {"f_params": tmp_path / "params.pt", "f_optimizer": tmp_path / "optimizer.pt"}
    net.save_params(**files)
    again = classifier(optimizer__direction=direction).initialize()
    again.load_params(**files)
    for one in (net, again):
        one.partial_fit(*data)
    assert equal(parameters(net), parameters(again))
    assert again.optimizer_.evaluations == net.optimizer_.evaluations


def test_a_pickled_net_goes_on_bit_for_bit(data):
    net = classifier(max_epochs=4).fit(*data)
    again = pickle.loads(pickle.dumps(net))
    for one in (net, again):
        one.partial_fit(*data)
    assert equal(parameters(net), parameters(again))


def test_checkpoints_hold_the_best_epoch_with_its_optimizer(data, tmp_path):
    checkpoint = Checkpoint(monitor="valid_loss_best", dirname=tmp_path, load_best=True)
    net = classifier(callbacks=[checkpoint], max_epochs=30).fit(*data)
    best = int(np.argmin(net.history[:, "valid_loss"]))
    assert validation_loss(net, *data) == pytest.approx(net.history[best, "valid_loss"], rel=1e-5)
    assert net.optimizer_.iterations == 3 * (best + 1)


def test_early_stopping_ends_training(data):
    stopping = EarlyStopping(patience=2, threshold=0.5, sink=lambda text: None)
    net = classifier(callbacks=[stopping], max_epochs=50).fit(*data)
    assert len(net.history) < 50
    assert net.optimizer_.iterations == 3 * len(net.history)


def test_clipped_gradients_are_what_is_searched_with(data):
    net = classifier(callbacks=[GradientNormClipping(0.01)], max_epochs=3).fit(*data)
    assert net.optimizer_.last.origin.norm == pytest.approx(0.01, rel=1e-3)


def test_a_grid_search_over_an_option(data):
    net = classifier(max_epochs=3, train_split=False)
    grid = GridSearchCV(net, {"optimizer__growth": [1.5, 2.0]}, cv=2, scoring="accuracy").fit(*data)
    assert grid.best_estimator_.optimizer_.search.growth == grid.best_params_["optimizer__growth"]
    assert np.isfinite(grid.cv_results_["mean_test_score"]).tolist() == [True, True]  # no fit has failed
