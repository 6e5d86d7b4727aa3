"""CIFAR10: the 10,000 images of its first training batch for training, its 10,000 test images for testing."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from gradline.lab.problems.data.dataset import Samples
from gradline.lab.problems.data.files import DataError, Download, File, read_verified

DOWNLOADS = (
    Download(
        file=File(
            "cifar-10-python.tar.gz", 170_498_071, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
        ),
        urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
        unpacked=(
            File(
                "cifar-10-batches-py/data_batch_1",
                31_035_704,
                "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
            ),
            File(
                "cifar-10-batches-py/test_batch",
                31_035_526,
                "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
            ),
            File(
                "cifar-10-batches-py/batches.meta",
                158,
                "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb",
            ),
        ),
        unpack=True,
    ),
)


def read(directory: Path) -> Samples:
    """Read the images as rows of 3,072 bytes (all reds, all greens, all blues), and the numbers of their classes."""
    train, test, meta = (_Unpickler(read_verified(choice, directory)[1]).load() for choice in DOWNLOADS[0].choices)
    return Samples(
        train[b"data"],
        np.array(train[b"labels"]),
        test[b"data"],
        np.array(test[b"labels"]),
        classes=tuple(name.decode() for name in meta[b"label_names"]),
    )


class _Unpickler(pickle.Unpickler):
    """Reads the pickles of Python 2 that CIFAR10 consists of; it finds three names of NumPy and imports nothing."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name in the pickle stands for."""
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return lambda kind, *_: np.dtype(kind.decode(), False, True)
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np.empty(0).__reduce__()[0]
        raise DataError(f"a batch of CIFAR10 must hold arrays only, but its pickle asks for {module}.{name}")
