"""`LineSearchCallback`: the accepted point outside of training batches, resuming, refusals, and what is logged."""

import csv
import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from helpers import equal

import gradline
from gradline.searches import Armijo

pytest.importorskip("lightning.pytorch")

from integrations.lightning_module import BATCHES, EPOCHS, Loader, Module, Validated, by_hand, data, fit, trainer
from lightning.pytorch.callbacks import EarlyStopping, GradientAccumulationScheduler, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from gradline.torch.integrations.lightning import LineSearchCallback

# Lightning's own use of torch's pytrees.
pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")


def held_out():
    return Loader(data(seed=1).batches[:1])


def mid_search(optimizer):
    pending = optimizer._session.driver.pending
    return optimizer._session.standing.probing and pending is not None and len(pending.transcript) > 0


@pytest.mark.parametrize("spread", [False, True])
def test_validation_test_and_prediction_are_at_the_accepted_point(spread):
    module, twin = Validated(spread=spread), Validated(spread=spread)
    made = fit(module, val=held_out(), num_sanity_val_steps=1)
    (batch,) = held_out()
    expected = [twin.loss(batch).item()]  # the sanity check
    by_hand(twin, after_epoch=lambda: expected.append(twin.loss(batch).item()))
    assert module.val_losses == expected
    assert equal(module.values(), twin.values())
    (tested,) = made.test(module, held_out(), verbose=False)
    assert tested["test_loss"] == expected[-1]
    (predicted,) = made.predict(module, held_out())
    assert torch.equal(predicted, twin.net(batch[0]))


def test_validation_in_the_middle_of_an_epoch_does_not_disturb_the_search():
    module, twin = Validated(spread=True), Validated(spread=True)
    fit(module, val=held_out(), val_check_interval=3, num_sanity_val_steps=0)
    by_hand(twin)
    assert len(module.val_losses) == EPOCHS * (BATCHES // 3)
    assert equal(module.values(), twin.values())


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks")  # the ModelCheckpoint
@pytest.mark.parametrize("options", [{}, {"spread": True}, {"spread": True, "direction": torch.optim.Adam}])
@pytest.mark.parametrize("stop", [2 * BATCHES, 2 * BATCHES + 3])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(options, stop, tmp_path):
    whole, first, second = (Module(**options) for _ in range(3))
    through = fit(whole)
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=stop, save_top_k=-1)
    cut = fit(first, saving, max_steps=stop, enable_checkpointing=True)
    assert mid_search(cut.optimizers[0]) == bool(options)
    resumed = fit(second, ckpt_path=tmp_path / f"step={stop}.ckpt")
    assert equal(second.values(), whole.values())
    (one,), (other,) = through.optimizers, resumed.optimizers
    assert one.last == other.last
    assert one.evaluations == other.evaluations
    assert one.iterations == other.iterations > 1
    assert resumed.global_step == through.global_step == EPOCHS * BATCHES
    assert resumed.callbacks[0].stops == through.callbacks[0].stops


@pytest.mark.parametrize("weights_only", [False, True])
def test_a_checkpoint_of_any_batch_holds_an_accepted_point(weights_only, tmp_path):
    points, searching = {}, []

    class Watched(Module):
        def on_train_batch_end(self, *_):
            with self.optimizers().eval():
                points[self.trainer.global_step] = self.values()
            searching.append(mid_search(self.optimizers()))

    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=3, save_top_k=-1, save_weights_only=weights_only)
    fit(Watched(spread=True), saving, enable_checkpointing=True)
    assert 20 < sum(searching) < len(searching)
    saved = {int(path.stem.removeprefix("step=")): path for path in tmp_path.glob("*.ckpt")}
    assert sorted(saved) == list(range(3, EPOCHS * BATCHES + 1, 3))
    for step, path in saved.items():
        weights = torch.load(path, weights_only=True)["state_dict"]
        assert equal(list(weights.values()), points[step])


def test_a_probe_saved_without_the_callback_is_left_with_it(tmp_path):
    starts = []

    class Watched(Module):
        def on_train_epoch_start(self):
            starts.append(self.values())

    module, again, twin = Module(spread=True), Watched(spread=True), Module(spread=True)
    bare = trainer(max_epochs=2)
    bare.fit(module, data())
    assert mid_search(bare.optimizers[0])
    bare.save_checkpoint(tmp_path / "probe.ckpt", weights_only=False)
    fit(again, ckpt_path=tmp_path / "probe.ckpt")
    assert not equal(starts[0], module.values())
    with bare.optimizers[0].eval():
        assert equal(starts[0], module.values())
    by_hand(twin)
    assert equal(again.values(), twin.values())


