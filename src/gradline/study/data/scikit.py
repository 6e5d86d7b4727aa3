"""Iris and BCWD (Breast Cancer Wisconsin, Diagnostic), which come with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gradline.study.data._extra import study_extra
from gradline.study.data.dataset import Samples

BCWD_TRAINING = 400
BCWD_SEED = 0


def read_iris(directory: Path) -> Samples:
    """All 150 samples for training, in scikit-learn's order (50 of each class, one class after the other)."""
    source = study_extra("sklearn.datasets", "the Iris data").load_iris()
    return Samples(source.data, source.target, classes=tuple(map(str, source.target_names)))


def read_bcwd(directory: Path) -> Samples:
    """400 samples for training and 169 for testing, of scikit-learn's 569 in a fixed random order.

    The order is `numpy.random.RandomState(0).permutation(569)`, which NumPy promises never to change; it is not
    stratified (147 of the 400 are malignant, and 65 of the 169). Output 0 is malignant and
    output 1 benign, as in scikit-learn.
    """
    source = study_extra("sklearn.datasets", "the BCWD data").load_breast_cancer()
    order = np.random.RandomState(BCWD_SEED).permutation(len(source.target))
    train, test = order[:BCWD_TRAINING], order[BCWD_TRAINING:]
    return Samples(
        source.data[train],
        source.target[train],
        source.data[test],
        source.target[test],
        classes=tuple(map(str, source.target_names)),
    )
