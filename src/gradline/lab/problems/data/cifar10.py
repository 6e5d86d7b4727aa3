"""CIFAR10: the 10,000 images of its first training batch for training, its 10,000 test images for testing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradline.lab.problems.data.dataset import Samples
from gradline.lab.problems.data.errors import DataError
from gradline.lab.problems.data.files import Download, File, read_verified
from gradline.lab.problems.data.pickles import parse_pickle

PIXELS = 3 * 32 * 32
ROWS = 10_000

DOWNLOADS = (
    Download(
        file=File(
            "cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            "c58f30108f718f92721af3b95e74349a",
        ),
        urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
        unpacked=(
            File(
                "cifar-10-batches-py/data_batch_1",
                31_035_704,
                "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
                "c99cafc152244af753f735de768cd75f",
            ),
            File(
                "cifar-10-batches-py/test_batch",
                31_035_526,
                "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
                "40351d587109b95175f43aff81a1287e",
            ),
            File(
                "cifar-10-batches-py/batches.meta",
                158,
                "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb",
                "5ff9c542aee3614f3951f8cda6e48888",
            ),
        ),
        unpack=True,
    ),
)


def read(directory: Path) -> Samples:
    """The images as rows of 3,072 bytes (all reds, all greens, all blues), and the numbers of their classes."""
    train, test, meta = (read_verified(choice, directory)[1] for choice in DOWNLOADS[0].choices)
    return Samples(
        *samples_of(parse_pickle(train, name="data_batch_1"), "data_batch_1"),
        *samples_of(parse_pickle(test, name="test_batch"), "test_batch"),
        classes=classes_of(parse_pickle(meta, name="batches.meta")),
    )


def samples_of(batch: Any, name: str, rows: int = ROWS) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.intp]]:
    """The images and labels of an unpickled batch."""
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise DataError(f"{name} must be a dictionary with data and labels")
    images, labels = batch[b"data"], batch[b"labels"]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (rows, PIXELS):
        found = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise DataError(f"{name} must hold {rows} images of {PIXELS} bytes, got {found}")
    if not isinstance(labels, list) or len(labels) != rows:
        raise DataError(f"{name} must have a list of {rows} labels")
    if not all(type(label) is int and 0 <= label <= 9 for label in labels):
        raise DataError(f"the labels of {name} must be whole numbers from 0 to 9")
    return images, np.array(labels, dtype=np.intp)


def classes_of(meta: Any) -> tuple[str, ...]:
    """The ten names of the classes."""
    names = meta.get(b"label_names") if isinstance(meta, dict) else None
    if not isinstance(names, list) or len(names) != 10 or not all(isinstance(name, bytes) for name in names):
        raise DataError("batches.meta must have the names of 10 classes")
    return tuple(name.decode("ascii", "replace") for name in names)
