"""MNIST: the first 50,000 of its training images for training, its 10,000 test images for testing.

The files are in the IDX format: two zero bytes, a byte for the type of the numbers, a byte for the number of
dimensions, the dimensions as big-endian 32-bit numbers, then the numbers.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradline.lab.problems.data.dataset import Samples
from gradline.lab.problems.data.errors import DataError
from gradline.lab.problems.data.files import Download, File, read_verified
from gradline.lab.tools.files import Limited

TRAINING = 50_000
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
_UNSIGNED_BYTES = 0x08


def _download(name: str, packed: tuple[int, str, str], plain: tuple[int, str, str]) -> Download:
    return Download(
        file=File(f"MNIST/raw/{name}.gz", *packed),
        urls=tuple(f"{mirror}{name}.gz" for mirror in _MIRRORS),
        unpacked=(File(f"MNIST/raw/{name}", *plain),),
    )


# Size, SHA-256 and MD5 of the compressed file, then of the file in it.
DOWNLOADS = (
    _download(
        "train-images-idx3-ubyte",
        (
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        ),
        (
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "6bbc9ace898e44ae57da46a324031adb",
        ),
    ),
    _download(
        "train-labels-idx1-ubyte",
        (
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "d53e105ee54ea40749a09fcbcd1e9432",
        ),
        (
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "a25bea736e30d166cdddb491f175f624",
        ),
    ),
    _download(
        "t10k-images-idx3-ubyte",
        (
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "9fb629c4189551a2d022fa330f9573f3",
        ),
        (
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "2646ac647ad5339dbf082846283269ea",
        ),
    ),
    _download(
        "t10k-labels-idx1-ubyte",
        (
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        (
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
)


def read_all(directory: Path) -> Samples:
    """The images as rows of 784 bytes, and their digits; all 60,000 training images."""
    return read(directory, None)


def read(directory: Path, training: int | None = TRAINING) -> Samples:
    """The images as rows of 784 bytes, and their digits; so many of the training images, or all."""
    train_images, train_labels, test_images, test_labels = (_content(wanted, directory) for wanted in DOWNLOADS)
    train_inputs, train_digits = samples_of(train_images, train_labels, "training")
    test_inputs, test_digits = samples_of(test_images, test_labels, "test")
    return Samples(
        train_inputs[:training],
        train_digits[:training],
        test_inputs,
        test_digits,
        classes=tuple(str(digit) for digit in range(10)),
    )


def samples_of(images: bytes, labels: bytes, which: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images as rows and their digits, from the bytes of two IDX files."""
    pixels = parse_idx(images, dimensions=3, name=f"the {which} images")
    digits = parse_idx(labels, dimensions=1, name=f"the {which} labels")
    if pixels.shape[1:] != (28, 28):
        raise DataError(f"the {which} images must be of 28 × 28 pixels, got {pixels.shape[1:]}")
    if len(pixels) != len(digits):
        raise DataError(f"the {which} images must have a label each, got {len(pixels)} and {len(digits)}")
    if digits.size and digits.max() > 9:
        raise DataError(f"the {which} labels must be digits, got {digits.max()}")
    return pixels.reshape(len(pixels), 28 * 28), digits


def parse_idx(content: bytes, *, dimensions: int, name: str) -> npt.NDArray[Any]:
    """The array of bytes in an IDX file, whose header must agree with its length."""
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{name} end within the header, after {len(content)} bytes")
    if content[:4] != bytes((0, 0, _UNSIGNED_BYTES, dimensions)):
        raise DataError(
            f"{name} must be an IDX file of bytes in {dimensions} dimensions, but begin with {content[:4].hex(' ')}"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataError(f"{name} must have {math.prod(shape):,} bytes of data, got {len(content) - start:,}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _content(wanted: Download, directory: Path) -> bytes:
    file, content = read_verified(wanted.choices[0], directory)
    if not file.path.endswith(".gz"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as zipped:
            return Limited(zipped, wanted.unpacked[0].size, "what is in it").read()
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{file.under(directory)} cannot be unpacked: {error}") from error
