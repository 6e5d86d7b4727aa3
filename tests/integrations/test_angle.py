"""`gradline.Angle` in Lightning's and Hugging Face's trainers: averaged weights are evaluated and saved."""

import itertools

import pytest
import torch
from helpers import equal

import gradline

pytest.importorskip("lightning.pytorch")
pytest.importorskip("transformers")

from integrations.lightning_module import BATCHES, EPOCHS, Loader, Module, Validated, by_hand, data, fit
from integrations.test_transformers import logged, parameters, saved_parameters, search_of, trainer_in
from lightning.pytorch.callbacks import BackboneFinetuning, BaseFinetuning, ModelCheckpoint
from torch import nn
from transformers import TrainerCallback

from gradline.torch.integrations.transformers import LineSearchCallback

# Lightning's own use of torch's pytrees.
pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")


def held_out():
    return Loader(data(seed=1).batches[:1])


def normalized():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def tensors(module):
    return [tensor.clone() for tensor in module.state_dict().values()]


class Noted(Validated):
    """Notes the average after each batch, and the tensors that validation uses."""

    def __init__(self):
        super().__init__(make=normalized, optimizer=gradline.Angle)
        self.averages, self.validated, self.points = {}, [], {}

    def on_train_batch_end(self, *_):
        optimizer = self.optimizers().optimizer
        with optimizer.eval():
            self.averages[self.trainer.global_step] = tensors(self)
        optimizer.train()
        self.points[self.trainer.global_step] = tensors(self)
        optimizer.eval()

    def on_validation_start(self):
        self.validated.append((self.trainer.global_step, tensors(self)))


def test_lightning_validates_saves_and_ends_with_the_average(tmp_path):
    module = Noted()
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=5, save_top_k=-1)
    fit(module, saving, val=held_out(), num_sanity_val_steps=0, enable_checkpointing=True)
    last = EPOCHS * BATCHES
    assert [step for step, _ in module.validated] == list(range(BATCHES, last + 1, BATCHES))
    for step, used in module.validated:
        assert equal(used, module.averages[step])
    for path in tmp_path.glob("*.ckpt"):
        saved = torch.load(path, weights_only=True)["state_dict"]
        assert equal(list(saved.values()), module.averages[int(path.stem.removeprefix("step="))])
    assert len(list(tmp_path.glob("*.ckpt"))) == last // 5
    assert equal(tensors(module), module.averages[last])
    assert not equal(module.averages[last], module.points[last])


@pytest.mark.parametrize("options", [{}, {"clip": 0.1}, {"accumulate": 2}])
def test_lightning_takes_the_steps_of_a_plain_loop(options):
    module, twin = Module(optimizer=gradline.Angle), Module(optimizer=gradline.Angle)
    settings = {"gradient_clip_val": options.get("clip"), "accumulate_grad_batches": options.get("accumulate", 1)}
    made = fit(module, **settings)
    optimizer = by_hand(twin, **options)
    assert made.optimizers[0].evaluations == optimizer.evaluations == EPOCHS * BATCHES // options.get("accumulate", 1)
    torch.testing.assert_close(module.values(), twin.values(), rtol=1e-5, atol=1e-7)


def test_lightning_clips_in_bfloat16():
    clipped = Module(optimizer=gradline.Angle)
    made = fit(clipped, precision="bf16-mixed", gradient_clip_val=1e-3)
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in clipped.parameters()])
    assert norm <= 1.001e-3
    # The optimizer can be used with a GradScaler afterwards.
    assert made.optimizers[0]._step_supports_amp_scaling


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks")  # the ModelCheckpoint
@pytest.mark.parametrize("stop", [5, 2 * BATCHES, 3 * BATCHES + 3])
def test_lightning_resumes_bit_for_bit(tmp_path, stop):
    whole, first, second = (Module(make=normalized, optimizer=gradline.Angle) for _ in range(3))
    through = fit(whole)
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=stop, save_top_k=-1)
    fit(first, saving, max_steps=stop, enable_checkpointing=True)
    resumed = fit(second, ckpt_path=tmp_path / f"step={stop}.ckpt")
    assert equal(tensors(second), tensors(whole))
    (one,), (other,) = through.optimizers, resumed.optimizers
    assert one.last.step == other.last.step
    assert one.evaluations == other.evaluations
    one.train()
    other.train()
    assert equal(tensors(second), tensors(whole))


class Averages(TrainerCallback):
    """Notes the average after each step, and the parameters that are evaluated."""

    def __init__(self):
        self.averages, self.evaluated = {}, {}

    def on_optimizer_step(self, args, state, control, model, optimizer, **kwargs):
        with optimizer.optimizer.eval():
            self.averages[state.global_step + 1] = parameters(model)

    def on_evaluate(self, args, state, control, model, **kwargs):
        self.evaluated[state.global_step] = parameters(model)


def angle_in(folder, *callbacks, **settings):
    return trainer_in(folder, make=gradline.Angle, callbacks=[LineSearchCallback(), *callbacks], **settings)


