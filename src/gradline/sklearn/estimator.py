"""Common base of classifier and regressor: parameters, training and fitted attributes."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.optim import Optimizer

from gradline.searches import Angle
from gradline.searches.arguments import require
from gradline.sklearn.training import ACTIVATIONS, Samples, Training, Weights

BATCH = 200
"""Largest batch size of `batch_size="auto"`."""
PARTS, WHOLE = 8, 64
"""Smallest number of mini-batches in a pass with Angle, where each is one step, and the most samples not divided."""


class LineSearchEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of perceptrons without a learning rate; subclasses define targets and losses."""

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        search: Any = None,
        direction: Any = None,
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: float = 10,
        device: Any = "cpu",
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.search = search
        self.direction = direction
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device

    @abstractmethod
    def _encode(self, y: Any, weights: Any, *, fresh: bool, incremental: bool) -> Any:
        """Return the network's targets, one row (or number) per sample; set the attributes of the encoding."""

    @abstractmethod
    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the per-sample losses."""

    @abstractmethod
    def _quality(self, outputs: Any, targets: Any, weights: Any) -> float:
        """Return the validation score; higher is better."""

    @abstractmethod
    def _strata(self, targets: Any) -> Any:
        """Return the strata of the split for early stopping, or `None`."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network.

        Args:
            X: samples × features, dense or sparse. Scale the features first, with a `StandardScaler` for example.
            y: the targets.
            sample_weight: the weight of each sample in the loss. A weight of 2 is equivalent to two equal samples.
        """
        return self._fit(X, y, sample_weight, incremental=False)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, incremental: bool) -> Self:
        _check_parameters(self.get_params(deep=False))
        if incremental and self.early_stopping:
            raise ValueError("early_stopping must be False for partial_fit (each call is one pass), got True")
        fresh = not hasattr(self, "coefs_") or not (incremental or self.warm_start)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", multi_output=True, dtype=(np.float64, np.float32), reset=fresh
        )
        weights = None
        if sample_weight is not None:
            weights = _sample_weights(sample_weight, X.shape[0])
            X, y, weights = X[weights > 0.0], y[weights > 0.0], weights[weights > 0.0]
        targets = self._encode(y, weights, fresh=fresh, incremental=incremental)
        sizes = [X.shape[1], *_layer_sizes(self.hidden_layer_sizes), self.n_outputs_]
        if fresh:
            self._begin(sizes, X.dtype)
        elif [coef.shape for coef in self.coefs_] != list(itertools.pairwise(sizes)):
            raise ValueError(
                f"hidden_layer_sizes must be those of the last fit (training goes on from its weights), got "
                f"{self.hidden_layer_sizes!r}"
            )
        self._learn(*self._split(X, targets, weights), incremental=incremental)
        return self

    def _begin(self, sizes: list[int], dtype: Any) -> None:
        """Reset all fitted attributes and draw new weights."""
        self._generator = check_random_state(self.random_state)
        self.coefs_, self.intercepts_ = Weights.random(sizes, self.activation, self._generator, dtype)
        self.n_layers_ = len(sizes)
        self.loss_curve_: list[float] = []
        self.steps_: list[float] = []
        self.n_evaluations_ = 0
        self.validation_scores_: list[float] | None = None
        self._optimizer_state: tuple[Any, Any] | None = None

    def _split(self, X: Any, targets: Any, weights: Any) -> tuple[Any, Any]:
        """Return training samples, and validation samples if there is early stopping."""
        if not self.early_stopping:
            return (X, targets, weights), None
        learn, judge = train_test_split(
            np.arange(X.shape[0]),
            test_size=self.validation_fraction,
            random_state=self._generator,
            stratify=self._strata(targets),
        )
        rule, reason = "a part of at least 2 samples", f"there are {X.shape[0]} samples"
        require(len(judge) >= 2, "validation_fraction", rule, reason, self.validation_fraction)
        parts = [(X[part], targets[part], None if weights is None else weights[part]) for part in (learn, judge)]
        return parts[0], parts[1]

    def _learn(self, learned: Any, judged: Any, *, incremental: bool) -> None:
        """Train pass by pass until there is no improvement, `max_iter`, or Ctrl-C."""
        X, targets, weights = learned
        training = self._training(X, targets, weights)
        self._resume(training, incremental=incremental)
        scores: list[float] = []
        lowest, waited = math.inf, 0  # the lowest loss, and the number of passes in a row that did not improve it
        best: tuple[Weights, dict[str, Any]] | None = None  # what to keep, and the state from which training goes on
        self.n_iter_ = 0
        self.best_loss_ = math.inf
        passes = 1 if incremental else self.max_iter
        try:
            while self.n_iter_ < passes and waited <= self.n_iter_no_change:
                training.go()
                with training.optimizer.eval():
                    seen = loss = training.loss()
                    reason = "the loss must be finite: scale it, with a StandardScaler for example"
                    require(math.isfinite(loss), "X", "of moderate size", reason, loss)
                    self.n_iter_ += 1
                    self.loss_curve_.append(loss)
                    self.best_loss_ = min(self.best_loss_, loss)
                    step = training.steps[-1] if training.steps else 0.0
                    self._say(f"Iteration {self.n_iter_}, loss = {loss:.8f}, step = {step:.3g}")
                    if judged is not None:
                        scores.append(self._judge(training.network, *judged))
                        seen = -scores[-1]
                    waited = 0 if seen <= lowest - self.tol else waited + 1  # NaN does not improve
                    if seen < lowest:
                        lowest, best = seen, (Weights.of(training.network), training.state())
        except KeyboardInterrupt:
            warnings.warn("Training interrupted by user.", stacklevel=4)
        self.steps_ += training.steps
        self.n_evaluations_ += training.evaluations
        if best is None or incremental:
            with training.optimizer.eval():
                best = Weights.of(training.network), training.state()
        (self.coefs_, self.intercepts_), state = best
        self._optimizer_state = (self._method(), state)
        if judged is not None:
            self.validation_scores_ = (self.validation_scores_ or []) + scores
            self.best_validation_score_ = -lowest
        self._tell_end(ended=waited > self.n_iter_no_change, incremental=incremental)

    def _training(self, X: Any, targets: Any, weights: Any) -> Training:
        samples, size = X.shape[0], self.batch_size
        search, direction = self._method()
        if size == "auto":
            least = PARTS if isinstance(search, Angle) and samples > WHOLE else 1
            size = samples // max(math.ceil(samples / BATCH), least)
        elif size > samples:
            warnings.warn(
                f"batch_size is larger than the number of samples: {samples} is used instead of {size}", stacklevel=5
            )
            size = samples
        network = Weights(self.coefs_, self.intercepts_).network(self.activation, self.device)
        return Training(
            network,
            self._samples(X, targets, weights),
            self._losses,
            search,
            direction=direction,
            decay=self.alpha / (samples if weights is None else float(weights.sum())),
            batch_size=int(size),
            seed=int(self._generator.randint(np.iinfo(np.int32).max)),
        )

    def _samples(self, X: Any, targets: Any, weights: Any) -> Samples:
        dtype = self.coefs_[0].dtype
        inputs = X.astype(dtype, copy=False)
        if isinstance(inputs, np.ndarray):
            inputs = torch.tensor(inputs, device=self.device)
        if np.issubdtype(targets.dtype, np.floating):
            targets = targets.astype(dtype)
        if weights is not None:
            weights = torch.tensor((weights / weights.mean()).astype(dtype), device=self.device)
        return Samples(inputs, torch.tensor(targets, device=self.device), weights)

    def _method(self) -> tuple[Any, Any]:
        return Angle() if self.search is None else self.search, self.direction

    def _resume(self, training: Training, *, incremental: bool) -> None:
        """Restore the optimizer state of the last fit if search and direction are the same."""
        if self._optimizer_state is not None:
            method, state = self._optimizer_state
            if method == self._method():
                training.optimizer.load_state_dict(copy.deepcopy(state))  # the optimizer may change it in place
                training.optimizer.train()
                if not incremental:
                    training.optimizer.refresh()  # there may be other samples: begin with a new gradient

    def _judge(self, network: nn.Module, X: Any, targets: Any, weights: Any) -> float:
        outputs = Weights.of(network).outputs(X, self.activation)
        score = self._quality(outputs, targets, weights)
        self._say(f"Validation score: {score:f}")
        return score

    def _tell_end(self, *, ended: bool, incremental: bool) -> None:
        if ended:
            what = "Validation score" if self.early_stopping else "Training loss"
            self._say(f"{what} did not improve by {self.tol:g} in {self.n_iter_no_change} passes in a row. Stopping.")
        elif self.n_iter_ == self.max_iter and not incremental:
            warnings.warn(
                f"Maximum iterations ({self.max_iter}) reached and the training hasn't converged yet.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _say(self, words: str) -> None:
        if self.verbose:
            print(words)

    def _outputs(self, X: Any) -> Any:
        """Return the values of the last layer, one row per sample."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return Weights(self.coefs_, self.intercepts_).outputs(X, self.activation)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_parameters(parameters: dict[str, Any]) -> None:
    """Raise an error for invalid parameters of an estimator."""
    _layer_sizes(parameters["hidden_layer_sizes"])
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


def _layer_sizes(sizes: Any) -> list[int]:
    """Return the sizes of the hidden layers as a list; a single number means one layer."""
    found = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    rule, reason = "whole numbers from 1 on", "the units of each hidden layer"
    require(all(map(_whole, found)), "hidden_layer_sizes", rule, reason, sizes)
    return [int(size) for size in found]


def _sample_weights(weights: Any, samples: int) -> Any:
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
