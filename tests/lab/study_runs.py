"""Data, runs and comparisons that the tests of the study's engines share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from unittest import mock

import numpy as np
import torch
from torch import nn

from gradline.lab.engines.lockstep import Lockstep
from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS, Network

NUMBERS = ("step", "slope", "norm")
TIMES = ("seconds", "cpu_seconds")
MEASURED = ("train_loss", "train_error", "test_loss", "test_error", "angle")


@dataclass(frozen=True, eq=False)
class Arrays:
    train_inputs: np.ndarray
    train_targets: np.ndarray
    test_inputs: np.ndarray
    test_targets: np.ndarray


@cache
def blobs(samples=120, tested=30, inputs=7, classes=2, dtype=np.float64):
    """Overlapping Gaussian blobs, one for each class, Z-scored."""
    random = np.random.default_rng(5)
    labels = random.integers(classes, size=samples + tested)
    centres = random.standard_normal((classes, inputs))
    points = centres[labels] + random.standard_normal((samples + tested, inputs))
    points = ((points - points.mean(axis=0)) / points.std(axis=0)).astype(dtype)
    targets = np.eye(classes, dtype=dtype)[labels]
    return Arrays(points[:samples], targets[:samples], points[samples:], targets[samples:])


def run(problem="bcwd-netpi", method="gols-i", *, batch_size=20, seed=0, budget=60, **options):
    """A run; `problem` and `method` are names, and options of the problem go in `problem_options`."""
    chosen = replace(PROBLEMS[problem], **options.pop("problem_options", {}))
    search = METHODS[method] if isinstance(method, str) else method
    return Run(problem=chosen, method=search, batch_size=batch_size, seed=seed, budget=budget, **options)


def finish(engine):
    """Run an engine to its end; results by key."""
    results = {result.run.key: result for result in engine.finished()}
    while engine.active:
        engine.advance()
        results |= {result.run.key: result for result in engine.finished()}
    return results


def begin(kind, runs, data=None, state=None):
    """An engine of some runs, or of the only one."""
    if kind is Lockstep:
        return Lockstep(runs, data or blobs(), state=state)
    with trained_on(data or blobs()):
        return Ordinary(runs[0], state=state)


def trained_on(data):
    """Context manager in which networks have these data, whatever their problems say."""
    return mock.patch.object(Network, "load", return_value=data)


def lockstep(runs, data=None):
    return finish(Lockstep(runs, data or blobs()))


def ordinary(runs, data=None):
    return {one.key: finish(begin(Ordinary, [one], data))[one.key] for one in runs}


def same_so_far(left, right, *, iterations, tolerance=1e-7):
    """Whether two results take the same steps for so many iterations (or all there are), up to rounding."""
    one, other = left.columns, right.columns
    length = min(len(left), len(right), iterations + 1)
    assert min(len(left), len(right)) >= length > 1
    part = slice(0, length)
    for name in ("iteration", "evaluations", "probes", "stop"):
        np.testing.assert_array_equal(one[name][part], other[name][part], err_msg=f"{left.run.key}: {name}")
    for name in (*NUMBERS, *MEASURED):
        np.testing.assert_allclose(
            one[name][part], other[name][part], rtol=tolerance, atol=1e-12, err_msg=f"{left.run.key}: {name}"
        )


def identical(left, right):
    """Whether two results are the same, bit for bit, but for the time they took."""
    assert left.run == right.run
    for name, column in left.columns.items():
        if name in TIMES:
            continue
        np.testing.assert_array_equal(column, right.columns[name], err_msg=f"{left.run.key}: {name}")


def tiny_model(generator):
    """A network that lock-step does not know: with a residual connection and ReLUs."""

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(7, 7), nn.Linear(7, 2)
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter.copy_(torch.randn(parameter.shape, generator=generator))

        def forward(self, x):
            return self.outer(x + torch.relu(self.inner(x)))

    return Residual()
