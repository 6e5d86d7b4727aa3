"""Networks of the paper, trained to the end, with some of their training samples for validation."""

from __future__ import annotations

from typing import Any

import torch

from gradline.lab.problems.network import NETWORKS, Network
from gradline.lab.problems.networks import criterion, network, wrong_classes
from gradline.lab.problems.supervised import Part, build_task, split
from gradline.lab.problems.task import Task

MOST = 5000
"""Samples of validation and of testing, at most."""


def _build(name: str, train: int, seed: int) -> Task:
    problem: Network = next(one for one in NETWORKS if one.name == name)
    data, loss = problem.load(), criterion(problem)
    arrays: Any = (data.train_inputs, data.train_targets, data.test_inputs, data.test_targets)
    inputs, targets, *test = (torch.from_numpy(array) for array in arrays)
    parts = split(inputs, targets, train, len(inputs) - train)._replace(test=Part(*test).first(MOST))
    return build_task(seed, lambda: network(problem, data, seed=seed), parts, loss, wrong_classes)


def build_bcwd(seed: int) -> Task:
    """Build the task of NetPI on BCWD: 320 of the paper's 400 training samples, 80 for validation."""
    return _build("bcwd-netpi", 320, seed)


def build_mnist(seed: int) -> Task:
    """Build the task of NetI on MNIST: 45,000 of the paper's 50,000 training images, 5,000 for validation."""
    return _build("mnist-net1", 45_000, seed)
