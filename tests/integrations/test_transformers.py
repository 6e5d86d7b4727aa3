"""Hugging Face's `Trainer`, unchanged, around a line search: one probe a step, and a callback for saving."""

import functools
import os
import warnings
from pathlib import Path

import pytest
import torch
from helpers import equal

import gradline

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

from gradline.torch.integrations.transformers import LineSearchCallback  # noqa: E402

VOCABULARY, LENGTH = 12, 8
FIRST_GUESS = {"step_min": 1e-3}  # from 1e-8, which it is else, the first search takes some 25 probes


def sequences(seed=0, samples=64):
    """Counting in steps of one to three: what comes next follows from the last two."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randint(VOCABULARY, (samples, 1), generator=generator)
    stride = torch.randint(1, 4, (samples, 1), generator=generator)
    return [{"input_ids": row, "labels": row} for row in (start + stride * torch.arange(LENGTH)) % VOCABULARY]


def tiny_gpt(dropout=0.0):
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 16, "n_layer": 1, "n_head": 2}
    drops = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **drops, bos_token_id=0, eos_token_id=0))


def trainer_in(folder, *, direction=None, schedule=True, callbacks=(), dropout=0.0, build=None, make=None, **settings):
    """A trainer of a tiny model and an optimizer of `make`, or of Trainer's own making with the options `build`."""
    model = tiny_gpt(dropout)
    defaults = {"max_steps": 12, "per_device_train_batch_size": 16, "save_strategy": "no", "logging_steps": 1}
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
    if build is None:
        make = make or functools.partial(gradline.GOLSI, direction=direction, **FIRST_GUESS)
        optimizer = make(model.parameters())
        optimizers = {"optimizers": (optimizer, gradline.NoSchedule(optimizer) if schedule else None)}
    else:
        optimizers = {"optimizer_cls_and_kwargs": (gradline.GOLSI, {**FIRST_GUESS, **build})}
    return transformers.Trainer(
        model,
        transformers.TrainingArguments(str(folder), **{**defaults, **quiet, **settings}),
        train_dataset=sequences(),
        eval_dataset=sequences(seed=1, samples=16),
        callbacks=list(callbacks),
        **optimizers,
    )


def search_of(trainer):
    return trainer.optimizer.optimizer  # inside Accelerate's wrapper


def parameters(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def saved_parameters(folder):
    return parameters(transformers.GPT2LMHeadModel.from_pretrained(folder))


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


class Accepted(transformers.TrainerCallback):
    """Notes the accepted point by itself: GOLS-I accepts its last probe, where the gradient was just computed."""

    def on_train_begin(self, args, state, control, model, optimizer, **kwargs):
        self.point, self.probes, self.at_evaluation = parameters(model), 0, []

    def on_pre_optimizer_step(self, args, state, control, model, optimizer, **kwargs):
        self.before, self.ended = parameters(model), optimizer.optimizer.iterations

    def on_optimizer_step(self, args, state, control, optimizer, model, **kwargs):
        if optimizer.optimizer.iterations > self.ended:
            self.point = self.before
        self.probes += not equal(parameters(model), self.point)

    def on_evaluate(self, args, state, control, model, **kwargs):
        self.at_evaluation.append(equal(parameters(model), self.point))


@pytest.mark.parametrize("direction", [None, torch.optim.AdamW])
def test_the_loss_falls_with_one_probe_a_step_and_not_a_word(tmp_path, direction):
    trainer = trainer_in(tmp_path, direction=direction, max_steps=60)
    trainer.train()
    losses = logged(trainer, "loss")
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]
    search = search_of(trainer)
    assert search.evaluations == 60 > search.iterations > 5


def test_the_learning_rate_logged_is_a_step(tmp_path):
    class Steps(transformers.TrainerCallback):
        def __init__(self):
            self.shown = [0.0]

        def on_step_end(self, args, state, control, optimizer, **kwargs):
            self.shown.append(optimizer.param_groups[0]["lr"])

    steps = Steps()
    trainer = trainer_in(tmp_path, callbacks=[steps], max_steps=40)
    trainer.train()
    assert len(set(steps.shown)) > 3
    # Trainer reads it before the scheduler's turn, so it may be the one of the step before.
    for rate, before, now in zip(logged(trainer, "learning_rate"), steps.shown, steps.shown[1:], strict=False):
        assert rate in (before, now)


