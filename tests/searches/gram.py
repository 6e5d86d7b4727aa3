"""The surrogate the plain way: one Gram matrix of all values and slopes, and a solve.

It knows nothing of filters or cells, and is exact when it is given fractions.
"""

from __future__ import annotations

import numpy as np


def kernel(a, b, tau):
    """Covariances of (f, f')(a) with (f, f')(b) of the once-integrated Wiener process with offset τ."""
    x, y = a + tau, b + tau
    m = min(x, y)
    value = m**3 / 3 + abs(x - y) * m**2 / 2
    slope_at_b = x**2 / 2 if a < b else x * y - y**2 / 2
    slope_at_a = y**2 / 2 if a > b else x * y - x**2 / 2
    return np.array([[value, slope_at_b], [slope_at_a, m]])


class Gram:
    """Posterior of observations (point, value, slope)."""

    def __init__(self, seen, value_var, slope_var, tau):
        self.tau = tau
        self.points = [point for point, _, _ in seen]
        self.y = np.array([number for _, value, slope in seen for number in (value, slope)])
        gram = self.rows(self.points)
        for index in range(len(seen)):
            gram[2 * index, 2 * index] += value_var
            gram[2 * index + 1, 2 * index + 1] += slope_var
        self.inverse = inverse(gram)
        if gram.dtype != object:
            # How far off the result may be: a difference of numbers of the prior's size, through the inverse.
            self.rounding = 1e-15 * np.linalg.cond(gram) * max(map(abs, [*self.y, *gram.diagonal()]))

    def rows(self, points):
        return np.concatenate(
            [np.concatenate([kernel(a, b, self.tau) for b in self.points], axis=1) for a in points], axis=0
        )

    def mean(self, a):
        """m(a) and m'(a)."""
        return self.rows([a]) @ (self.inverse @ self.y)

    def covariance(self, a, b):
        """V of (f, f')(a) with (f, f')(b)."""
        return kernel(a, b, self.tau) - self.rows([a]) @ (self.inverse @ self.rows([b]).T)


def inverse(matrix):
    """By elimination, whatever the numbers are."""
    if matrix.dtype != object:
        return np.linalg.inv(matrix)
    n = len(matrix)
    both = np.concatenate(
        [matrix, np.array([[type(matrix[0, 0])(i == j) for j in range(n)] for i in range(n)])], axis=1
    )
    for i in range(n):
        both[i] = both[i] / both[i, i]
        for j in range(n):
            if j != i:
                both[j] = both[j] - both[j, i] * both[i]
    return both[:, n:]
