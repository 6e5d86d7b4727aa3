"""A tiny problem, and methods and records made by hand, that the tests of the benchmark share."""

from __future__ import annotations

import torch
from torch import nn

from gradline.lab.bench.objective import Objective, Task
from gradline.lab.bench.runs import Point, Record, Run, Status
from gradline.lab.problems.bench.problem import Problem, Size


def build(seed):
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 3, generator=source)
    targets = inputs.sum(dim=1) + 0.1 * torch.randn(40, generator=source)
    model = nn.Linear(3, 1)
    with torch.no_grad():
        for part in model.parameters():
            part.copy_(torch.randn(part.shape, generator=torch.Generator().manual_seed(seed)))

    def losses(model, chosen):
        return (model(inputs[chosen]).squeeze(1) - targets[chosen]).square()

    def measure(model):
        return float(losses(model, torch.arange(30)).mean()), float(losses(model, torch.arange(30, 40)).mean())

    return Task(model, 30, losses, measure)


TINY = Problem("tiny", "a line", (Size(5, 40, 0.1),), build, held_out=False, error="test loss", points=10)


def objective(batch_size=5, seed=0):
    return Objective(build(seed), batch_size, seed)


def run(method="sgd-0.1", seed=0, budget=40, problem="tiny", batch_size=5):
    return Run(problem=problem, batch_size=batch_size, method=method, seed=seed, budget=budget)


def record(method, losses, *, seed=0, status=Status.DONE, problem="tiny", thirds=None, seconds=None, reason=""):
    """A record whose n-th loss was measured after n evaluations, steps and seconds."""
    thirds = [3 * place for place in range(len(losses))] if thirds is None else thirds
    points = tuple(
        Point(
            thirds=third,
            steps=place,
            seconds=(seconds or 1.0) * place,
            processor=(seconds or 1.0) * place,
            train_loss=loss,
            test_error=2 * loss,
        )
        for place, (third, loss) in enumerate(zip(thirds, losses, strict=True))
    )
    return Record(
        run=run(method, seed, budget=10, problem=problem),
        status=status,
        reason=reason,
        points=points,
        forwards=len(losses),
        backwards=len(losses),
        versions={"torch": "2"},
    )
