"""The paper's problems on the breast-cancer data, built by `gradline.lab`."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.bench.objective import Task
from gradline.lab.problems import data
from gradline.lab.problems import network as problems
from gradline.lab.problems.bench.problem import Problem, Size
from gradline.lab.problems.modules import criterion, largest, network


@cache
def _data_set(name: str) -> tuple[data.DataSet, tuple[Tensor, ...]]:
    found = data.load(name, progress=False)
    arrays = (found.train_inputs, found.train_targets, found.test_inputs, found.test_targets)
    return found, tuple(torch.from_numpy(np.asarray(array)) for array in arrays)


def _build(name: str, seed: int) -> Task:
    problem = problems.PROBLEMS[name]
    found, (inputs, targets, test_inputs, test_targets) = _data_set(problem.data)
    loss = criterion(problem)

    def losses(model: nn.Module, chosen: Tensor) -> Tensor:
        return loss(model(inputs[chosen]), targets[chosen])

    def measure(model: nn.Module) -> tuple[float, float]:
        wrong = largest(model(test_inputs), 1) != largest(test_targets, 1)
        return float(loss(model(inputs), targets).mean()), float(wrong.double().mean())

    return Task(network(problem, found, seed=seed), len(inputs), losses, measure)


PROBLEMS = (
    Problem(
        "bcwd-logr",
        "logistic regression on the breast-cancer data (the paper's LogR)",
        (Size(10, 1200, 0.091), Size(50, 1200, 6e-3), Size(400, 1200, 3.2e-3)),
        partial(_build, "bcwd-logr"),
        held_out=False,
        error="test error",
    ),
    Problem(
        "bcwd-netpi",
        "one hidden layer of 32, cross-entropy, on the breast-cancer data (the paper's NetPI)",
        (Size(10, 1200, 0.03), Size(50, 1200, 4.7e-4), Size(400, 1200, 7.4e-5)),
        partial(_build, "bcwd-netpi"),
        held_out=False,
        error="test error",
    ),
    Problem(
        "bcwd-netpii",
        "one hidden layer of 32, squared error, on the breast-cancer data (the paper's NetPII)",
        (Size(10, 1200, 0.41), Size(50, 1200, 1e-3), Size(400, 1200, 6.5e-4)),
        partial(_build, "bcwd-netpii"),
        held_out=True,
        error="test error",
    ),
)
