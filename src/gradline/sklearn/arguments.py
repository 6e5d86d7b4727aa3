"""Checks of the estimators' parameters, made in `fit` as usual in scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array
from torch.optim import Optimizer

from gradline.searches.arguments import require
from gradline.sklearn.network import ACTIVATIONS


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise an error for invalid parameters of an estimator."""
    layer_sizes(parameters["hidden_layer_sizes"])
    activation, size, patience = (parameters[name] for name in ("activation", "batch_size", "n_iter_no_change"))
    known = isinstance(activation, str) and activation in ACTIVATIONS
    names = ", ".join(map(repr, ACTIVATIONS))
    require(known, "activation", f"one of {names}", "the functions of hidden units", activation)
    _require_search(parameters["search"])
    rule = "a whole number from 1 on"
    is_size = size == "auto" or _whole(size)
    require(is_size, "batch_size", f"'auto' or {rule}", "samples in a batch", size)
    require(_whole(parameters["max_iter"]), "max_iter", rule, "passes through the data", parameters["max_iter"])
    is_count = patience == math.inf or _whole(patience)
    require(is_count, "n_iter_no_change", rule, "passes to wait for a better one", patience)
    for name, below, reason in (
        ("alpha", math.inf, "it weighs the squares of the weights in the loss"),
        ("tol", math.inf, "it is what counts as an improvement"),
        ("validation_fraction", 1.0, "this part of the data is held back"),
    ):
        number = parameters[name]
        is_real = not isinstance(number, bool) and isinstance(number, Real) and 0.0 <= float(number) < below
        rule = "0 or more and finite" if below == math.inf else f"0 or more and below {below:g}"
        require(is_real, name, rule, reason, number)


def _require_search(search: Any) -> None:
    """Raise an error for anything but `None` and a search."""
    if search is None or (callable(getattr(search, "search", None)) and not isinstance(search, type | Optimizer)):
        return
    raise TypeError(
        f"search must be None, which is Angle, or an instance of a search (the estimator builds the optimizer itself): "
        f"write search=gradline.searches.GolsI() for example, or direction=torch.optim.Adam for the updates of an "
        f"optimizer, got {search!r}"
    )


def layer_sizes(sizes: Any) -> list[int]:
    """Return the sizes of the hidden layers as a list; a single number means one layer."""
    found = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    rule, reason = "whole numbers from 1 on", "the units of each hidden layer"
    require(all(map(_whole, found)), "hidden_layer_sizes", rule, reason, sizes)
    return [int(size) for size in found]


def sample_weights(weights: Any, samples: int) -> Any:
    """Return an array of sample weights; a single number is the weight of all samples."""
    found = np.full(samples, float(weights)) if isinstance(weights, Real) else weights
    found = check_array(found, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    shape = (samples,)
    require(found.shape == shape, "sample_weight", f"of shape {shape}", "one for each sample", found.shape)
    require(found.min() >= 0.0, "sample_weight", "0 or more", "2 is worth two equal samples", float(found.min()))
    require(found.any(), "sample_weight", "above zero for some samples", "a sample of weight zero teaches nothing", 0.0)
    return found


def _whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, Integral) and int(number) >= 1
