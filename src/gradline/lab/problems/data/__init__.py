"""The data sets of the study: Iris, BCWD, MNIST and CIFAR10, Z-scored and with one-hot targets.

`load` gives a data set by its name, `fetch` downloads its files, `status` says which files are there, and `register`
adds a data set. Iris and BCWD come with scikit-learn; MNIST and CIFAR10 are read from a folder in torchvision's layout
and are downloaded into it when they are not there. Every file is checked against its published checksum before it is
read, and nothing in a file can run code.

The rule of the package: what arrives from outside (bytes of a server, a tar archive, a pickle) is checked where it
comes in, so that the arrays that leave are known to be right.
"""

from __future__ import annotations

from gradline.lab.problems.data.dataset import DataSet, Samples
from gradline.lab.problems.data.downloads import fetch, status
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
from gradline.lab.problems.data.registry import SOURCES, Source, load, register

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
