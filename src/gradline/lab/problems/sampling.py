"""Random streams of a run, by purpose: the same numbers in every engine, alone or beside other runs.

A stream is a function of the run's seed, of what it is for and of a position in it: nothing else, so that runs of
different methods with the same seed begin at the same weights, and what is drawn does not depend on how runs are
grouped or in what order they go. A position is one number, and that is all there is to save.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from gradline.searches.arguments import require

Indices: TypeAlias = NDArray[np.int32]

BLOCK = 64
"""Batches drawn at once: one draw costs as much as fifty."""


class Purpose(IntEnum):
    """What a stream is for. The numbers are part of every result: they stay as they are."""

    WEIGHTS = 0
    DIRECTIONS = 1
    PROBES = 2
    MEASURES = 3


def generator(seed: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """Return the generator of a seed for a purpose, at a place in its stream."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(purpose), *place)))


class Batches:
    """An endless sequence of mini-batches, as sorted sample numbers: `batches.at(n)` is the n-th.

    ```python
    from gradline.lab.problems.sampling import Batches, Purpose

    batches = Batches(seed=0, purpose=Purpose.PROBES, samples=400, size=50)
    assert len(set(batches.at(7))) == 50
    assert (batches.at(7) == Batches(seed=0, purpose=Purpose.PROBES, samples=400, size=50).at(7)).all()
    ```

    Args:
        seed: of the run.
        purpose: what the batches are for.
        samples: how many there are to draw from.
        size: of a batch.
        repetition: whether a sample may be in a batch twice.
    """

    __slots__ = ("_block", "_drawn", "purpose", "repetition", "samples", "seed", "size", "whole")

    def __init__(self, *, seed: int, purpose: Purpose, samples: int, size: int, repetition: bool = False) -> None:
        require(samples >= 1, "samples", "at least 1", "batches are drawn from them", samples)
        if size > samples and not repetition:
            raise ValueError(
                f"batch size must be at most the number of samples, {samples} (none is drawn twice), got {size!r}; "
                f"set repetition=True to draw with repetition"
            )
        self.seed, self.purpose, self.samples, self.size, self.repetition = seed, purpose, samples, size, repetition
        self.whole = size == samples and not repetition
        """Whether every batch is all the samples."""
        self._drawn = np.arange(samples, dtype=np.int32)[None] if self.whole else np.empty((0, size), np.int32)
        self._block = -1

    def at(self, position: int) -> Indices:
        """Return the batch at a position; ascending positions are cheap."""
        if self.whole:
            return cast(Indices, self._drawn[0])
        block, place = divmod(position, BLOCK)
        if block != self._block:
            source = generator(self.seed, self.purpose, block)
            draw = with_repetition if self.repetition else without_repetition
            self._drawn, self._block = draw(source, BLOCK, self.samples, self.size), block
        return cast(Indices, self._drawn[place])


def with_repetition(source: np.random.Generator, batches: int, samples: int, size: int) -> Indices:
    """Draw batches with repetition; each is sorted."""
    drawn = source.integers(samples, size=(batches, size), dtype=np.int32)
    drawn.sort(axis=1)
    return drawn


def without_repetition(source: np.random.Generator, batches: int, samples: int, size: int) -> Indices:
    """Draw batches of distinct samples; each is sorted, and every subset of this size is equally likely.

    Duplicates are drawn anew until there are none. What is kept depends on equality alone, not on which sample is
    which, so no subset is preferred. Of more than half of the samples, the others are drawn.
    """
    if 2 * size > samples:
        mask = np.ones((batches, samples), dtype=np.bool_)
        np.put_along_axis(mask, without_repetition(source, batches, samples, samples - size), False, axis=1)
        return np.nonzero(mask)[1].astype(np.int32).reshape(batches, size)
    drawn = with_repetition(source, batches, samples, size)
    left = np.arange(batches)
    while True:
        rows = drawn[left]
        again = rows[:, 1:] == rows[:, :-1]
        open_ = again.any(axis=1)
        if not open_.any():
            return drawn
        left, rows, again = left[open_], rows[open_], again[open_]
        rows[:, 1:][again] = source.integers(samples, size=int(again.sum()), dtype=np.int32)
        rows.sort(axis=1)
        drawn[left] = rows


def chosen_samples(seed: int, samples: int, count: int | None, part: int) -> Indices | None:
    """Return the samples that losses and errors of a part of the data are measured on; `None`: all."""
    if count is None or count >= samples:
        return None
    return cast(Indices, without_repetition(generator(seed, Purpose.MEASURES, part), 1, samples, count)[0])
