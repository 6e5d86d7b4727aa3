"""Tasks of training, validation and test samples, and helpers of all tasks: seeded weights, means in chunks.

Learning rates are chosen by validation samples. Test samples are evaluated once, at the end of a run, and nothing is
chosen by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from gradline.lab.problems.sampling import Purpose, generator
from gradline.lab.problems.task import Measured, Task
from gradline.torch.snapshot import seed_generators

Values: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Computes a number for each sample from outputs and targets: losses, or errors."""

M = TypeVar("M", bound=nn.Module)
CHUNK = 500
"""Samples of one forward pass, where many are measured."""
MEASURED = 1000
"""Training samples that the training loss is measured on, at most."""


def seeded(seed: int, make: Callable[[], M]) -> M:
    """Build a model with the initial weights of a seed; the global generator is left as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, Purpose.WEIGHTS).integers(2**63 - 1)))
        return make()


@contextmanager
def same_noise() -> Iterator[None]:
    """Context manager with the same random numbers each time, for measuring losses that are random."""
    with torch.random.fork_rng(devices=[]):
        seed_generators(0)
        yield


class Part(NamedTuple):
    """Inputs and targets, a row for each sample."""

    inputs: Tensor
    targets: Tensor

    def first(self, count: int) -> Part:
        """Return the first samples."""
        return Part(self.inputs[:count], self.targets[:count])


def plain_task(
    seed: int, make: Callable[[], nn.Module], train: Part, test: Part, losses: Values, errors: Values, measured: int
) -> Task:
    """Build a task without validation samples, whose losses and test errors are measured on the first samples."""

    def measure(model: nn.Module) -> Measured:
        loss, _ = mean_loss_and_error(model, train.first(measured), losses, None)
        error, _ = mean_loss_and_error(model, test.first(measured), errors, None)
        return Measured(loss, math.nan, math.nan, error)

    return Task(seeded(seed, make), len(train.inputs), partial(_losses, train, losses), measure)


def two_part_task(seed: int, make: Callable[[], nn.Module], samples: Part, train: int, losses: Values) -> Task:
    """Build a task whose first samples are for training and whose others are for testing, by their losses."""

    def measure(model: nn.Module) -> Measured:
        with same_noise():
            means = [float(_losses(samples, losses, model, part).mean()) for part in (slice(train), slice(train, None))]
        return Measured(means[0], math.nan, means[1], math.nan)

    return Task(seeded(seed, make), train, partial(_losses, samples, losses), measure)


def _losses(samples: Part, losses: Values, model: nn.Module, chosen: Tensor | slice) -> Tensor:
    return losses(model(samples.inputs[chosen]), samples.targets[chosen])


class Split(NamedTuple):
    """Samples to train on, to choose by and to report."""

    train: Part
    validation: Part
    test: Part


def split(inputs: Tensor, targets: Tensor, train: int, validation: int) -> Split:
    """Split samples by their places: so many for training, so many for validation, the others for testing."""
    ends = (train, train + validation)
    pieces = zip(inputs.tensor_split(ends), targets.tensor_split(ends), strict=True)
    return Split(*(Part(*piece) for piece in pieces))


def build_task(
    seed: int,
    make: Callable[[], nn.Module],
    parts: Split,
    losses: Values,
    errors: Values | None = None,
    *,
    augment: Callable[[Tensor], Tensor] | None = None,
    call: Callable[[nn.Module, Tensor], Tensor] = nn.Module.__call__,
) -> Task:
    """Build a task from its samples.

    Args:
        seed: of the initial weights.
        make: builds the model.
        parts: the samples.
        losses: computes the loss of each sample.
        errors: computes the error of each sample; `None`: there is none.
        augment: changes training inputs at random. All evaluations of one mini-batch see the same change.
        call: computes outputs from a model and inputs; by default `model(inputs)`.
    """
    train = parts.train
    current: list[Tensor | slice | None] = [None, None]  # the samples chosen last, and their augmented inputs

    def inputs_of(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        if augment is None or not model.training:
            return train.inputs[chosen]
        if current[0] is not chosen:
            current[:] = chosen, augment(train.inputs[chosen])
        assert isinstance(current[1], Tensor)
        return current[1]

    def of_samples(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        return losses(call(model, inputs_of(model, chosen)), train.targets[chosen])

    def means(model: nn.Module, part: Part) -> tuple[float, float]:
        return mean_loss_and_error(partial(call, model), part, losses, errors)

    def measure(model: nn.Module) -> Measured:
        return Measured(*means(model, train.first(MEASURED)), math.nan, math.nan, *means(model, parts.validation))

    return Task(seeded(seed, make), len(train.inputs), of_samples, measure, lambda model: means(model, parts.test))


def mean_loss_and_error(
    call: Callable[[Tensor], Tensor], part: Part, losses: Values, errors: Values | None, chunk: int = CHUNK
) -> tuple[float, float]:
    """Return mean loss and error of samples, with the same noise each time; NaN without samples or errors."""
    if len(part.inputs) == 0:
        return math.nan, math.nan
    total = torch.zeros(2, dtype=torch.float64)
    with same_noise():
        for inputs, targets in zip(*(torch.split(one, chunk) for one in part), strict=True):
            outputs = call(inputs)
            total[0] += losses(outputs, targets).detach().sum(dtype=torch.float64)
            total[1] += math.nan if errors is None else errors(outputs, targets).sum(dtype=torch.float64)
    loss, error = (total / len(part.inputs)).tolist()
    return loss, error


def cross_entropy(outputs: Tensor, classes: Tensor) -> Tensor:
    """Return the cross-entropy of each sample, in nats."""
    return nn.functional.cross_entropy(outputs, classes, reduction="none")


def wrong(outputs: Tensor, classes: Tensor) -> Tensor:
    """Return whether the class of each sample is wrong."""
    return outputs.argmax(dim=1) != classes


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the squared error of each sample, averaged over its outputs."""
    return (outputs - targets).square().flatten(1).mean(dim=1)
