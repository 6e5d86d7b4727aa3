"""CIFAR10: the 10,000 images of its first training batch for training, its 10,000 test images for testing."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np

from gradline.lab.problems.data.dataset import Samples
from gradline.lab.problems.data.files import Download, File, read_verified

_ARCHIVE = ("cifar-10-python.tar.gz", 170_498_071, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce")
_MEMBERS = (
    ("data_batch_1", 31_035_704, "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd"),
    ("test_batch", 31_035_526, "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831"),
    ("batches.meta", 158, "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb"),
)
DOWNLOADS = (
    Download(
        file=File(*_ARCHIVE),
        urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
        unpacked=tuple(File(f"cifar-10-batches-py/{name}", size, sha256) for name, size, sha256 in _MEMBERS),
        unpack=True,
    ),
)


def read(directory: Path) -> Samples:
    """Read the images as rows of 3,072 bytes (all reds, all greens, all blues), and the numbers of their classes.

    They are pickles of Python 2, which are read only if their bytes are the published ones.
    """
    contents = [read_verified(choice, directory)[1] for choice in DOWNLOADS[0].choices]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they name modules and options of an old NumPy
        train, test, meta = (pickle.loads(content, encoding="bytes") for content in contents)
    return Samples(
        train[b"data"],
        np.array(train[b"labels"]),
        test[b"data"],
        np.array(test[b"labels"]),
        classes=tuple(name.decode() for name in meta[b"label_names"]),
    )
