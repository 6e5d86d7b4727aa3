"""Evaluate value and slope of mini-batches at the current parameters.

A scalar loss is evaluated for each mini-batch. A loss that returns per-sample losses is evaluated once for each sample
needed, and values and slopes of mini-batches are means over their samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradline.landscape.directions import Point
from gradline.landscape.results import Array
from gradline.landscape.source import Index, Loader, Tensors, length
from gradline.torch.batches import call_with
from gradline.torch.measuring import measure
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.graph import find_batch_norm

Losses = Callable[..., Tensor]


def evaluator_of(loss: Losses, source: Tensors | Loader, place: Point) -> ByBatch:
    """Return the evaluator of a loss: by sample or by batch, found by calling it on a few samples."""
    batch, numbers = next(iter(source.pieces()))
    if isinstance(source, Tensors):
        numbers = numbers[: min(len(numbers), 8)]
        batch = source.batch(numbers)
    with torch.no_grad():
        losses = call_with(batch, loss)
    place.restore_buffers()
    if not isinstance(losses, Tensor) or losses.ndim > 1 or (losses.ndim == 1 and len(losses) != len(numbers)):
        got = f"a tensor of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else repr(losses)
        raise TypeError(
            f"loss must return one number, the mean over its samples, or a vector of one loss for each of them, got "
            f"{got} for {len(numbers)} samples"
        )
    return (BySample if losses.ndim else ByBatch)(loss, source, place)


class ByBatch:
    """Evaluator of scalar losses."""

    def __init__(self, loss: Losses, source: Tensors | Loader, place: Point) -> None:
        self.loss, self.source, self.place = loss, source, place

    def gradient(self) -> list[Tensor]:
        """Return the gradient of the loss of all data."""
        total = [torch.zeros_like(parameter, requires_grad=False) for parameter in self.place.parameters]
        samples = 0
        for batch, numbers in self.source.pieces():
            _, gradients = self._differentiate(batch)
            samples += len(numbers)
            for into, gradient in zip(total, gradients, strict=True):
                into.add_(gradient, alpha=len(numbers))
        return [part / samples for part in total]

    def at(self, batches: Sequence[Any], along: Sequence[Tensor], *, full: bool) -> Array:
        """Return value and slope (columns) of each mini-batch; of all data in the first row if `full`."""
        rows = []
        if full:
            parts = [(*self._seen(batch, along), float(len(numbers))) for batch, numbers in self.source.pieces()]
            values, slopes, sizes = np.array(parts).T
            rows.append((float(values @ sizes / sizes.sum()), float(slopes @ sizes / sizes.sum())))
        held = map(self.source.batch, batches) if isinstance(self.source, Tensors) else batches
        rows += [self._seen(batch, along) for batch in held]
        return np.array(rows).reshape(-1, 2)

    def _seen(self, batch: Any, along: Sequence[Tensor]) -> tuple[float, float]:
        value, gradients = self._differentiate(batch)
        _, slope, (number,) = measure(gradients, along, value)
        return number, slope

    def _differentiate(self, batch: Any) -> tuple[Tensor, list[Tensor]]:
        value = call_with(batch, self.loss).mean()  # of per-sample losses
        if value.grad_fn is None:
            raise _constant()
        found = torch.autograd.grad(value, self.place.parameters, allow_unused=True)
        self.place.restore_buffers()
        pairs = zip(found, self.place.parameters, strict=True)
        return value.detach(), [torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs]


class BySample(ByBatch):
    """Evaluator of per-sample losses."""

    def at(self, batches: Sequence[Index], along: Sequence[Tensor], *, full: bool) -> Array:
        """Return value and slope of each mini-batch, of all data first if `full`."""
        everything = full or isinstance(self.source, Loader)
        numbers = np.concatenate(batches) if batches else np.zeros(0, dtype=np.int64)
        rows = self.samples(along, None if everything else np.unique(numbers))
        means = [rows.mean(axis=0, keepdims=True)] if full else []
        if batches:
            sizes = np.array([len(batch) for batch in batches])
            means.append(np.add.reduceat(rows[numbers], np.cumsum(sizes) - sizes, axis=0) / sizes[:, None])
        return np.concatenate(means)

    def samples(self, along: Sequence[Tensor], numbers: Index | None = None) -> Array:
        """Return value and slope (columns) of each sample; NaN for those not in `numbers`."""
        parts = []
        order = []
        for batch, chosen in self.source.pieces(numbers):
            losses = call_with(batch, self.loss)
            self._check(losses, batch)
            evaluated = Evaluated(losses, self.place.parameters, allow_batch_norm=True)
            evaluated.backward(accumulate=False)
            parts.append(torch.stack((evaluated.losses, evaluated.slopes(along)), dim=1).double().cpu().numpy())
            order.append(chosen)
            self.place.restore_buffers()
        places = np.concatenate(order)
        size = self.source.samples if isinstance(self.source, Tensors) else len(places)
        rows: Array = np.full((size, 2), np.nan)
        rows[places] = np.concatenate(parts)
        return rows

    def _check(self, losses: Tensor, batch: Any) -> None:
        if losses.grad_fn is None:
            raise _constant()
        if losses.shape != (length(batch),):
            raise TypeError(
                f"loss must always return one loss for each sample (it did at first), got shape {tuple(losses.shape)} "
                f"for {length(batch)} samples"
            )
        if find_batch_norm(losses) is not None:
            raise ValueError(
                "loss must return one number, the mean, where BatchNorm is training (each sample's loss then depends "
                "on the others of its mini-batch), got per-sample losses; or put the model in eval mode"
            )


def _constant() -> ValueError:
    return ValueError(
        "loss must depend on a parameter of the model that requires a gradient (slopes are derivatives), got a number "
        "without a graph; compute it with gradients enabled, and do not detach it"
    )
