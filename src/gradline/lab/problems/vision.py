"""Images, trained to the end: MNIST with dropout, an autoencoder, CIFAR10 with two norms, and fine-tuning.

MNIST has 55,000 images for training, 5,000 for validation and 10,000 for testing. Of CIFAR10's first training batch
9,000 images are for training and 1,000 for validation; 2,000 of its test images are for testing.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from gradline.lab.problems.images import convolutional, loaded
from gradline.lab.problems.supervised import Part, Split, build_task, cross_entropy, seeded, split, squared_error, wrong
from gradline.lab.problems.task import Task

SHIFT = 2
"""Largest shift of an image, in pixels."""
GROUPS = 4
"""Groups of GroupNorm."""
PRETRAINING = (400, 64, 1e-3)
"""Steps, batch size and learning rate of Adam by which the network to be fine-tuned is trained before."""
OLD_CLASSES = 5
"""Digits below are for pre-training, the others for fine-tuning."""
NEW_TRAIN, NEW_VALIDATION, NEW_TEST = 1000, 2000, 2000
"""Images for fine-tuning."""


@cache
def mnist() -> Split:
    """Return MNIST as images in [0, 1] and class numbers."""
    train, test = loaded("mnist-60000", (1, 28, 28), "none")
    parts = split(train.inputs / 255.0, train.targets, 55_000, 5_000)
    return parts._replace(test=Part(test.inputs / 255.0, test.targets))


@cache
def cifar() -> Split:
    """Return CIFAR10 as images with mean 0 and standard deviation 1 of each colour, and class numbers."""
    (images, labels), (test, test_labels) = loaded("cifar10", (3, 32, 32), "none")
    means, deviations = images.mean(dim=(0, 2, 3), keepdim=True), images.std(dim=(0, 2, 3), keepdim=True)
    parts = split((images - means) / deviations, labels, 9_000, 1_000)
    return parts._replace(test=Part((test[:2000] - means) / deviations, test_labels[:2000]))


def digit_reader(outputs: int, *, dropout: bool) -> nn.Module:
    """Build two convolutions and two fully connected layers for MNIST's images."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Dropout(0.25 if dropout else 0.0), nn.Linear(16 * 7 * 7, 64), nn.ReLU()),
        *(nn.Dropout(0.5 if dropout else 0.0), nn.Linear(64, outputs)),
    )


def build_dropout(seed: int) -> Task:
    """Build the task of the convolutional net with dropout."""
    return build_task(seed, lambda: digit_reader(10, dropout=True), mnist(), cross_entropy, wrong)


def build_autoencoder(seed: int) -> Task:
    """Build the task of the autoencoder: 784 pixels to 16 numbers and back."""
    flat = Split(*(Part(part.inputs.flatten(1), part.inputs.flatten(1)) for part in mnist()))
    fewer = flat._replace(validation=flat.validation.first(2000), test=flat.test.first(5000))

    def make() -> nn.Module:
        return nn.Sequential(
            *(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 16)),
            *(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 784), nn.Sigmoid()),
        )

    return build_task(seed, make, fewer, squared_error)


def flipped_and_shifted(images: Tensor) -> Tensor:
    """Flip each image with a probability of one half, and shift all by the same few pixels."""
    flips = torch.rand(len(images)) < 0.5
    images = torch.where(flips[:, None, None, None], images.flip(3), images)
    down, right = (int(shift) for shift in torch.randint(2 * SHIFT + 1, (2,)))
    padded = nn.functional.pad(images, (SHIFT,) * 4)
    return padded[:, :, down : down + images.shape[2], right : right + images.shape[3]]


def build_batch_norm(seed: int) -> Task:
    """Build the task of the convolutional net with BatchNorm."""
    return build_task(seed, convolutional, cifar(), cross_entropy, wrong, augment=flipped_and_shifted)


def build_group_norm(seed: int) -> Task:
    """Build the task of the convolutional net with GroupNorm."""

    def make() -> nn.Module:
        return convolutional(lambda channels: nn.GroupNorm(GROUPS, channels))

    return build_task(seed, make, cifar(), cross_entropy, wrong, augment=flipped_and_shifted)


@cache
def _pretrained() -> nn.Module:
    """Return the network trained on the digits 0 to 4, with fixed seeds."""
    images, labels = mnist().train
    old = labels < OLD_CLASSES
    images, labels = images[old], labels[old]
    model = seeded(0, lambda: digit_reader(OLD_CLASSES, dropout=False))
    steps, size, rate = PRETRAINING
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    source = torch.Generator().manual_seed(0)
    with torch.enable_grad():
        for _ in range(steps):
            chosen = torch.randint(len(images), (size,), generator=source)
            optimizer.zero_grad()
            cross_entropy(model(images[chosen]), labels[chosen]).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.requires_grad_(False)


@cache
def _new_digits() -> Split:
    """Return images of the digits 5 to 9: the first of MNIST's training images, and of its test images."""

    def new(part: Part, count: int) -> Part:
        chosen = (part.targets >= OLD_CLASSES).nonzero().squeeze(1)[:count]
        return Part(part.inputs[chosen], part.targets[chosen] - OLD_CLASSES)

    parts = mnist()
    return Split(new(parts.train, NEW_TRAIN), new(parts.validation, NEW_VALIDATION), new(parts.test, NEW_TEST))


def build_head(seed: int) -> Task:
    """Build the task of a new last layer on the outputs of the pre-trained layers, which stay as they are."""
    body = _pretrained()[:-1]  # type: ignore[index]
    with torch.no_grad():
        features = Split(*(Part(body(part.inputs), part.targets) for part in _new_digits()))
    return build_task(seed, lambda: nn.Linear(64, 10 - OLD_CLASSES), features, cross_entropy, wrong)


def build_body(seed: int) -> Task:
    """Build the task of a new last layer and of the pre-trained layers before it, all trained."""

    def make() -> nn.Module:
        model = digit_reader(10 - OLD_CLASSES, dropout=False)
        model[:-1].load_state_dict(_pretrained()[:-1].state_dict())  # type: ignore[index]
        return model

    return build_task(seed, make, _new_digits(), cross_entropy, wrong)