def test_a_scheduler_of_trainers_own_does_nothing_and_one_warning_tells(tmp_path):
    plain, scheduled = trainer_in(tmp_path), trainer_in(tmp_path, schedule=False)
    plain.train()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scheduled.train()
    (message,) = [str(one.message) for one in told if "gradline" in str(one.message)]
    assert "the search finds each step" in message
    assert type(scheduled.lr_scheduler).__name__ == "LambdaLR"
    shown = logged(scheduled, "learning_rate")
    assert set(shown) == set(logged(plain, "learning_rate")), "the steps, whatever the scheduler set"
    assert max(shown) > 0.0
    assert equal(parameters(plain.model), parameters(scheduled.model))


def test_it_evaluates_at_the_accepted_point_and_then_goes_on_as_before(tmp_path):
    accepted = Accepted()
    evaluated = trainer_in(tmp_path, callbacks=[accepted], eval_strategy="steps", eval_steps=1, max_steps=30)
    evaluated.train()
    assert accepted.at_evaluation == [True] * 30
    assert accepted.probes > 10
    plain = trainer_in(tmp_path, max_steps=30)
    plain.train()
    evaluated.optimizer.train()
    assert equal(parameters(plain.model), parameters(evaluated.model))
    plain.predict(plain.eval_dataset)
    assert equal(parameters(plain.model), accepted.point)


def test_accumulated_gradients_are_one_probe(tmp_path):
    at_once = trainer_in(tmp_path, max_steps=6)
    in_parts = trainer_in(tmp_path, max_steps=6, per_device_train_batch_size=8, gradient_accumulation_steps=2)
    at_once.train()
    in_parts.train()
    assert search_of(in_parts).evaluations == 6
    for left, right in zip(at_once.model.parameters(), in_parts.model.parameters(), strict=True):
        torch.testing.assert_close(left, right)


def test_clipped_gradients_are_what_is_searched_with(tmp_path):
    trainer = trainer_in(tmp_path, max_grad_norm=0.1, max_steps=20)
    trainer.train()
    assert min(logged(trainer, "grad_norm")) > 0.1  # as it was before
    assert search_of(trainer).last.origin.norm == pytest.approx(0.1, rel=1e-3)


def test_bf16(tmp_path):
    trainer = trainer_in(tmp_path, bf16=True, max_steps=40, direction=torch.optim.Adam)
    trainer.train()
    losses = logged(trainer, "loss")
    assert sum(losses[-5:]) / 5 < 0.8 * losses[0]
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("evaluated", [False, True], ids=["only saved", "evaluated first"])
@pytest.mark.parametrize("callback", [False, True], ids=["without the callback", "with it"])
def test_resumed_training_is_the_uninterrupted_one(tmp_path, callback, evaluated):
    def build():
        added = [LineSearchCallback()] if callback else []
        strategy = {"eval_strategy": "steps", "eval_steps": 2} if evaluated else {}
        options = {"direction": torch.optim.Adam, "dropout": 0.1, "save_strategy": "steps", "save_steps": 2}
        return trainer_in(tmp_path, callbacks=added, **options, **strategy)

    whole = build()
    whole.add_callback(accepted := Accepted())
    whole.train()
    assert accepted.probes == 12  # all checkpoints are in the middle of a search
    for step in (4, 10):
        resumed = build()
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert equal(parameters(resumed.model), parameters(whole.model)), f"from step {step}"
        assert search_of(resumed).evaluations == search_of(whole).evaluations
        assert search_of(resumed).last.step == search_of(whole).last.step
        assert logged(resumed, "loss")[step:] == logged(whole, "loss")[step:]


def test_with_the_callback_checkpoints_hold_the_accepted_point_and_training_is_not_disturbed(tmp_path):
    class Saved(Accepted):
        def on_save(self, args, state, control, **kwargs):
            points[state.global_step] = self.point

    points = {}
    settings = {"save_strategy": "steps", "save_steps": 3, "max_steps": 14}
    saving = trainer_in(tmp_path, callbacks=[LineSearchCallback(), accepted := Saved()], **settings)
    saving.train()
    assert set(points) == {3, 6, 9, 12, 14}
    assert accepted.probes > 5
    for step, point in points.items():
        assert equal(saved_parameters(tmp_path / f"checkpoint-{step}"), point)
    plain = trainer_in(tmp_path, max_steps=14)
    plain.train()
    saving.optimizer.train()
    assert equal(parameters(saving.model), parameters(plain.model))


