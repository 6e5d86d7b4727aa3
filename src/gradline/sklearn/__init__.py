"""Multi-layer perceptrons for scikit-learn without a learning rate. Needs torch and scikit-learn 1.6 or newer.

[`LineSearchClassifier`][gradline.sklearn.LineSearchClassifier] and
[`LineSearchRegressor`][gradline.sklearn.LineSearchRegressor] replace scikit-learn's `MLPClassifier` and `MLPRegressor`.
They are trained by [`gradline.Angle`][gradline.Angle] or by any line search of gradline, and can be used like any
estimator, for example in a `Pipeline`, in `GridSearchCV` and with `cross_val_score`.

```python
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from gradline.sklearn import LineSearchClassifier

X, y = load_iris(return_X_y=True)
model = make_pipeline(StandardScaler(), LineSearchClassifier(random_state=0)).fit(X, y)
assert model.score(X, y) > 0.95
```
"""

from __future__ import annotations

from gradline.installing import needs

with needs("gradline.sklearn", "sklearn"):
    import gradline.torch  # noqa: F401 - first, so that a missing torch is reported first
    from gradline.sklearn.classifier import LineSearchClassifier
    from gradline.sklearn.regressor import LineSearchRegressor

__all__ = ["LineSearchClassifier", "LineSearchRegressor"]
