"""`LineSearchClassifier`, for binary, multiclass and multilabel targets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import column_or_1d
from torch import Tensor
from torch.nn import functional

from gradline.sklearn.estimator import LineSearchEstimator


class LineSearchClassifier(ClassifierMixin, LineSearchEstimator):  # type: ignore[misc]
    """Multi-layer perceptron for classification, trained without a learning rate.

    ```python
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from gradline.sklearn import LineSearchClassifier

    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LineSearchClassifier(random_state=0))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.95
    ```

    It minimises the log-loss: softmax for three or more classes, logistic for two and for multilabel targets. Labels
    may have any type. Features are not scaled: use a `StandardScaler` before it.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; `()` gives logistic regression.
        activation: activation of the hidden units: `"identity"`, `"logistic"`, `"tanh"` or `"relu"`.
        search: `None`: [`gradline.Angle`][gradline.Angle], Schedule-Free AdamW that finds its learning rate, one
            gradient evaluation per step; the weights are its average. `gradline.searches.Angle(...)` is the same with
            other settings. Any other of `gradline.searches` trains with that line search. Searches on values (`Armijo`,
            ...) use one mini-batch per search, all others a new one per evaluation.
        direction: a torch optimizer class, or a `functools.partial` of it, whose update is the direction. `None`:
            steepest descent; Angle needs none. Angle along a direction is without Schedule-Free and its average.
        alpha: strength of the L2 penalty, alpha / 2 times the sum of squared weights, divided by the number of training
            samples.
        batch_size: samples per mini-batch. `"auto"`: equal parts of at most 200 samples; with Angle, at least eight
            parts, so that a pass has some steps, unless there are at most 64 samples.
        max_iter: largest number of passes. A pass is as many evaluations as there are mini-batches, and continues to
            the end of a search. Angle has one, of 12 to 20 evaluations, before its first step.
        random_state: an integer makes training reproducible. The global generators of numpy and torch are not used,
            except numpy's to draw a seed if `None`.
        tol: training ends when more than `n_iter_no_change` passes in a row have not improved the lowest training loss
            (or the best validation score) by `tol`. The best weights are kept.
        verbose: print the loss of each pass.
        warm_start: continue from the last `fit`, with the optimizer state of the weights that were kept, instead of
            starting again.
        early_stopping: hold out a part of the data, and use the accuracy on it instead of the training loss.
        validation_fraction: fraction of the data that is held out.
        n_iter_no_change: see `tol`.
        device: device of the training, for example `"cuda"`. Predictions are made on the CPU.

    Attributes:
        classes_: the class labels.
        coefs_: the weights of each layer, inputs × outputs.
        intercepts_: the biases of each layer.
        loss_curve_: the loss of all training samples after each pass.
        best_loss_: the lowest loss in the last `fit`.
        steps_: the size of each step; with Angle, the learning rate it found.
        n_iter_: number of passes in the last `fit`.
        n_evaluations_: number of gradient evaluations.
        validation_scores_: the accuracy after each pass with early stopping, else `None`.
        best_validation_score_: the best accuracy in the last `fit`, only with early stopping.
        n_outputs_: number of outputs of the network.
        n_layers_: number of layers, including input and output.
        n_features_in_: number of features of `X`.
        feature_names_in_: names of the features, if `X` has any.
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Self:
        """Continue training with one pass over these samples.

        Args:
            X: samples × features.
            y: the classes.
            sample_weight: as in `fit`.
            classes: all classes of all calls; required in the first call unless `y` is multilabel.
        """
        if not hasattr(self, "coefs_"):
            if type_of_target(y, input_name="y").startswith("multilabel"):
                classes = y
            elif classes is None:
                raise ValueError("classes must be given in the first call of partial_fit (y may lack some), got None")
            self._binarizer = LabelBinarizer().fit(classes)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"classes must be those of the first call, {self.classes_!r}, got {classes!r}")
        return self._fit(X, y, sample_weight, incremental=True)

    def decision_function(self, X: Any) -> Any:
        """Return the outputs of the network: log-odds (binary, multilabel) or logits (multiclass).

        Returns:
            One number per sample for a binary problem, else one row per sample.
        """
        outputs = self._outputs(X)
        return outputs.ravel() if self.n_outputs_ == 1 else outputs

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each sample; for multilabel targets, labels of probability above 1/2."""
        outputs = self.decision_function(X)
        return self._binarizer.inverse_transform(outputs, threshold=0.0)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class (or label), in the order of `classes_`."""
        outputs = self._outputs(X)
        if self._multiclass:
            return softmax(outputs, axis=1)
        return expit(self._both(outputs))

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`, accurate for probabilities near 0 and 1."""
        outputs = self._outputs(X)
        if self._multiclass:
            return log_softmax(outputs, axis=1)
        return log_expit(self._both(outputs))

    @property
    def _multiclass(self) -> bool:
        return bool(self._binarizer.y_type_ == "multiclass")

    def _both(self, outputs: Any) -> Any:
        """Return the log-odds of each class, also if the network has one output for two classes."""
        if self.n_outputs_ > 1 or self._binarizer.y_type_ != "binary":
            return outputs
        if len(self.classes_) == 1:
            return np.full_like(outputs, np.inf)
        return np.hstack([-outputs, outputs])

    def _encode(self, y: Any, weights: Any, *, fresh: bool, incremental: bool) -> Any:
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if fresh and not incremental:
            self._binarizer = LabelBinarizer().fit(y)
        if fresh:
            self.classes_ = self._binarizer.classes_
        self._check_known(y, every=self.warm_start and not incremental)
        rows = self._binarizer.transform(y)
        self.n_outputs_ = rows.shape[1]
        return rows.argmax(axis=1) if self._multiclass else rows.astype(np.float32)

    def _check_known(self, y: Any, *, every: bool) -> None:
        found = unique_labels(y)
        unknown = np.setdiff1d(found, self.classes_)
        if len(unknown):
            raise ValueError(f"y must have classes of classes_, {self.classes_!r}, only, got {unknown!r} too")
        if every and len(found) != len(self.classes_):
            raise ValueError(f"y must have the same classes as before for warm_start, {self.classes_!r}, got {found!r}")

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self._multiclass:
            return functional.cross_entropy(outputs, targets, reduction="none")
        return functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(dim=1)

    def _quality(self, outputs: Any, targets: Any, weights: Any) -> float:
        if self._multiclass:
            right = outputs.argmax(axis=1) == targets
        else:
            right = ((outputs > 0.0) == (targets > 0.0)).all(axis=1)
        return float(np.average(right, weights=weights))

    def _strata(self, targets: Any) -> Any:
        """Return the classes if each has enough samples for both parts, else `None`."""
        if not self._multiclass and targets.shape[1] > 1:
            return None
        strata = targets if self._multiclass else targets.ravel()
        _, counts = np.unique(strata, return_counts=True)
        held = int(np.ceil(self.validation_fraction * len(strata)))
        return strata if counts.min() > 1 and held >= len(counts) else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