def test_with_the_callback_training_ends_at_the_accepted_point(tmp_path):
    trainer = trainer_in(tmp_path, callbacks=[LineSearchCallback(), accepted := Accepted()], max_steps=13)
    trainer.train()
    assert equal(parameters(trainer.model), accepted.point)
    trainer.save_model(tmp_path / "model")
    assert equal(saved_parameters(tmp_path / "model"), accepted.point)
    plain = trainer_in(tmp_path, max_steps=13)
    plain.train()
    assert not equal(parameters(plain.model), accepted.point)  # what the callback is for


def test_the_best_model_stays_loaded_and_is_trained_on_from(tmp_path):
    class Stop(transformers.TrainerCallback):
        """Ends training, once, at a step that is not evaluated."""

        stopped = False

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 15 and not self.stopped:
                self.stopped = control.should_training_stop = True

    strategy = {"eval_strategy": "steps", "eval_steps": 8, "save_strategy": "steps", "save_steps": 8}
    callbacks = [Stop(), LineSearchCallback(), accepted := Accepted()]
    trainer = trainer_in(tmp_path, callbacks=callbacks, load_best_model_at_end=True, max_steps=16, **strategy)
    trainer.train()
    best = Path(trainer.state.best_model_checkpoint)
    assert search_of(trainer).evaluations == 15
    assert not equal(accepted.point, saved_parameters(best))  # training went on from there
    assert equal(parameters(trainer.model), saved_parameters(best))
    trainer.evaluate()
    assert equal(parameters(trainer.model), saved_parameters(best))

    class First(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
            if state.global_step == 0:
                self.start = parameters(model)

    trainer.add_callback(first := First())
    expected = parameters(trainer.model)
    trainer.train()
    assert equal(first.start, expected)


def test_the_last_search_is_in_the_training_logs_and_only_there(tmp_path):
    class Heard(transformers.TrainerCallback):
        def __init__(self):
            self.logs = []

        def on_log(self, args, state, control, logs, **kwargs):
            self.logs.append(dict(logs))

    heard = Heard()
    trainer = trainer_in(tmp_path, callbacks=[heard], eval_strategy="steps", eval_steps=6)
    LineSearchCallback().attach(trainer)
    trainer.train()
    last = search_of(trainer).last
    names = {"step", "slope/start", "slope/accepted", "evaluations", "total/evaluations", "total/searches"}
    entry = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
    assert entry["gradline/step"] == last.step
    assert entry["gradline/slope/start"] == last.origin.at_zero.slope
    assert entry["gradline/evaluations"] == last.evaluations
    assert entry["gradline/total/searches"] == search_of(trainer).iterations
    for logs in heard.logs[-4:]:
        added = {name for name in logs if name.startswith("gradline/")}
        told = {name.removeprefix("gradline/") for name in added if "/stops/" not in name}
        assert told == (names if "loss" in logs else set())
        assert ("loss" in logs) == any("/stops/" in name for name in added)
        assert all(isinstance(logs[name], float | int) for name in added)
    assert any("loss" in logs for logs in heard.logs[-4:])
    assert any("eval_loss" in logs for logs in heard.logs[-4:])


def test_the_callback_refuses_other_optimizers(tmp_path):
    trainer = trainer_in(tmp_path, callbacks=[LineSearchCallback()])
    trainer.optimizer, trainer.lr_scheduler = torch.optim.AdamW(trainer.model.parameters()), None
    with pytest.raises(TypeError, match=r"optimizer must be one of gradline's .*got AcceleratedOptimizer"):
        trainer.train()


@pytest.mark.filterwarnings("ignore:gradline. something set group:UserWarning")
def test_trainer_builds_it_and_its_weight_decay_is_the_directions(tmp_path):
    found = {}
    for decay in (0.0, 0.5):
        trainer = trainer_in(tmp_path, build={"direction": torch.optim.AdamW, "lr": None}, weight_decay=decay)
        trainer.train()
        search = search_of(trainer)
        assert isinstance(search, gradline.GOLSI)
        assert [group["weight_decay"] for group in search.param_groups] == [decay, 0.0]
        found[decay] = parameters(trainer.model)
    assert not equal(found[0.0], found[0.5])


def test_a_trainer_that_builds_it_may_have_no_schedule(tmp_path):
    trainer = trainer_in(tmp_path, build={"growth": 3.0})
    trainer.lr_scheduler = gradline.NoSchedule(trainer.create_optimizer())
    trainer.train()
    assert search_of(trainer).search.growth == 3.0
    assert search_of(trainer).evaluations == 12