def test_the_best_checkpoint_and_early_stopping_go_by_the_accepted_points(tmp_path):
    best = ModelCheckpoint(tmp_path, monitor="val_loss")
    module = Validated(spread=True)
    made = fit(
        module,
        EarlyStopping("val_loss", patience=2),
        best,
        val=held_out(),
        num_sanity_val_steps=0,
        max_epochs=200,
        enable_checkpointing=True,
    )
    assert made.current_epoch < 200
    assert min(module.val_losses) == module.val_losses[-3]
    again = Validated.load_from_checkpoint(best.best_model_path, weights_only=True)
    (batch,) = held_out()
    assert again.loss(batch).item() == min(module.val_losses)


def test_after_a_failure_the_model_is_at_the_accepted_point():
    class Failing(Module):
        def training_step(self, batch, batch_idx):
            if self.trainer.global_step == 19:
                raise OSError("no data")
            return super().training_step(batch, batch_idx)

    module, twin = Failing(spread=True), Module(spread=True)
    made = trainer(callbacks=[LineSearchCallback()])
    with pytest.raises(OSError, match="no data"):
        made.fit(module, data())
    assert mid_search(made.optimizers[0])
    fit(twin, max_steps=19)
    assert equal(module.values(), twin.values())


def test_an_epoch_cut_short_ends_at_the_accepted_point():
    points = []

    class Short(Module):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 5 else None

        def on_train_epoch_end(self):
            points.append(self.values())
            with self.optimizers().eval():
                assert equal(points[-1], self.values())

    module = Short(spread=True)
    made = fit(module)
    assert made.global_step == made.optimizers[0].evaluations == 5 * EPOCHS
    assert equal(points[-1], module.values())


@pytest.mark.parametrize("more", [{"accumulate_grad_batches": 2}, {"scheduler": {0: 2}}, {"scheduler": {1: 2}}])
def test_whole_searches_on_accumulated_gradients_are_refused(more):
    scheduler = more.pop("scheduler", None)
    others = [] if scheduler is None else [GradientAccumulationScheduler(scheduler)]
    refused = r"accumulate_grad_batches must be 1 for a GOLSI .* got 2.*spread=True"
    with pytest.raises(ValueError, match=refused):
        fit(Module(), *others, **more)
    with pytest.raises(ValueError, match=refused):  # without the callback too
        trainer(callbacks=others, **more).fit(Module(), data())


class Manual(Module):
    """Optimizes by its own hand."""

    def __init__(self, *, closure, **options):
        super().__init__(**options)
        self.automatic_optimization = False
        self.with_closure = closure

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()

        def closure():
            optimizer.zero_grad()
            loss = self.loss(batch)
            self.manual_backward(loss)
            return loss

        if self.with_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


@pytest.mark.parametrize(("closure", "spread"), [(True, False), (True, True), (False, True)])
def test_manual_optimization_takes_the_same_steps(closure, spread):
    module, twin = Manual(closure=closure, spread=spread), Module(spread=spread)
    made = fit(module)
    by_hand(twin)
    assert equal(module.values(), twin.values())
    assert made.global_step == EPOCHS * BATCHES


def test_manual_optimization_without_a_closure_does_not_search_on_one_gradient():
    module = Manual(closure=False)
    before = module.values()
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        fit(module)
    assert equal(module.values(), before)


def test_prls_trains_by_manual_optimization():
    def closure_of(module, batch):
        inputs, targets = batch
        return lambda: (module.net(inputs) - targets).square().sum(dim=1)

    class PerSample(Manual):
        def training_step(self, batch, batch_idx):
            self.log("loss", self.optimizers().step(closure_of(self, batch)))

    module, twin = PerSample(closure=True, optimizer=gradline.PrLS), Module(optimizer=gradline.PrLS)
    made = fit(module, max_epochs=1)
    optimizer = twin.build()
    for batch in data():
        loss = optimizer.step(closure_of(twin, batch))
    assert equal(module.values(), twin.values())
    assert made.callback_metrics["loss"] == loss
    assert made.global_step == made.optimizers[0].iterations == BATCHES


