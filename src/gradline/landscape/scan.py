"""Evaluate value and slope of mini-batches at the points of a line or a plane.

A scalar loss is evaluated for each mini-batch. A loss that returns per-sample losses is evaluated once for each sample
needed, and values and slopes of mini-batches are means over their samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gradline.installing import progress_bar
from gradline.landscape import directions
from gradline.landscape.directions import Point
from gradline.landscape.results import Array
from gradline.landscape.source import Index, Loader, Numbered, Tensors, check_batches, length, require_count, source_of
from gradline.torch.batches import call_with
from gradline.torch.measuring import measure
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.graph import find_batch_norm
from gradline.torch.snapshot import seed_generators

Losses: TypeAlias = Callable[..., Tensor]
Moves: TypeAlias = Sequence[tuple[float, Sequence[Tensor]]]
"""A point of a scan: steps along directions."""


class Scan:
    """A model with its loss and data. Between calls of `begun` everything is as it was."""

    by_sample: bool
    """Whether the loss returns per-sample losses."""

    def __init__(
        self,
        model: nn.Module | Iterable[Tensor],
        loss: Losses,
        data: Any,
        batch_size: int | None,
        repetition: bool,
        *,
        seed: int | None,
        chunk: int | None,
        progress: bool,
    ) -> None:
        if not callable(loss):
            raise TypeError(f"loss must be a function of a batch, got {loss!r}")
        if seed is not None:
            require_count("seed", seed, 0, "it seeds generators")
        self.place = Point(model)
        self.seed = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        self.source, self.batch_size = source_of(data, batch_size, chunk, self.seed)
        self.samples = self.source.samples
        self.loss, self.repetition, self.progress = loss, repetition, progress

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Context manager that restores model, data and random number generators at exit."""
        with self.source.unchanged(), self.place.visited():
            seed_generators(self.seed)
            self.by_sample = self._returns_samples()
            if self.by_sample and isinstance(self.source, Loader):
                self.samples = sum(len(numbers) for _, numbers in self.source.pieces())
                self.batch_size = self.source.loader.batch_size if self.batch_size is None else self.batch_size
            yield

    def _returns_samples(self) -> bool:
        """Return whether the loss of a few samples is a vector of them."""
        batch, numbers = next(iter(self.source.pieces()))
        if isinstance(self.source, Tensors):
            numbers = numbers[:8]
            batch = self.source.batch(numbers)
        with torch.no_grad():
            losses = call_with(batch, self.loss)
        self.place.restore_buffers()
        if not isinstance(losses, Tensor) or losses.ndim > 1 or (losses.ndim == 1 and len(losses) != len(numbers)):
            got = f"a tensor of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else repr(losses)
            raise TypeError(
                f"loss must return one number, the mean over its samples, or a vector of one loss for each of them, "
                f"got {got} for {len(numbers)} samples"
            )
        return losses.ndim == 1

    def direction(self, direction: Any, name: str = "direction") -> list[Tensor]:
        """Return a direction as tensors; for `None` the negative gradient of the loss of all data."""
        if direction is not None:
            return directions.resolve(direction, self.place, name)
        downhill = [torch.zeros_like(parameter, requires_grad=False) for parameter in self.place.parameters]
        samples = 0
        for batch, numbers in self.source.pieces():
            _, gradients = self._differentiate(batch)
            samples += len(numbers)
            for into, gradient in zip(downhill, gradients, strict=True):
                into.sub_(gradient, alpha=len(numbers))
        return directions.resolve([part / samples for part in downhill], self.place, "the gradient of all the data")

    def draws(self, batch_size: int | None) -> Numbered | Loader:
        """Return an object that draws mini-batches of a size."""
        if self.samples is None:
            assert isinstance(self.source, Loader)
            if batch_size is not None:
                raise ValueError(
                    f"batch_size must not be given with a DataLoader (it has its own, unless loss returns per-sample "
                    f"losses), got {batch_size}"
                )
            if self.repetition:
                raise ValueError("repetition must not be asked for with a DataLoader (its sampler decides), got True")
            return self.source
        if type(batch_size) is not int or not 1 <= batch_size <= self.samples:
            raise ValueError(
                f"batch_size must be between 1 and the number of samples, {self.samples}, got {batch_size!r}"
            )
        return Numbered(self.samples, batch_size, self.seed, repetition=self.repetition)

    def sampled(
        self,
        points: Iterable[Moves],
        along: Sequence[Tensor],
        shape: tuple[int, ...],
        *,
        full: bool,
        static: int | Sequence[Any],
        dynamic: int,
    ) -> tuple[list[tuple[Array, Array] | None], tuple[Index, ...]]:
        """Evaluate points of a grid of this shape.

        Returns:
            Values and slopes of full, static and dynamic sampling, `None` if not requested, and the static mini-batches
            as arrays of sample indices, which those of a loader do not have.
        """
        fixed = self._static(static)
        walks = self.draws(self.batch_size) if dynamic else None
        values, slopes = self.walk(
            ((moves, along) for moves in points),
            math.prod(shape),
            lambda: fixed + (walks.draw(dynamic) if walks else []),
            full=full,
        ).reshape(2, -1, *shape)
        first, last = int(full), int(full) + len(fixed)
        parts = [(slice(first, last), len(fixed)), (slice(last, None), dynamic)]
        found = [(values[part], slopes[part]) if some else None for part, some in parts]
        everything = (values[0], slopes[0]) if full else None
        return [everything, *found], tuple(batch for batch in fixed if isinstance(batch, np.ndarray))

    def _static(self, static: int | Sequence[Any]) -> list[Any]:
        """Return the static mini-batches: the requested number, or the given ones."""
        if isinstance(static, int):
            return self.draws(self.batch_size).static(static) if static else []
        if self.samples is None:
            raise ValueError(
                "static must be a number with a DataLoader (its samples have no numbers, unless loss returns "
                "per-sample losses), got batches"
            )
        return list(check_batches(static, self.samples))

    def walk(
        self,
        points: Iterable[tuple[Moves, Sequence[Tensor]]],
        count: int,
        draw: Callable[[], Sequence[Any]],
        *,
        full: bool = False,
    ) -> Array:
        """Evaluate points, each with the direction of its slope, on the mini-batches that are drawn at each.

        Returns:
            Value and slope (first axis) of all data, if `full`, and of each mini-batch, at each point (last axis).
        """
        bar = progress_bar(self.progress, iterable=points, total=count, unit="point")
        see = self._from_samples if self.by_sample else self._from_batches
        seen = []
        for moves, along in points if bar is None else bar:
            self.place.go(moves)
            seen.append(see(draw(), along, full=full))
        return np.stack(seen).transpose(2, 1, 0)

    def _from_batches(self, batches: Sequence[Any], along: Sequence[Tensor], *, full: bool) -> Array:
        """Return value and slope (columns) of all data, if `full`, and of each mini-batch, by a pass for each."""
        rows = []
        if full:
            parts = [(*self._of_batch(batch, along), float(len(numbers))) for batch, numbers in self.source.pieces()]
            values, slopes, sizes = np.array(parts).T
            rows.append((float(values @ sizes / sizes.sum()), float(slopes @ sizes / sizes.sum())))
        rows += [self._of_batch(self.source.batch(batch), along) for batch in batches]
        return np.array(rows).reshape(-1, 2)

    def _of_batch(self, batch: Any, along: Sequence[Tensor]) -> tuple[float, float]:
        value, gradients = self._differentiate(batch)
        _, slope, (number,) = measure(gradients, along, value)
        return number, slope

    def _differentiate(self, batch: Any) -> tuple[Tensor, list[Tensor]]:
        value = call_with(batch, self.loss).mean()  # of per-sample losses
        _require_graph(value)
        found = torch.autograd.grad(value, self.place.parameters, allow_unused=True)
        self.place.restore_buffers()
        pairs = zip(found, self.place.parameters, strict=True)
        return value.detach(), [torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs]

    def _from_samples(self, batches: Sequence[Index], along: Sequence[Tensor], *, full: bool) -> Array:
        """Return what `_from_batches` does, as means over samples that are each evaluated once."""
        numbers = np.concatenate(batches) if batches else np.zeros(0, dtype=np.int64)
        assert self.samples is not None  # `begun` has counted those of a loader
        rows: Array = np.full((self.samples, 2), np.nan)
        for batch, chosen in self.source.pieces(None if full else np.unique(numbers)):
            losses = call_with(batch, self.loss)
            _check_samples(losses, length(batch))
            evaluated = Evaluated(losses, self.place.parameters, allow_batch_norm=True)
            evaluated.backward(accumulate=False)
            rows[chosen] = torch.stack((evaluated.losses, evaluated.slopes(along)), dim=1).double().cpu().numpy()
            self.place.restore_buffers()
        means = [rows.mean(axis=0, keepdims=True)] if full else []
        if batches:
            sizes = np.array([len(batch) for batch in batches])
            means.append(np.add.reduceat(rows[numbers], np.cumsum(sizes) - sizes, axis=0) / sizes[:, None])
        return np.concatenate(means)


