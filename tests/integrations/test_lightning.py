"""Lightning's `Trainer`, as it is, drives gradline's optimizers: whole searches, spread ones, and all its settings."""

import csv
import warnings
from pathlib import Path

import pytest
import torch
from helpers import equal
from torch import nn

import gradline
from gradline.searches import Armijo
from gradline.torch.integrations.lightning import LineSearchCallback

pytest.importorskip("lightning.pytorch")

from integrations.lightning_module import BATCHES, EPOCHS, Loader, Module, by_hand, data, fit, trainer
from lightning.pytorch.callbacks import LearningRateMonitor, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.plugins import MixedPrecision
from ranks.processes import launched

# Lightning's own use of torch's pytrees.
pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")


def loss_of(module):
    with torch.no_grad():
        return sum(module.loss(batch).item() for batch in data()) / BATCHES


@pytest.mark.parametrize("options", [{}, {"reuse_gradient": False}, {"direction": torch.optim.Adam}])
def test_a_module_as_it_is_trains_by_one_whole_search_for_each_batch(options):
    module, twin = Module(**options), Module(**options)
    before = loss_of(module)
    made = trainer()
    made.fit(module, data())
    (optimizer,) = made.optimizers
    assert made.global_step == optimizer.iterations == EPOCHS * BATCHES < optimizer.evaluations
    reference = by_hand(twin)
    assert equal(module.values(), twin.values())
    assert optimizer.evaluations == reference.evaluations
    assert loss_of(module) < 0.9 * before


def test_spread_each_batch_is_one_probe():
    module, twin = Module(spread=True), Module(spread=True)
    made = fit(module)
    (optimizer,) = made.optimizers
    assert made.global_step == optimizer.evaluations == EPOCHS * BATCHES
    assert 5 < optimizer.iterations < optimizer.evaluations
    by_hand(twin)
    assert equal(module.values(), twin.values())


class Characters(nn.Module):
    """A transformer with one layer: which of the letters before is the next one?"""

    def __init__(self, letters=6, width=16, length=8):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.place = nn.Parameter(0.1 * torch.randn(length, width))
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, tokens):
        return self.head(self.layer(self.embed(tokens) + self.place, src_mask=self.mask, is_causal=True))


class LanguageModule(Module):
    def loss(self, tokens):
        scores = self.net(tokens[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


@pytest.mark.parametrize("options", [{"reuse_gradient": False}, {"spread": True, "direction": torch.optim.AdamW}])
def test_a_transformer_learns_from_scratch(options):
    starts = torch.arange(48).reshape(-1, 1)
    tokens = ((starts + torch.arange(9) * (1 + starts % 2)) % 6).split(12)
    module = LanguageModule(Characters, **options)
    fit(module, train=Loader(tokens), max_epochs=40, gradient_clip_val=1.0)
    with torch.no_grad():
        assert module.loss(torch.cat(tokens)) < 0.5 < torch.tensor(6.0).log()  # that of guessing


@pytest.mark.parametrize("spread", [False, True])
def test_the_search_sees_clipped_gradients(spread):
    module, twin, free = (Module(spread=spread) for _ in range(3))
    fit(module, gradient_clip_val=0.05)
    by_hand(twin, clip=0.05)
    assert equal(module.values(), twin.values())
    by_hand(free)
    assert not equal(module.values(), free.values())


@pytest.mark.parametrize("accumulate", [2, 4])
def test_a_spread_search_probes_on_accumulated_gradients(accumulate):
    module, twin = Module(spread=True), Module(spread=True)
    made = fit(module, accumulate_grad_batches=accumulate, max_epochs=20)
    assert made.global_step == made.optimizers[0].evaluations == 20 * BATCHES / accumulate
    assert made.optimizers[0].iterations > 1
    by_hand(twin, epochs=20, accumulate=accumulate)
    assert equal(module.values(), twin.values())


def test_a_scheduler_does_nothing_and_is_told_so_once():
    class Scheduled(Module):
        def configure_optimizers(self):
            optimizer = self.build()
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    module, twin = Scheduled(), Module()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer().fit(module, data())
    by_hand(twin)
    assert equal(module.values(), twin.values())
    assert len([one for one in told if "the search finds each step" in str(one.message)]) == 1


def test_no_schedule_is_silent():
    class Scheduled(Module):
        def configure_optimizers(self):
            optimizer = self.build()
            scheduler = {"scheduler": gradline.NoSchedule(optimizer), "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": scheduler}

    module, twin = Scheduled(), Module()
    made = trainer()
    made.fit(module, data())  # warnings are errors
    by_hand(twin)
    assert equal(module.values(), twin.values())
    scheduler = made.lr_scheduler_configs[0].scheduler
    assert scheduler.get_last_lr() == [made.optimizers[0].last.step]


def test_the_learning_rate_monitor_shows_the_steps(tmp_path):
    seen = []

    class Watched(Module):
        def on_train_batch_end(self, *_):
            seen.append(self.optimizers().last.step)

    logger = CSVLogger(tmp_path)
    fit(Watched(), LearningRateMonitor("step"), logger=logger, log_every_n_steps=1, max_epochs=2)
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        shown = [float(row["lr-GOLSI"]) for row in csv.DictReader(file) if row["lr-GOLSI"]]
    # The monitor looks when a batch begins
    assert shown == pytest.approx([0.0, *seen[:-1]])
    assert len(shown) == 2 * BATCHES


def test_mixed_precision_with_bfloat16_makes_whole_searches():
    module = Module(reuse_gradient=False)
    before = loss_of(module)
    made = fit(module, precision="bf16-mixed")
    assert made.optimizers[0].iterations == made.global_step < made.optimizers[0].evaluations
    assert loss_of(module) < 0.7 * before


def scaled(**options):
    """What `precision="16-mixed"` is on a GPU."""
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=1024.0))
    return {"plugins": plugin, "max_epochs": 30, **options}