def test_it_leaves_other_optimizers_alone():
    module, twin = (Module(optimizer=torch.optim.Adam) for _ in range(2))
    made = fit(module, accumulate_grad_batches=2)
    alone = trainer(accumulate_grad_batches=2)
    alone.fit(twin, data())
    assert equal(module.values(), twin.values())
    assert made.callback_metrics.keys() == alone.callback_metrics.keys()


def rows(logger):
    logger.save()
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]


@pytest.mark.parametrize("options", [{}, {"spread": True}])
def test_the_searches_are_logged(options, tmp_path):
    records, seen = [], []

    class Watched(Module):
        def on_train_start(self):
            self.optimizers().register_search_hook(records.append)

        def on_train_batch_end(self, *_):
            seen.append((self.optimizers().evaluations, records[-1] if records else None))

    logger = CSVLogger(tmp_path)
    made = fit(Watched(**options), logger=logger, log_every_n_steps=1)
    logged = [row for row in rows(logger) if "gradline/step" in row]
    told = [(evaluations, record) for evaluations, record in seen if record is not None]
    assert len(logged) == len(told) > 5
    for row, (evaluations, record) in zip(logged, told, strict=True):
        assert row["gradline/step"] == pytest.approx(record.step)
        assert row["gradline/evaluations"] == record.evaluations
        assert row["gradline/total/evaluations"] == evaluations
        assert row["gradline/slope/start"] == pytest.approx(record.origin.at_zero.slope)
        assert row["gradline/slope/accepted"] == pytest.approx(record.transcript[-1][1].slope)
    stops = Counter(record.stop.name for record in records)
    assert made.callbacks[0].stops == [stops]
    assert len(stops) > 1
    assert {name: logged[-1][f"gradline/stops/{name.lower()}"] for name in stops} == stops
    assert made.callback_metrics["gradline/step"] == pytest.approx(records[-1].step)


def test_a_search_that_moved_nothing_is_logged_too(tmp_path):
    class Flat(Module):
        def loss(self, batch):
            return 0.0 * super().loss(batch)

    logger = CSVLogger(tmp_path)
    fit(Flat(), logger=logger, log_every_n_steps=1, max_epochs=1)
    last = rows(logger)[-1]
    assert last["gradline/step"] == 0.0
    assert last["gradline/stops/zero_direction"] == BATCHES
    assert not any("slope/accepted" in name for name in last)


def test_nothing_is_logged_where_it_is_not_wanted():
    made = trainer(callbacks=[LineSearchCallback(log=False)])
    made.fit(Module(), data())
    assert not [name for name in made.callback_metrics if "gradline" in name]


def test_two_optimizers_are_logged_apart():
    class Two(Manual):
        def configure_optimizers(self):
            return [gradline.GOLSI(layer.parameters(), spread=True) for layer in (self.net[0], self.net[2])]

        def training_step(self, batch, batch_idx):
            for optimizer in self.optimizers():
                optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            for optimizer in self.optimizers():
                optimizer.step()

    made = fit(Two(closure=False))
    first, second = made.optimizers
    assert made.callback_metrics["gradline/step"] == pytest.approx(first.last.step)
    assert made.callback_metrics["gradline-1/step"] == pytest.approx(second.last.step)


def test_searches_that_compare_values_train_too():
    module, twin = (Module(optimizer=gradline.LineSearchOptimizer, search=Armijo()) for _ in range(2))
    made = fit(module)
    by_hand(twin)
    assert equal(module.values(), twin.values())
    assert math.isfinite(made.callback_metrics["gradline/slope/accepted"])


def test_the_older_package_name_works_too():
    old = pytest.importorskip("pytorch_lightning")

    class Old(old.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = Module()

        def training_step(self, batch, batch_idx):
            return self.inner.loss(batch)

        def configure_optimizers(self):
            return gradline.GOLSI(self.parameters(), spread=True)

    module, twin = Old(), Module(spread=True)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    made = old.Trainer(callbacks=[LineSearchCallback()], accelerator="cpu", logger=False, max_epochs=EPOCHS, **quiet)
    made.fit(module, data())
    by_hand(twin)
    assert equal(module.inner.values(), twin.values())
    assert "gradline/step" in made.callback_metrics
