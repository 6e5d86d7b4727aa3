"""scikit-learn's own checks of an estimator. A few passes are enough for them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gradline.sklearn import LineSearchClassifier, LineSearchRegressor


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([LineSearchClassifier(max_iter=5), LineSearchRegressor(max_iter=5)])
def test_the_estimator_passes_a_check_of_scikit_learn(estimator, check):
    check(estimator)
