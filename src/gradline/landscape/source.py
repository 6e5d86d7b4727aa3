"""The data of a scan, and the mini-batches drawn from it.

From tensors, a mini-batch is an array of sample indices. From a `DataLoader`, mini-batches are its own batches, unless
the loss returns per-sample losses: then its samples are numbered by their order in an epoch that is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from gradline.searches.arguments import require
from gradline.torch import batches
from gradline.torch.batches import Batches, check_tensors, loader_epoch, unchanged

Index = NDArray[np.int64]


class Tensors:
    """Data source whose samples are rows of tensors of equal length."""

    def __init__(self, tensors: tuple[Tensor, ...], chunk: int | None) -> None:
        self.tensors = tensors
        self.samples = check_tensors(tensors, "data", ", one DataLoader or gradline.batches")
        self.chunk = self.samples if chunk is None else chunk
        self.unchanged = nullcontext

    def batch(self, numbers: Index) -> tuple[Tensor, ...]:
        """Return the mini-batch of some sample indices."""
        chosen = torch.from_numpy(numbers)
        return tuple(tensor[chosen.to(tensor.device)] for tensor in self.tensors)

    def pieces(self, numbers: Index | None = None) -> Iterator[tuple[Any, Index]]:
        """Yield all samples, or those of some indices, in chunks, with their indices."""
        if numbers is None and self.chunk >= self.samples:
            yield self.tensors, np.arange(self.samples)
            return
        chosen = np.arange(self.samples) if numbers is None else numbers
        for start in range(0, len(chosen), self.chunk):
            part = chosen[start : start + self.chunk]
            yield self.batch(part), part


class Loader:
    """Data source on a `DataLoader`, seeded so that every pass yields the same batches in the same order."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self.loader, self.seed = loader, seed
        self.unchanged = partial(unchanged, loader)
        self.samples = None  # known after a pass
        self._fixed, self._walks = batches.dynamic(loader, seed=seed), batches.dynamic(loader, seed=seed + 1)

    def batch(self, batch: Any) -> Any:
        """Return a mini-batch of the loader as it is."""
        return batch

    def static(self, count: int) -> list[Any]:
        """Return the first batches of the loader."""
        return list(self._fixed.take(count))

    def draw(self, count: int) -> list[Any]:
        """Return a new batch for each walk."""
        return list(self._walks.take(count))

    def pieces(self, numbers: Index | None = None) -> Iterator[tuple[Any, Index]]:
        """Yield all samples, one batch at a time, with their indices."""
        start = 0
        for batch in loader_epoch(self.loader, self.seed, 0):
            size = length(batch)
            yield batch, np.arange(start, start + size)
            start += size
        if start == 0:
            raise ValueError("data must have at least one batch, got an empty DataLoader")


def length(batch: Any) -> int:
    """Return the number of samples of a batch: the length of its first tensor."""
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else (batch,)
    for part in parts:
        if isinstance(part, Tensor) and part.ndim:
            return len(part)
    raise TypeError(f"data must give batches of tensors (samples are rows), got {type(batch).__name__}")


def source_of(data: Any, batch_size: int | None, chunk: int | None, seed: int) -> tuple[Tensors | Loader, int | None]:
    """Return the data source of `data` and the size of mini-batches."""
    if chunk is not None:
        require_count("chunk", chunk, 1, "so many samples are evaluated at a time")
    if isinstance(data, Batches):
        batch_size = data.batch_size if batch_size is None else batch_size
        data = data.source
    parts = tuple(data) if isinstance(data, tuple | list) else (data,)
    if len(parts) == 1 and isinstance(parts[0], DataLoader):
        if chunk is not None:
            raise ValueError(f"chunk must not be given with a DataLoader (its batches are the chunks), got {chunk}")
        return Loader(parts[0], seed), batch_size
    return Tensors(parts, chunk), batch_size


class Numbered:
    """Draws mini-batches of sample indices; those of one size do not depend on other sizes."""

    def __init__(self, samples: int, batch_size: int, seed: int, *, repetition: bool) -> None:
        self.samples, self.batch_size, self.repetition = samples, batch_size, repetition
        self._fixed, self._walks = (np.random.default_rng((seed, batch_size, use)) for use in (0, 1))

    def static(self, count: int) -> list[Index]:
        """Draw mini-batches as in epochs: they are disjoint until the samples are used up."""
        if self.repetition:
            return [self._fixed.integers(self.samples, size=self.batch_size) for _ in range(count)]
        found: list[Index] = []
        while len(found) < count:
            order = self._fixed.permutation(self.samples)
            whole = range(0, self.samples - self.batch_size + 1, self.batch_size)
            found += [order[start : start + self.batch_size] for start in whole]
        return found[:count]

    def draw(self, count: int) -> list[Index]:
        """Draw a new mini-batch for each walk."""
        if self.repetition:
            return list(self._walks.integers(self.samples, size=(count, self.batch_size)))
        choose = self._walks.choice
        return [choose(self.samples, self.batch_size, replace=False, shuffle=False) for _ in range(count)]


def check_batches(static: Sequence[Any], samples: int) -> list[Index]:
    """Return mini-batches given by the user as arrays of sample indices; raise an error if they are invalid."""
    chosen = []
    for place, numbers in enumerate(static):
        index = np.asarray(numbers)
        if index.ndim != 1 or not index.size or index.dtype.kind not in "iu":
            raise TypeError(f"static[{place}] must be numbers of samples (a mini-batch), got {numbers!r}")
        if index.min() < 0 or index.max() >= samples:
            raise ValueError(
                f"static[{place}] must be between 0 and {samples - 1} (there are {samples} samples), "
                f"got {int(index.min())} to {int(index.max())}"
            )
        chosen.append(index.astype(np.int64))
    return chosen


def require_count(name: str, number: Any, least: int, reason: str) -> None:
    """Require a whole number of at least 0 or 1."""
    require(type(number) is int and number >= least, name, f"a whole number of {least} or more", reason, number)
