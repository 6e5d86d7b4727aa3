"""Load data sets by name, download their files, and say which are there.

A data set is one value, a `Source`: a function that reads it, and the files it needs. `SOURCES` has those of the
studies; `register` adds one. Iris and BCWD (Breast Cancer Wisconsin, Diagnostic) come with scikit-learn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gradline.lab.problems.data import cifar10, files, mnist
from gradline.lab.problems.data.dataset import DataSet, Samples, targets, z_scored
from gradline.lab.problems.data.files import (
    DIRECTORY_VARIABLE,
    DataError,
    Download,
    DownloadError,
    FileState,
    FileStatus,
    advice,
    data_directory,
    states,
)
from gradline.lab.tools.imports import import_extra, import_named
from gradline.searches.arguments import require


@dataclass(frozen=True)
class Source:
    """Source of a data set.

    Args:
        read: receives the data directory and returns the samples, unscaled. It reads files by `read_verified`, or
            checks them itself.
        downloads: the files that it needs there; none for data that come with a package.
        dtype: the default type of the loaded arrays.
    """

    read: Callable[[Path], Samples]
    downloads: tuple[Download, ...] = ()
    dtype: npt.DTypeLike = np.float64


BCWD_TRAINING = int(
    "12AEF23977B57BEC1FBFFFBBFF8EA3FB6DC5F9FFB2F3D7D5F57D8D37124F77BF2F5B3BBF"
    "9C33FFEFFFFBFBBFFDED5D939DFE4FDCFDEBF3EDB5EFCF2F6EDF9DDF1FAF3FEAAA29DDD",
    base=16,
)
"""The training rows of the paper: one bit for each of the 569 rows, the highest for the first."""


def read_iris(directory: Path) -> Samples:
    """Return all 150 samples for training, in scikit-learn's order (50 of each class in turn)."""
    source = import_extra("sklearn.datasets", "the Iris data").load_iris()
    return Samples(source.data, source.target, classes=tuple(map(str, source.target_names)))


def read_bcwd(directory: Path) -> Samples:
    """Return 400 samples for training and 169 for testing, the same rows as in the paper's programs.

    The choice of rows matters: the 400 are linearly separable, and their margin depends on it. 152 of the 400 are
    malignant, and 60 of the 169. Output 0 is malignant and output 1 benign, as in scikit-learn.
    """
    source = import_extra("sklearn.datasets", "the BCWD data").load_breast_cancer()
    count = len(source.target)
    train = np.array([BCWD_TRAINING >> (count - 1 - row) & 1 for row in range(count)], dtype=bool)
    test = ~train
    return Samples(
        source.data[train],
        source.target[train],
        source.data[test],
        source.target[test],
        classes=tuple(map(str, source.target_names)),
    )


SOURCES: dict[str, Source] = {
    "iris": Source(read_iris),
    "bcwd": Source(read_bcwd),
    # In double precision MNIST would fill 376 MB and CIFAR10 492 MB.
    "mnist": Source(mnist.read, mnist.DOWNLOADS, dtype=np.float32),
    "mnist-60000": Source(partial(mnist.read, training=None), mnist.DOWNLOADS, dtype=np.float32),
    "cifar10": Source(cifar10.read, cifar10.DOWNLOADS, dtype=np.float32),
}


def register(name: str, source: Source, *, replace: bool = False) -> None:
    """Add a data set for `load`, `fetch` and `status`.

    ```python
    import numpy as np
    from gradline.lab.problems import data

    def read(directory):
        corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        return data.Samples(train_inputs=corners, train_labels=corners[:, 0] ^ corners[:, 1])

    data.register("xor", data.Source(read))
    assert data.load("xor").train_targets.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    del data.SOURCES["xor"]
    ```
    """
    good = re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name) is not None
    require(good, "name", "small letters, digits, '.', '_' and '-'", "files are named by it", name)
    require(replace or name not in SOURCES, "name", "new, or replace=True", "data sets are found by it", name)
    SOURCES[name] = source


