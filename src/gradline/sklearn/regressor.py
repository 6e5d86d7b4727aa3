"""`LineSearchRegressor`, for one target or many."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from torch import Tensor

from gradline.sklearn.estimator import LineSearchEstimator

__all__ = ["LineSearchRegressor"]


class LineSearchRegressor(RegressorMixin, LineSearchEstimator):  # type: ignore[misc]
    """A multi-layer perceptron for regression, trained without a learning rate.

    ```python
    from sklearn.datasets import load_diabetes
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from gradline.sklearn import LineSearchRegressor

    X, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), LineSearchRegressor(early_stopping=True, random_state=0)).fit(X, y)
    assert model.score(X, y) > 0.4
    ```

    It minimises half the mean squared error of *standardised* targets: each column of `y` less its mean and divided by
    its standard deviation, as they are in the first `fit` or `partial_fit`. Predictions are in the units of `y`. So
    targets may be on any scale, many targets count alike, and `alpha` and `tol` mean the same for all of them. The
    losses in `loss_curve_` are halves of parts of the targets' variance. Features are taken as they are: put a
    `StandardScaler` before it.

    The parameters are those of [`LineSearchClassifier`][gradline.sklearn.LineSearchClassifier]. With early stopping it
    watches R² instead of the accuracy.

    Attributes:
        target_mean_: the mean of each target.
        target_scale_: the standard deviation of each target, 1 where it is constant.
        coefs_: the weights of each layer, inputs × outputs; the outputs are standardised targets.
        intercepts_: the biases of each layer.
        loss_curve_: the loss of all training samples after each pass.
        best_loss_: the least of them in the last `fit`.
        steps_: the accepted step of each search.
        n_iter_: passes in the last `fit`.
        n_evaluations_: gradients of mini-batches computed.
        validation_scores_: R² after each pass, with early stopping; else `None`.
        best_validation_score_: the best of them in the last `fit`; only with early stopping.
        n_outputs_: outputs of the network.
        n_layers_: layers, inputs and outputs among them.
        n_features_in_: features of `X`.
        feature_names_in_: their names, if `X` had any.
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make one pass through these samples, on top of what was learned before.

        Args:
            X: samples × features.
            y: their targets. Those of the first call decide how targets are scaled.
            sample_weight: as in `fit`.
        """
        return self._fit(X, y, sample_weight, incremental=True)

    def predict(self, X: Any) -> Any:
        """The targets, in the shape and units of `y`."""
        outputs = self._outputs(X)
        targets = (outputs * self.target_scale_ + self.target_mean_).astype(outputs.dtype)
        return targets.ravel() if self._flat else targets

    def _encode(self, y: Any, weights: Any, *, fresh: bool, incremental: bool) -> Any:
        columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if fresh:
            self._flat = y.ndim == 1
            self.n_outputs_ = columns.shape[1]
            self.target_mean_ = np.average(columns, axis=0, weights=weights)
            self.target_scale_ = _deviation(columns, self.target_mean_, weights)
        elif columns.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y must have as many targets as before, {self.n_outputs_} (the network has an output for each), got "
                f"{columns.shape[1]}"
            )
        return (columns - self.target_mean_) / self.target_scale_

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return 0.5 * (outputs - targets).square().mean(dim=1)

    def _quality(self, outputs: Any, targets: Any, weights: Any) -> float:
        return float(r2_score(targets, outputs, sample_weight=weights))

    def _strata(self, targets: Any) -> Any:
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _deviation(columns: Any, mean: Any, weights: Any) -> Any:
    """The standard deviation of each column, however large or small its numbers; 1 where they are all the same."""
    centred = columns - mean
    size = np.abs(centred).max(axis=0)
    # The mean of equal numbers is theirs up to rounding, which is no scale to go by.
    constant = size <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    size = np.where(constant, 1.0, size)
    deviation = size * np.sqrt(np.average((centred / size) ** 2, axis=0, weights=weights))
    return np.where(constant, 1.0, deviation)
