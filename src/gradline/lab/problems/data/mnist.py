"""MNIST: the first 50,000 of its training images for training, its 10,000 test images for testing.

The files are in the IDX format: two zero bytes, a byte for the type of the numbers, a byte for the number of
dimensions, the dimensions as big-endian 32-bit numbers, then the numbers.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradline.lab.problems.data.dataset import Samples
from gradline.lab.problems.data.files import Download, File, read_verified

TRAINING = 50_000
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")


def _download(name: str, packed: tuple[int, str], plain: tuple[int, str]) -> Download:
    return Download(
        file=File(f"MNIST/raw/{name}.gz", *packed),
        urls=tuple(f"{mirror}{name}.gz" for mirror in _MIRRORS),
        unpacked=(File(f"MNIST/raw/{name}", *plain),),
    )


# Size and SHA-256 of the compressed file, then of the file in it.
DOWNLOADS = (
    _download(
        "train-images-idx3-ubyte",
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    ),
    _download(
        "train-labels-idx1-ubyte",
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    ),
    _download(
        "t10k-images-idx3-ubyte",
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    ),
    _download(
        "t10k-labels-idx1-ubyte",
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        (10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
)


def read(directory: Path, training: int | None = TRAINING) -> Samples:
    """Read the images as rows of 784 bytes, and their digits; the first `training` of the training images, or all."""
    train_images, train_labels, test_images, test_labels = (_values(wanted, directory) for wanted in DOWNLOADS)
    return Samples(
        train_images.reshape(-1, 28 * 28)[:training],
        train_labels[:training],
        test_images.reshape(-1, 28 * 28),
        test_labels,
        classes=tuple(str(digit) for digit in range(10)),
    )


def _values(wanted: Download, directory: Path) -> npt.NDArray[np.uint8]:
    """Return the bytes after the header of an IDX file, whose fourth byte is the number of dimensions."""
    file, content = read_verified(wanted.choices[0], directory)
    if file.path.endswith(".gz"):
        content = gzip.decompress(content)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3])
