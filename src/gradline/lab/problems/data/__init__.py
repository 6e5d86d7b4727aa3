"""Data sets of the studies: Iris, BCWD, MNIST and CIFAR10, Z-scored and with one-hot targets.

`load` loads a data set, `fetch` downloads its files, `status` returns the state of the files, and `register` adds a
data set. Iris and BCWD come with scikit-learn; MNIST and CIFAR10 are read from a folder in torchvision's layout and are
downloaded into it if missing.

Every file is compared with its published SHA-256 before it is parsed (`read_verified`), so that parsers of formats need
no checks of their own.
"""

from __future__ import annotations

from gradline.lab.problems.data.dataset import DataSet, Samples
from gradline.lab.problems.data.files import (
    DataError,
    Download,
    DownloadError,
    File,
    FileState,
    FileStatus,
    data_directory,
    read_verified,
)
from gradline.lab.problems.data.registry import SOURCES, Source, fetch, load, register, status

__all__ = [
    "SOURCES",
    "DataError",
    "DataSet",
    "Download",
    "DownloadError",
    "File",
    "FileState",
    "FileStatus",
    "Samples",
    "Source",
    "data_directory",
    "fetch",
    "load",
    "read_verified",
    "register",
    "status",
]