def test_with_a_gradient_scaler_each_batch_is_one_probe():
    module = Module()
    before = loss_of(module)
    made = fit(module, **scaled())
    (optimizer,) = made.optimizers
    assert made.global_step == optimizer.evaluations > optimizer.iterations > 5
    slope = optimizer.last.origin.at_zero.slope
    assert 0.0 > slope > -10.0  # not 1024² times as much
    assert loss_of(module) < 0.7 * before


def test_with_a_gradient_scaler_gradients_may_be_accumulated():
    made = fit(Module(), **scaled(accumulate_grad_batches=2))
    assert made.global_step == made.optimizers[0].evaluations == 30 * BATCHES / 2


def test_with_a_gradient_scaler_lightning_refuses_to_clip():
    with pytest.raises(RuntimeError, match="GOLSI, does not allow for gradient clipping"):
        fit(Module(), **scaled(gradient_clip_val=1.0))


def test_with_a_gradient_scaler_values_are_not_compared():
    module = Module(optimizer=gradline.LineSearchOptimizer, search=Armijo())
    with pytest.raises(RuntimeError, match="Armijo compares values of one batch"):
        fit(module, **scaled())


def test_weight_averaging_averages_accepted_points():
    class Watched(Module):
        points = ()

        def on_train_epoch_end(self):
            self.points = (*self.points, self.values())

    module, twin = Watched(spread=True), Module(spread=True)
    averaging = StochasticWeightAveraging(0.1, swa_epoch_start=3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(module, averaging)
    by_hand(twin)
    assert equal(module.points[-1], twin.values())  # its scheduler did nothing
    assert len([one for one in told if "the search finds each step" in str(one.message)]) == 1
    # Lightning averages at the start of epochs: what the one before has reached
    mean = [torch.stack(values).mean(dim=0) for values in zip(*module.points[1:5], strict=True)]
    for value, expected in zip(module.values(), mean, strict=True):
        torch.testing.assert_close(value, expected)


@pytest.mark.filterwarnings("ignore:gradline. something set group")
@pytest.mark.parametrize("spread", [False, True])
def test_weight_averaging_keeps_its_average_while_batch_norm_catches_up(spread):
    averaging = StochasticWeightAveraging(0.1, swa_epoch_start=2)
    module = Module(lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), spread=spread)
    fit(module, averaging, max_epochs=4)
    assert equal(module.values(), [p.detach() for p in averaging._average_model.parameters()])


class Halves(Module):
    """Each rank has its part of every batch. In float64, so that the rounding of one processor is no other step."""

    def __init__(self, part=slice(None), **options):
        super().__init__(**options)
        self.double()
        self.part = part

    def loss(self, batch):
        return super().loss([one[self.part].double() for one in batch])


def fit_on_ranks(rank, size, spread):
    module = Halves(slice(rank, None, size), spread=spread)
    with launched(rank, size):
        made = trainer(
            strategy="ddp", devices=size, callbacks=[LineSearchCallback()], use_distributed_sampler=False, max_epochs=2
        )
        made.fit(module, data())
    return made.world_size, made.optimizers[0].evaluations, module.values()


def test_two_processes_train_as_one(two):
    for spread in (False, True):
        (_, _, first), (world_size, evaluations, second) = two(fit_on_ranks, spread)
        assert world_size == 2
        assert equal(first, second)
        twin = Halves(spread=spread)
        assert evaluations == by_hand(twin, epochs=2).evaluations
        for value, expected in zip(first, twin.values(), strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-7, atol=1e-9)