def _require_graph(loss: Tensor) -> None:
    if loss.grad_fn is None:
        raise ValueError(
            "loss must depend on a parameter of the model that requires a gradient (slopes are derivatives), got a "
            "number without a graph; compute it with gradients enabled, and do not detach it"
        )


def _check_samples(losses: Tensor, size: int) -> None:
    _require_graph(losses)
    if losses.shape != (size,):
        raise TypeError(
            f"loss must always return one loss for each sample (it did at first), got shape {tuple(losses.shape)} "
            f"for {size} samples"
        )
    if find_batch_norm(losses) is not None:
        raise ValueError(
            "loss must return one number, the mean, where BatchNorm is training (each sample's loss then depends "
            "on the others of its mini-batch), got per-sample losses; or put the model in eval mode"
        )


def check_asked(full: bool, static: int | Sequence[Any], dynamic: int) -> None:
    """Check what is requested: full sampling, static mini-batches (a number or a list), and a number of walks."""
    count = static if isinstance(static, int) else len(static)
    require_count("static", count, 0, "it counts mini-batches")
    require_count("dynamic", dynamic, 0, "it counts walks")
    if not (full or count or dynamic):
        raise ValueError("full, static or dynamic must be asked for (there is nothing to see), got none of them")


def steps_of(steps: ArrayLike | Tensor, name: str = "steps") -> Array:
    """Return steps as an array; raise an error unless they are finite and ascending."""
    try:
        array = np.array(steps.tolist() if isinstance(steps, Tensor) else steps, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers, got {steps!r}") from None
    if array.ndim != 1 or not array.size or not np.isfinite(array).all() or (np.diff(array) <= 0.0).any():
        raise ValueError(f"{name} must be finite numbers in ascending order (places along a direction), got {array}")
    return array
