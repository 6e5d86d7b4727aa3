"""Data sets before (`Samples`) and after (`DataSet`) scaling by `z_scored`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradline.searches.arguments import require

BLOCK = 2048
"""Rows in double precision at a time: 50 MB of CIFAR10."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Unscaled inputs and targets, returned by the `read` function of a `Source`.

    Inputs have one row per sample and any real type (pixels stay bytes until they are scaled). Labels are class numbers
    0 to K − 1, which become one-hot rows, or a two-dimensional array of targets. Test samples are optional.
    """

    train_inputs: npt.NDArray[Any]
    train_labels: npt.NDArray[Any]
    test_inputs: npt.NDArray[Any] | None = None
    test_labels: npt.NDArray[Any] | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.test_inputs is None) != (self.test_labels is None):
            raise ValueError("test_inputs and test_labels must be given together (each test input has a label)")
        _require_rows("train", self.train_inputs, self.train_labels)
        require(len(self.train_inputs) > 0, "train_inputs", "at least one row", "there is nothing to train on", 0)
        if self.test_inputs is not None and self.test_labels is not None:
            _require_rows("test", self.test_inputs, self.test_labels)
            for kind, train, test in (
                ("inputs", self.train_inputs, self.test_inputs),
                ("labels", self.train_labels, self.test_labels),
            ):
                rule = f"of the shape {train.shape[1:]} of train_{kind}"
                good = train.shape[1:] == test.shape[1:]
                require(good, f"test_{kind}", rule, "they feed one network", test.shape[1:])


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Training and test samples: scaled inputs and targets of one floating-point type.

    `train_inputs` is (M, D) and `train_targets` (M, K); `classes` names the K outputs where they are classes. A data
    set without test samples has test arrays of shape (0, D) and (0, K).
    """

    name: str
    train_inputs: npt.NDArray[np.floating]
    train_targets: npt.NDArray[np.floating]
    test_inputs: npt.NDArray[np.floating]
    test_targets: npt.NDArray[np.floating]
    classes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        (train, inputs), outputs = self.train_inputs.shape, self.train_targets.shape[1]
        return (
            f"<DataSet {self.name}: {train} training and {len(self.test_inputs)} test samples, "
            f"{inputs} inputs, {outputs} outputs, {self.train_inputs.dtype}>"
        )


def targets(
    train: npt.NDArray[Any], test: npt.NDArray[Any] | None, classes: tuple[str, ...], dtype: npt.DTypeLike
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Return training and test targets: one-hot rows of class numbers, or two-dimensional targets unchanged."""
    if test is None:
        test = train[:0]
    if train.ndim == 2:
        _require_finite("targets", train)
        _require_finite("targets", test)
        return train.astype(dtype), test.astype(dtype)
    if not all(labels.dtype.kind in "iu" for labels in (train, test)):
        raise ValueError(f"labels must be whole numbers (they number the classes), got {train.dtype} and {test.dtype}")
    used = np.concatenate([train, test])
    number = len(classes) or 1 + int(used.max())
    if used.min() < 0 or used.max() >= number:
        raise ValueError(
            f"labels must be between 0 and {number - 1} (there are {number} classes), got {used.min()} to {used.max()}"
        )
    return np.eye(number, dtype=dtype)[train], np.eye(number, dtype=dtype)[test]


def _require_rows(part: str, inputs: npt.NDArray[Any], labels: npt.NDArray[Any]) -> None:
    good = inputs.ndim == 2 and inputs.shape[1] > 0
    require(good, f"{part}_inputs", "two-dimensional", "a row is a sample", inputs.shape)
    require(inputs.dtype.kind in "fiub", f"{part}_inputs", "real numbers", "they are scaled", str(inputs.dtype))
    good = labels.ndim in (1, 2) and len(labels) == len(inputs)
    rule = f"{len(inputs)} class numbers or rows of targets"
    require(good, f"{part}_labels", rule, "one for each input", labels.shape)
    _require_finite(f"{part}_inputs", inputs)


def _require_finite(name: str, array: npt.NDArray[Any]) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite (a NaN would spread over every scaled input), got NaN or infinity")


def z_scored(
    parts: Sequence[npt.NDArray[Any]], fitted: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike
) -> list[npt.NDArray[np.floating]]:
    """Return parts of a data set with each input dimension scaled to mean 0 and standard deviation 1 over other parts.

    The standard deviation divides by n − 1. A dimension that is constant over the fitted rows (a border pixel of MNIST)
    becomes 0 in every row, also in rows where it is not constant: a network cannot have learned anything from it. Means
    and deviations are computed in double precision by blocks of rows, so that bytes are not expanded all at once.
    """
    rows = sum(len(part) for part in fitted)
    low = np.min([part.min(axis=0) for part in fitted if len(part)], axis=0).astype(np.float64)
    high = np.max([part.max(axis=0) for part in fitted if len(part)], axis=0)
    total, squares = np.zeros(len(low)), np.zeros(len(low))
    for block in _blocks(fitted):
        total += block.sum(axis=0)
    # Compared, not computed: the mean of many 0.1 is not exactly 0.1, and their variance not exactly zero.
    mean = np.where(low == high, low, total / rows)
    for block in _blocks(fitted):
        squares += ((block - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / max(1, rows - 1))
    # A spread too small to square (below 1e-154) has no deviation to divide by either.
    constant = (low == high) | (deviation == 0.0)
    deviation[constant] = 1.0
    scaled: list[npt.NDArray[np.floating]] = [np.empty(part.shape, dtype=dtype) for part in parts]
    for part, into in zip(parts, scaled, strict=True):
        for begin, block in enumerate(_blocks([part])):
            into[begin * BLOCK : (begin + 1) * BLOCK] = (block - mean) / deviation
        into[:, constant] = 0.0
    return scaled


def _blocks(parts: Sequence[npt.NDArray[Any]]) -> Iterator[npt.NDArray[np.float64]]:
    for part in parts:
        for start in range(0, len(part), BLOCK):
            yield part[start : start + BLOCK].astype(np.float64)
