"""Problems trained by PrLS, and models of several kinds for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from helpers import Problem
from torch import nn

import gradline
from gradline.protocol import Moments, Outcome, Stop

STEPS = 25


def prls(seed=0, model=None, direction=None, batch_size=20, **options):
    """A problem trained by PrLS."""
    problem = Problem(seed=seed, model=model, batch_size=batch_size)
    problem.optimizer = gradline.PrLS(problem.model.parameters(), direction=direction, **options)
    return problem


def trained(problem, steps=STEPS):
    """The records of some steps."""
    records = []
    for _ in range(steps):
        problem.optimizer.step(problem.losses)
        records.append(problem.optimizer.last)
    return records


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def convolution(inputs):
    return nn.Sequential(
        nn.Unflatten(1, (1, inputs)), nn.Conv1d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * (inputs - 2), 1)
    )


class Tied(nn.Module):
    """A graph that is not a chain of layers: a weight is used twice."""

    def __init__(self, inputs):
        super().__init__()
        self.inside = nn.Linear(inputs, inputs)
        self.out = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.inside(torch.tanh(self.inside(x)))))


class Mixing(nn.Module):
    """A graph without layers that could be recognised."""

    def __init__(self, inputs):
        super().__init__()
        self.norm = nn.LayerNorm(inputs)
        self.weight = nn.Parameter(torch.randn(inputs, 3))
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        return self.out(torch.einsum("bi,ij->bj", self.norm(x), self.weight).softmax(dim=1))


@dataclass(frozen=True)
class Hindsight:
    """Probes 0.1, 0.2, 0.3 and takes the first. Looks at variances everywhere."""

    observes: ClassVar = Moments

    def start(self):
        return None

    def candidates(self, transcript):
        return range(len(transcript))

    def search(self, origin, memory):
        for step in (0.1, 0.2, 0.3):
            _ = yield step
        return Outcome(0.1, 0, Stop.LOWEST_MEAN, None)
