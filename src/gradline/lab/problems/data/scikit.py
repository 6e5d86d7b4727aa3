"""Iris and BCWD (Breast Cancer Wisconsin, Diagnostic), which come with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gradline.lab.problems.data.dataset import Samples
from gradline.lab.tools.imports import import_extra

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
