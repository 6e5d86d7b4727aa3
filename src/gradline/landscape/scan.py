"""Evaluate mini-batches at the points of a line or a plane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gradline.installing import progress_bar
from gradline.landscape import directions
from gradline.landscape.directions import Point
from gradline.landscape.evaluate import ByBatch, BySample, Losses, evaluator_of
from gradline.landscape.results import Array
from gradline.landscape.source import Index, Loader, Numbered, check_batches, require_count, source_of
from gradline.torch.snapshot import seed_generators

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """The requested evaluations: full, static mini-batches (a number or a list), and number of dynamic walks."""

    full: bool
    static: int | Sequence[Any]
    dynamic: int
    repetition: bool

    def __post_init__(self) -> None:
        count = self.static if isinstance(self.static, int) else len(self.static)
        require_count("static", count, 0, "it counts mini-batches")
        require_count("dynamic", self.dynamic, 0, "it counts walks")
        if not (self.full or count or self.dynamic):
            raise ValueError("full, static or dynamic must be asked for (there is nothing to see), got none of them")


class Scan:
    """A model with its loss, data and evaluator."""

    def __init__(
        self,
        model: nn.Module | Iterable[Tensor],
        loss: Losses,
        data: Any,
        *,
        batch_size: int | None = None,
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
        self.progress = progress
        self.loss = loss
        self.evaluator: ByBatch

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Context manager that restores model, data and random number generators at exit."""
        with self.source.unchanged(), self.place.visited():
            seed_generators(self.seed)
            self.evaluator = evaluator_of(self.loss, self.source, self.place)
            if isinstance(self.evaluator, BySample) and isinstance(self.source, Loader):
                self.samples = sum(len(numbers) for _, numbers in self.source.pieces())
                self.batch_size = self.source.loader.batch_size if self.batch_size is None else self.batch_size
            yield

    def bar(self, points: Iterable[T]) -> Iterable[T]:
        """Return the points of a scan, with a progress bar if requested."""
        bar: Iterable[T] | None = progress_bar(self.progress, iterable=points, unit="point")
        return points if bar is None else bar

    def direction(self, direction: Any, name: str = "direction") -> list[Tensor]:
        """Return a direction as tensors; for `None` the negative gradient of the loss of all data."""
        if direction is not None:
            return directions.resolve(direction, self.place, name)
        downhill = [-part for part in self.evaluator.gradient()]
        return directions.resolve(downhill, self.place, "the gradient of all the data")

    def draws(self, batch_size: int | None, *, repetition: bool = False) -> Numbered | Loader:
        """Return an object that draws mini-batches of a size."""
        if self.samples is None:
            assert isinstance(self.source, Loader)
            if batch_size is not None:
                raise ValueError(
                    f"batch_size must not be given with a DataLoader (it has its own, unless loss returns per-sample "
                    f"losses), got {batch_size}"
                )
            if repetition:
                raise ValueError("repetition must not be asked for with a DataLoader (its sampler decides), got True")
            return self.source
        if type(batch_size) is not int or not 1 <= batch_size <= self.samples:
            raise ValueError(
                f"batch_size must be between 1 and the number of samples, {self.samples}, got {batch_size!r}"
            )
        return Numbered(self.samples, batch_size, self.seed, repetition=repetition)

    def static(self, asked: Asked) -> list[Any]:
        """Return the static mini-batches: the requested number, or the given ones."""
        if isinstance(asked.static, int):
            if not asked.static:
                return []
            return self.draws(self.batch_size, repetition=asked.repetition).static(asked.static)
        if self.samples is None:
            raise ValueError(
                "static must be a number with a DataLoader (its samples have no numbers, unless loss returns "
                "per-sample losses), got batches"
            )
        return list(check_batches(asked.static, self.samples))

    def walk(
        self,
        points: Sequence[Sequence[tuple[float, list[Tensor]]]],
        along: list[Tensor],
        asked: Asked,
        shape: tuple[int, ...],
    ) -> tuple[list[tuple[Array, Array] | None], tuple[Index, ...]]:
        """Evaluate points of a grid of this shape.

        Returns:
            Values and slopes of full, static and dynamic sampling, `None` if not requested, and the static mini-batches
            as arrays of sample indices, which those of a loader do not have.
        """
        static = self.static(asked)
        walks = self.draws(self.batch_size, repetition=asked.repetition) if asked.dynamic else None
        seen = []
        for moves in self.bar(points):
            self.place.go(moves)
            batches = static + (walks.draw(asked.dynamic) if walks else [])
            seen.append(self.evaluator.at(batches, along, full=asked.full))
        columns = np.stack(seen).transpose(2, 1, 0)  # value and slope; all data, static and dynamic; points
        values, slopes = columns.reshape(2, -1, *shape)
        first, last = int(asked.full), int(asked.full) + len(static)
        parts = [(slice(first, last), len(static)), (slice(last, None), asked.dynamic)]
        found = [(values[part], slopes[part]) if some else None for part, some in parts]
        everything = (values[0], slopes[0]) if asked.full else None
        return [everything, *found], tuple(batch for batch in static if isinstance(batch, np.ndarray))


def steps_of(steps: ArrayLike | Tensor, name: str = "steps") -> Array:
    """Return steps as an array; raise an error unless they are finite and ascending."""
    try:
        array = np.array(steps.tolist() if isinstance(steps, Tensor) else steps, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers, got {steps!r}") from None
    if array.ndim != 1 or not array.size or not np.isfinite(array).all() or (np.diff(array) <= 0.0).any():
        raise ValueError(f"{name} must be finite numbers in ascending order (places along a direction), got {array}")
    return array
