"""A physics-informed net: -u'' = f on (0, 1) with u = 0 at both ends, by the residual at random points."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.problems.supervised import Part, Split, build_task, seeded
from gradline.lab.problems.task import Measured, Task

POINTS = 512
WIDTH = 32
FAST = 4
"""Number of half-waves of the fast part of the solution."""


class Solution(nn.Module):
    """A net that is zero at both ends whatever its weights."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        self.net = nn.Sequential(*layers).double()

    def forward(self, x: Tensor) -> Tensor:
        """Return u at points (N, 1)."""
        values: Tensor = x * (1.0 - x) * self.net(x)
        return values


def exact(x: Tensor) -> Tensor:
    """Return the solution u at points."""
    return torch.sin(math.pi * x) + 0.5 * torch.sin(FAST * math.pi * x)


def source(x: Tensor) -> Tensor:
    """Return the right-hand side f at points."""
    slow = math.pi**2 * torch.sin(math.pi * x)
    return slow + 0.5 * (FAST * math.pi) ** 2 * torch.sin(FAST * math.pi * x)


def residuals(model: nn.Module, x: Tensor) -> Tensor:
    """Return the residuals -u'' - f at points, in units of the root mean square of f."""
    scale = math.sqrt((math.pi**4 + 0.25 * (FAST * math.pi) ** 4) / 2)
    with torch.enable_grad():  # u'' needs it, also where no gradient of the loss is wanted
        places = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(model(places).sum(), places, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), places, create_graph=True)
        return (bend + source(x)).squeeze(1) / scale


def build(seed: int) -> Task:
    """Build the task."""
    points = torch.from_numpy(np.random.default_rng(2).random((POINTS, 1)))
    between = torch.linspace(0.0, 1.0, 201, dtype=torch.float64)[:, None]

    def losses(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        values = residuals(model, points[chosen]).square()
        return values if torch.is_grad_enabled() else values.detach()

    def measure(model: nn.Module) -> Measured:
        loss = float(residuals(model, points).detach().square().mean())
        wrong = float((model(between) - exact(between)).norm() / exact(between).norm())
        return Measured(loss, math.nan, math.nan, wrong)

    return Task(seeded(seed, Solution), POINTS, losses, measure)


def build_split(seed: int) -> Task:
    """Build the task with residuals at 512 points for training, at 256 others for validation, at 201 more for testing.

    The error is that of u in units of its root mean square, as a square.
    """
    generator = np.random.default_rng(2)
    train, validation = (torch.from_numpy(generator.random((count, 1))) for count in (POINTS, POINTS // 2))
    test = torch.linspace(0.0, 1.0, 201, dtype=torch.float64)[:, None]

    def call(model: nn.Module, points: Tensor) -> Tensor:
        found = torch.stack([residuals(model, points), model(points).squeeze(1)], dim=1)
        return found if torch.is_grad_enabled() else found.detach()

    def losses(found: Tensor, wanted: Tensor) -> Tensor:
        return found[:, 0].square()

    def errors(found: Tensor, wanted: Tensor) -> Tensor:
        return (found[:, 1] - wanted.squeeze(1)).square() / ((1.0 + 0.25) / 2)

    parts = Split(*(Part(points, exact(points)) for points in (train, validation, test)))
    return build_task(seed, Solution, parts, losses, errors, call=call)
