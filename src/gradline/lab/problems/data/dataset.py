"""Data sets before (`Samples`) and after (`DataSet`) scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


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
        if len(self.train_inputs) == 0:
            raise ValueError("train_inputs must have at least one row (there is nothing to train on), got none")
        if self.test_inputs is not None and self.test_labels is not None:
            _require_rows("test", self.test_inputs, self.test_labels)
            for kind, train, test in (
                ("inputs", self.train_inputs, self.test_inputs),
                ("labels", self.train_labels, self.test_labels),
            ):
                if train.shape[1:] != test.shape[1:]:
                    raise ValueError(
                        f"test_{kind} must have the shape of train_{kind} (they feed one network), "
                        f"got {test.shape} and {train.shape}"
                    )


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
    for labels in (train, test):
        if labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be whole numbers (they number the classes), got {labels.dtype}")
    number = len(classes) or 1 + max(int(labels.max()) for labels in (train, test) if labels.size)
    return _one_hot(train, number, dtype), _one_hot(test, number, dtype)


def _one_hot(labels: npt.NDArray[Any], number: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    if labels.size and (labels.min() < 0 or labels.max() >= number):
        raise ValueError(
            f"labels must be between 0 and {number - 1} (there are {number} classes), "
            f"got {int(labels.min())} to {int(labels.max())}"
        )
    rows: npt.NDArray[np.floating] = np.zeros((len(labels), number), dtype=dtype)
    rows[np.arange(len(labels)), labels] = 1.0
    return rows


def _require_rows(part: str, inputs: npt.NDArray[Any], labels: npt.NDArray[Any]) -> None:
    if inputs.ndim != 2 or inputs.shape[1] == 0:
        raise ValueError(f"{part}_inputs must be two-dimensional (a row a sample), got shape {inputs.shape}")
    if inputs.dtype.kind not in "fiub":
        raise ValueError(f"{part}_inputs must be real numbers (they are scaled), got {inputs.dtype}")
    if labels.ndim not in (1, 2) or len(labels) != len(inputs):
        raise ValueError(
            f"{part}_labels must be {len(inputs)} class numbers or rows of targets (one for each input), "
            f"got shape {labels.shape}"
        )
    _require_finite(f"{part}_inputs", inputs)


def _require_finite(name: str, array: npt.NDArray[Any]) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite (a NaN would spread over every scaled input), got NaN or infinity")
