"""Checks of the estimators' parameters, made in `fit` as usual in scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array
from torch.optim import Optimizer

from gradline.searches import search_classes
from gradline.sklearn.network import ACTIVATIONS


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise an error for invalid parameters of an estimator."""
    layer_sizes(parameters["hidden_layer_sizes"])
    activation = parameters["activation"]
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        known = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"activation must be one of {known} (the functions of hidden units), got {activation!r}")
    _require_search(parameters["search"])
    size = parameters["batch_size"]
    if size != "auto" and not _whole(size):
        raise ValueError(f"batch_size must be 'auto' or a whole number from 1 on (samples in a batch), got {size!r}")
    _require_whole("max_iter", parameters["max_iter"], "passes through the data")
    if parameters["n_iter_no_change"] != math.inf:
        _require_whole("n_iter_no_change", parameters["n_iter_no_change"], "passes to wait for a better one")
    _require_real("alpha", parameters["alpha"], math.inf, "it weighs the squares of the weights in the loss")
    _require_real("tol", parameters["tol"], math.inf, "it is what counts as an improvement")
    _require_real("validation_fraction", parameters["validation_fraction"], 1.0, "this part of the data is held back")


def _require_search(search: Any) -> None:
    """Raise an error for anything but `None` and a search, with what to write instead."""
    if search is None or (callable(getattr(search, "search", None)) and not isinstance(search, type | Optimizer)):
        return
    kind = search if isinstance(search, type) else type(search)
    name = (search if isinstance(search, str) else kind.__name__).replace("-", "").lower()
    meant = {known.lower(): known for known in search_classes()}.get(name)
    if meant == "Angle":
        advice = "Angle is the default: leave search out, or write search=gradline.searches.Angle(...) for its settings"
    elif meant:
        advice = f"write search=gradline.searches.{meant}()"
    elif issubclass(kind, Optimizer):
        advice = f"for this optimizer's updates with the steps of a search, write direction={kind.__name__}"
    else:
        advice = "write search=gradline.searches.GolsI() for example"
    raise TypeError(
        f"search must be None or an instance of a search (the estimator builds the optimizer itself): {advice}, got "
        f"{search!r}"
    )


def layer_sizes(sizes: Any) -> list[int]:
    """Return the sizes of the hidden layers as a list; a single number means one layer."""
    found = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    if not all(map(_whole, found)):
        raise ValueError(
            f"hidden_layer_sizes must be whole numbers from 1 on (the units of each hidden layer), got {sizes!r}"
        )
    return [int(size) for size in found]


def sample_weights(weights: Any, samples: int) -> Any:
    """Return an array of sample weights; a single number is the weight of all samples."""
    found = np.full(samples, float(weights)) if isinstance(weights, Real) else weights
    found = check_array(found, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if found.shape != (samples,):
        raise ValueError(f"sample_weight must be of shape ({samples},) (one for each sample), got {found.shape}")
    if found.min() < 0.0:
        raise ValueError(f"sample_weight must be 0 or more (2 is worth two equal samples), got {found.min()}")
    if not found.any():
        raise ValueError("sample_weight must be above 0 for some samples (it is what is learned from), got only zeros")
    return found


def _whole(number: Any) -> bool:
    return not isinstance(number, bool) and isinstance(number, Integral) and int(number) >= 1


def _require_whole(name: str, number: Any, reason: str) -> None:
    if not _whole(number):
        raise ValueError(f"{name} must be a whole number from 1 on ({reason}), got {number!r}")


def _require_real(name: str, number: Any, below: float, reason: str) -> None:
    if isinstance(number, bool) or not isinstance(number, Real) or not 0.0 <= float(number) < below:
        rule = "0 or more and finite" if below == math.inf else f"0 or more and below {below:g}"
        raise ValueError(f"{name} must be {rule} ({reason}), got {number!r}")
