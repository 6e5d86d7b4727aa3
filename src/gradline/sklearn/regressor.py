"""`LineSearchRegressor`, for one or several targets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from torch import Tensor

from gradline.sklearn.estimator import LineSearchEstimator


class LineSearchRegressor(RegressorMixin, LineSearchEstimator):  # type: ignore[misc]
    """Multi-layer perceptron for regression, trained without a learning rate.

    ```python
    from sklearn.datasets import load_diabetes
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from gradline.sklearn import LineSearchRegressor

    X, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), LineSearchRegressor(early_stopping=True, random_state=0)).fit(X, y)
    assert model.score(X, y) > 0.4
    ```

    It minimises half the mean squared error of *standardised* targets: each column of `y` minus its mean, divided by
    its standard deviation, both from the first `fit` or `partial_fit`. Targets may therefore be on any scale and have
    equal influence, and `alpha` and `tol` do not depend on it. Losses in `loss_curve_` are of standardised targets;
    predictions are in the units of `y`. Features are not scaled: use a `StandardScaler` before it.

    The parameters are those of [`LineSearchClassifier`][gradline.sklearn.LineSearchClassifier]. The validation score of
    early stopping is R² instead of the accuracy.

    The attributes are those of [`LineSearchClassifier`][gradline.sklearn.LineSearchClassifier] without `classes_`, with
    R² for accuracy, and:

    Attributes:
        target_mean_: the mean of each target.
        target_scale_: the standard deviation of each target, 1 if it is constant.
        coefs_: the weights of each layer, inputs × outputs; the outputs are standardised targets.
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Continue training with one pass over these samples.

        Args:
            X: samples × features.
            y: the targets. Those of the first call determine the standardisation.
            sample_weight: as in `fit`.
        """
        return self._fit(X, y, sample_weight, incremental=True)

    def predict(self, X: Any) -> Any:
        """Return the predicted targets, in the shape and units of `y`."""
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
    """Return the standard deviation of each column without overflow; 1 for constant columns."""
    centred = columns - mean
    size = np.abs(centred).max(axis=0)
    # The mean of equal numbers differs from them by rounding, which is not a deviation.
    constant = size <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    size = np.where(constant, 1.0, size)
    deviation = size * np.sqrt(np.average((centred / size) ** 2, axis=0, weights=weights))
    return np.where(constant, 1.0, deviation)