def find(name: str) -> Source:
    """Return the source of a registered name or of "package.module:source"."""
    if ":" in name:
        source = import_named("data", name, "source", "it reads the data")
        if not isinstance(source, Source):
            raise TypeError(f"data must be a gradline.lab.problems.data.Source, but {name} is {source!r}")
        return source
    try:
        return SOURCES[name]
    except KeyError:
        raise ValueError(f"name must be one of {', '.join(SOURCES)} (or registered before), got {name!r}") from None


def status(directory: str | os.PathLike[str] | None = None) -> tuple[FileStatus, ...]:
    """Return the state of each file of the registered data sets; existing files are read and compared.

    Data sets that need no files (Iris, BCWD) have no lines.
    """
    folder, sources = data_directory(directory), SOURCES.items()
    return tuple(line for name, source in sources for one in source.downloads for line in states(one, folder, name))


def fetch(name: str, directory: str | os.PathLike[str] | None = None, *, progress: bool = True) -> Path:
    """Download those files of a data set that are missing or damaged, and return their folder.

    A damaged file is replaced when the new one is complete and verified.
    """
    folder = data_directory(directory)
    lacking = [
        wanted
        for wanted in find(name).downloads
        if any(line.state is not FileState.VERIFIED for line in states(wanted, folder, name))
    ]
    for place, wanted in enumerate(lacking):
        try:
            files.download(wanted, folder, progress=progress)
        except DownloadError as error:
            why = f"could not be downloaded:\n{error}\nThe missing ones"
            raise DownloadError(advice(name, lacking[place:], folder, why)) from error
        except OSError as error:  # no permission, no space, not a folder ...
            raise DataError(
                f"{name} needs files that are not in {folder} and cannot be written there ({error}): "
                f"name another folder by the argument directory or the variable {DIRECTORY_VARIABLE}"
            ) from error
    return folder


def load(
    name: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    z_score: Literal["train", "all", "none"] = "train",
    dtype: npt.DTypeLike | None = None,
    download: bool = True,
    progress: bool = True,
) -> DataSet:
    """Load a data set.

    ```python
    from gradline.lab.problems import data

    iris = data.load("iris")
    assert iris.train_inputs.shape == (150, 4) and iris.train_targets.shape == (150, 3)
    assert iris.test_inputs.shape == (0, 4)
    assert abs(iris.train_inputs.mean(axis=0)).max() < 1e-12
    ```

    Args:
        name: "iris", "bcwd", "mnist", "cifar10", a registered name, or "package.module:source".
        directory: folder of the files, in torchvision's layout. Default: the variable `GRADLINE_DATA`, else the user's
            cache folder.
        z_score: the rows whose mean and standard deviation (n − 1) scale each input dimension: "train", "all" (training
            and test rows, as in the published programs), or "none" for unscaled inputs. A dimension that is constant
            over these rows becomes 0. Scaling is computed in double precision.
        dtype: float32 or float64. Default: float64, for MNIST and CIFAR10 float32.
        download: whether to download missing files.
        progress: whether to show a progress bar on a terminal.
    """
    source = find(name)
    good = z_score in ("train", "all", "none")
    require(good, "z_score", "'train', 'all' or 'none'", "the rows it is fitted on", z_score)
    stored: np.dtype[Any] = np.dtype(source.dtype if dtype is None else dtype)
    if stored not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64 (Z-scores are fractions), got {stored}")
    folder = data_directory(directory)
    lacking = [
        wanted
        for wanted in source.downloads
        if not all(any(file.under(folder).is_file() for file in choice) for choice in wanted.choices)
    ]
    if lacking and not download:
        raise DownloadError(advice(name, lacking, folder, "were not to be downloaded"))
    if lacking:
        fetch(name, folder, progress=progress)
    try:
        samples = source.read(folder)
    except DataError as error:
        hint = f". gradline.lab.problems.data.fetch({name!r}) replaces it." if source.downloads else ""
        raise DataError(f"{name}: {error}{hint}") from error
    train = samples.train_inputs
    parts = [train, train[:0] if samples.test_inputs is None else samples.test_inputs]
    if z_score == "none":
        inputs = [part.astype(stored) for part in parts]
    else:
        inputs = z_scored(parts, parts[:1] if z_score == "train" else parts, stored)
    outputs = targets(samples.train_labels, samples.test_labels, samples.classes, stored)
    return DataSet(name, inputs[0], outputs[0], inputs[1], outputs[1], samples.classes)
