"""The samples of a scan, and the mini-batches drawn from them: arrays of sample indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from gradline.searches.arguments import require
from gradline.torch.batches import Batches, _check_tensors, _join, _loader_epoch, unchanged
from gradline.torch.private import leaves

Index = NDArray[np.int64]


class Source:
    """Samples in memory: the rows of tensors, in a tuple or nested like the batches of a loader."""

    def __init__(self, tensors: Any, samples: int, chunk: int) -> None:
        self.tensors, self.samples, self.chunk = tensors, samples, chunk

    def batch(self, numbers: Index) -> Any:
        """Return the mini-batch of some sample indices."""
        return _rows(self.tensors, torch.from_numpy(numbers))

    def pieces(self, numbers: Index | None = None) -> Iterator[tuple[Any, Index]]:
        """Yield all samples, or those of some indices, in chunks, with their indices."""
        if numbers is None and self.chunk >= self.samples:
            yield self.tensors, np.arange(self.samples)
            return
        chosen = np.arange(self.samples) if numbers is None else numbers
        for start in range(0, len(chosen), self.chunk):
            part = chosen[start : start + self.chunk]
            yield self.batch(part), part


def _rows(tensors: Any, chosen: Tensor) -> Any:
    if isinstance(tensors, dict):
        return {name: _rows(part, chosen) for name, part in tensors.items()}
    if isinstance(tensors, tuple):
        return tuple(_rows(part, chosen) for part in tensors)
    return tensors[chosen.to(tensors.device)]


def source_of(data: Any, batch_size: int | None, chunk: int | None, seed: int) -> tuple[Source, int | None]:
    """Return the samples of `data` and the size of mini-batches; a loader is read to its end."""
    if chunk is not None:
        require_count("chunk", chunk, 1, "so many samples are evaluated at a time")
    if isinstance(data, Batches):
        batch_size = data.batch_size if batch_size is None else batch_size
        data = data.source
    parts = tuple(data) if isinstance(data, tuple | list) else (data,)
    if len(parts) == 1 and isinstance(parts[0], DataLoader):
        with unchanged(parts[0]):
            batches = list(_loader_epoch(parts[0], seed, 0))
        whole = _join(batches)
        size = len(leaves(batches[0])[0])
        return Source(whole, len(leaves(whole)[0]), chunk or size), batch_size or size
    if not parts or not all(isinstance(part, Tensor) and part.ndim for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts) or "nothing"
        raise TypeError(f"data must be tensors of samples, one DataLoader or gradline.batches, got {kinds}")
    samples = _check_tensors(parts)
    return Source(parts, samples, chunk or samples), batch_size


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