def test_hugging_face_evaluates_saves_and_ends_with_the_average(tmp_path):
    strategies = {"eval_strategy": "steps", "eval_steps": 10, "save_strategy": "steps", "save_steps": 7}
    trainer = angle_in(tmp_path, noted := Averages(), max_steps=32, **strategies)
    trainer.train()
    assert sorted(noted.evaluated) == [10, 20, 30, 32]
    for step, used in noted.evaluated.items():
        assert equal(used, noted.averages[step])
    for step in (7, 14, 21, 28, 32):
        assert equal(saved_parameters(tmp_path / f"checkpoint-{step}"), noted.averages[step])
    assert equal(parameters(trainer.model), noted.averages[32])
    plain = trainer_in(tmp_path, make=gradline.Angle, max_steps=32)
    plain.train()
    search_of(trainer).train()
    search_of(plain).train()
    assert equal(parameters(trainer.model), parameters(plain.model))  # evaluating and saving changes no step
    assert not equal(parameters(trainer.model), noted.averages[32])
    assert logged(trainer, "gradline/averaged_from")[-1] == search_of(trainer).averaged_from


@pytest.mark.parametrize("step", [5, 25])
def test_hugging_face_resumes_bit_for_bit(tmp_path, step):
    def build():
        return angle_in(tmp_path, dropout=0.1, max_steps=30, save_strategy="steps", save_steps=5)

    whole, resumed = build(), build()
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    assert equal(parameters(resumed.model), parameters(whole.model))
    assert search_of(resumed).evaluations == search_of(whole).evaluations == 30
    for trainer in (whole, resumed):
        search_of(trainer).train()
    assert equal(parameters(resumed.model), parameters(whole.model))


def test_hugging_face_trains_on_from_the_best_model(tmp_path):
    class First(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
            if state.global_step == 0:
                self.start = parameters(model)

    strategies = {"eval_strategy": "steps", "eval_steps": 8, "save_strategy": "steps", "save_steps": 8}
    trainer = angle_in(tmp_path, max_steps=24, load_best_model_at_end=True, metric_for_best_model="step", **strategies)
    steps = iter([3.0, 1.0, 1.0])  # the first evaluation is the best, so that training went on from there
    evaluate = trainer.evaluate
    trainer.evaluate = lambda *given, **options: {**evaluate(*given, **options), "eval_step": next(steps, 0.0)}
    trainer.args.greater_is_better = True
    trainer.train()
    best = saved_parameters(tmp_path / "checkpoint-8")
    assert equal(parameters(trainer.model), best)
    trainer.add_callback(first := First())
    trainer.train()
    assert equal(first.start, best)


class Pretrained(Module):
    """A backbone that is frozen at first, and a head."""

    def __init__(self):
        super().__init__(make=normalized)
        self.backbone = self.net[:2]

    def configure_optimizers(self):
        return gradline.Angle(self.net[3].parameters(), step_first=1e-2)  # the first search ends in epoch 1


class Unfreezing(BaseFinetuning):
    """Trains the backbone too from an epoch on, by steps a tenth as long as those of the head."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def freeze_before_training(self, pl_module):
        self.freeze(pl_module.backbone)

    def finetune_function(self, pl_module, epoch, optimizer):
        if epoch == self.epoch:
            self.unfreeze_and_add_param_group(pl_module.backbone, optimizer)
            optimizer.param_groups[-1]["lr_scale"] = 0.1


class Watched(Pretrained):
    """Notes the backbone after each epoch."""

    def __init__(self):
        super().__init__()
        self.backbones = []

    def on_train_epoch_start(self):
        self.backbones.append(parameters(self.backbone))


@pytest.mark.filterwarnings("ignore:gradline. something set group")
@pytest.mark.parametrize("unfreezing", [Unfreezing, lambda epoch: BackboneFinetuning(epoch, verbose=False)])
@pytest.mark.parametrize("epoch", [1, 3], ids=["in the first search", "later"])
def test_lightnings_finetuning_unfreezes_a_backbone(unfreezing, epoch):
    module = Watched()
    with pytest.warns(UserWarning, match=r"lr of an added parameter group has no effect .* set lr_scale"):
        made = fit(module, unfreezing(epoch))
    (optimizer,) = made.optimizers
    assert optimizer.evaluations == EPOCHS * BATCHES
    moved = [not equal(*pair) for pair in itertools.pairwise([*module.backbones, parameters(module.backbone)])]
    assert moved == [number >= epoch for number in range(EPOCHS)]
    scale = optimizer.param_groups[1]["lr_scale"]
    assert scale == (0.1 if isinstance(made.callbacks[1], Unfreezing) else 1.0)
    assert optimizer.param_groups[1]["lr"] == scale * optimizer.last.step > 0.0


@pytest.mark.filterwarnings("ignore:gradline. lr of an added parameter group")
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks")  # the ModelCheckpoint
@pytest.mark.parametrize("stop", [5, 20])  # later Lightning itself leaves the backbone frozen
def test_a_resumed_finetuning_is_the_uninterrupted_one(stop, tmp_path):
    whole, first, second = Pretrained(), Pretrained(), Pretrained()
    through = fit(whole, Unfreezing(3))
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=stop, save_top_k=-1)
    fit(first, Unfreezing(3), saving, max_steps=stop, enable_checkpointing=True)
    resumed = fit(second, Unfreezing(3), ckpt_path=tmp_path / f"step={stop}.ckpt")
    assert equal(tensors(second), tensors(whole))
    (one,), (other,) = through.optimizers, resumed.optimizers
    assert one.last == other.last
    assert [group["lr_scale"] for group in other.param_groups] == [1.0, 0.1]
    assert [type(group).__name__ for group in other.param_groups] == ["AngleGroup"] * 2
