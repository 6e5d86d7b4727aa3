"""Problems that are trained to the end: their samples are apart, and test samples are evaluated once."""

from __future__ import annotations

import math

import pytest
import torch
from lab.compare_cases import finished, run
from torch import nn

from gradline.lab import studies
from gradline.lab.problems.catalogue import TRAINED
from gradline.lab.problems.supervised import (
    MEASURED,
    Part,
    Split,
    build_task,
    cross_entropy,
    split,
    squared_error,
    wrong,
)
from gradline.lab.problems.vision import flipped_and_shifted

HERE = [problem for problem in TRAINED if problem.data is None]


def numbers(count=10):
    inputs = torch.arange(float(count))[:, None]
    return split(inputs, 2.0 * inputs, 6, 2)


def test_samples_are_split_by_their_places():
    parts = numbers()
    assert [part.inputs.flatten().tolist() for part in parts] == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9]]
    assert parts.test.targets.flatten().tolist() == [16, 18]


def test_each_part_is_measured_apart():
    def make():
        model = nn.Linear(1, 1)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        return model

    task = build_task(0, make, numbers(), squared_error)
    found = task.measure(task.model)
    assert task.samples == 6
    assert found.train_loss == pytest.approx(sum(4 * x * x for x in range(6)) / 6)
    assert found.validation_loss == pytest.approx((144 + 196) / 2)
    assert math.isnan(found.test_loss)
    assert math.isnan(found.validation_error)
    assert task.test(task.model)[0] == pytest.approx((256 + 324) / 2)


def test_errors_are_shares_of_wrong_classes():
    inputs = torch.eye(3)[[0, 1, 2, 0]]
    classes = torch.tensor([0, 1, 2, 1])
    part = Part(inputs, classes)
    task = build_task(0, lambda: nn.Identity(), Split(part, part, part), cross_entropy, wrong)
    assert task.measure(task.model).validation_error == 0.25


def test_all_evaluations_of_a_batch_have_the_same_augmented_inputs():
    made = []

    def augment(inputs):
        made.append(inputs)
        return inputs + len(made)

    task = build_task(0, lambda: nn.Linear(1, 1), numbers(), squared_error, augment=augment)
    first, second = torch.tensor([0, 1]), torch.tensor([0, 1])
    assert torch.equal(task.losses(task.model, first), task.losses(task.model, first))
    assert len(made) == 1
    assert not torch.equal(task.losses(task.model, first), task.losses(task.model, second))
    task.measure(task.model.eval())
    task.losses(task.model, first)
    assert len(made) == 2


def test_images_are_flipped_and_shifted_by_whole_pixels():
    torch.manual_seed(0)
    images = torch.rand(200, 1, 8, 8)
    changed = flipped_and_shifted(images)
    assert changed.shape == images.shape
    inner = changed[:, 0, 3:5, 3:5].flatten(1)
    there = [
        any(
            torch.equal(part, piece)
            for flip in (image, image.flip(1))
            for piece in flip.unfold(0, 2, 1).unfold(1, 2, 1).reshape(-1, 4)
        )
        for image, part in zip(images[:, 0], inner, strict=True)
    ]
    assert all(there)
    assert not torch.equal(changed, images)


@pytest.mark.parametrize("problem", HERE, ids=lambda problem: problem.name)
def test_validation_is_measured_all_along_and_test_at_the_end(problem):
    (result,) = finished(
        run("adam-0.001", problem=problem, batch_size=problem.batch_sizes[0], budget=4, record_every=2)
    )
    columns = result.columns
    measured = ~torch.from_numpy(columns["train_loss"]).isnan().numpy()
    assert measured.sum() == 3
    assert not any(map(math.isnan, columns["validation_loss"][measured]))
    assert [math.isnan(loss) for loss in columns["test_loss"][measured]] == [True, True, False]


@pytest.mark.parametrize("problem", HERE, ids=lambda problem: problem.name)
def test_measuring_leaves_the_random_numbers_alone_and_is_repeatable(problem):
    task = problem.build(0)
    model = task.model.eval()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.no_grad():
        first, second = task.measure(model), task.measure(model)
    assert torch.equal(before, torch.get_rng_state())
    assert first.validation_loss == second.validation_loss
    assert first.train_loss == second.train_loss


def test_half_of_the_problems_are_held_out_and_all_are_in_the_study():
    settings = studies.load("train").settings
    held_out = {setting.problem.name for setting in settings if setting.held_out}
    assert {setting.problem.name for setting in settings} == {problem.name for problem in TRAINED}
    assert len(held_out) == len(TRAINED) // 2
    assert {len([s for s in settings if s.problem is problem]) for problem in TRAINED} == {4}
    assert MEASURED == 1000


def test_images_and_the_pretrained_net(real_data, monkeypatch):
    monkeypatch.setenv("GRADLINE_DATA", str(real_data))
    wanted = {"mnist-dropout": 55_000, "cifar-batchnorm": 9_000, "finetune-head": 1000, "finetune-body": 1000}
    for problem in TRAINED:
        if problem.name in wanted:
            task = problem.build(0)
            assert task.samples == wanted[problem.name]
    body = next(problem for problem in TRAINED if problem.name == "finetune-body")
    one, other = (body.build(seed).model for seed in (0, 1))
    assert torch.equal(one[0].weight, other[0].weight)
    assert not torch.equal(one[-1].weight, other[-1].weight)
    assert all(parameter.requires_grad for parameter in one.parameters())
