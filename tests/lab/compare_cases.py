"""A tiny problem, and methods and trajectories made by hand, that the tests of comparisons share."""

from __future__ import annotations

import torch
from torch import nn

from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.findings.trajectory import Point, Trajectory, trajectory
from gradline.lab.jobs.result import Status
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.methods.objective import Objective
from gradline.lab.problems import Built
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.problems.task import Measured, Task

NAN = float("nan")


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
        test = float(losses(model, torch.arange(30, 40)).mean())
        return Measured(float(losses(model, torch.arange(30)).mean()), NAN, test, NAN)

    return Task(model, 30, losses, measure)


TINY = Built(name="tiny", builder="lab.compare_cases:build", about="a line", error="test loss", batch_sizes=(5,))


def batches(samples=30, size=5, seed=0):
    return Batches(seed=seed, purpose=Purpose.PROBES, samples=samples, size=size)


def objective(batch_size=5, seed=0):
    return Objective(build(seed), batches(size=batch_size, seed=seed))


def run(method="sgd-0.1", seed=0, budget=40, problem=TINY, batch_size=5, record_every=4, **others):
    chosen = METHODS[method] if isinstance(method, str) else method
    options = {"benchmark": True, "diagonal": False, "record_every": record_every} | others
    return Run(problem=problem, batch_size=batch_size, method=chosen, seed=seed, budget=budget, **options)


def finished(*runs):
    made = []
    for one in runs:
        engine = Ordinary(one)
        while engine.active:
            engine.advance()
        made += engine.finished()
    return made


def train(one):
    """The trajectory of a run."""
    (result,) = finished(one)
    return trajectory(result)


def record(method, losses, *, seed=0, status=Status.DONE, problem="tiny", thirds=None, seconds=None, reason=""):
    """A trajectory whose n-th loss was measured after n evaluations, steps and seconds."""
    thirds = [3 * place for place in range(len(losses))] if thirds is None else thirds
    points = tuple(
        Point(
            evaluations=third / 3,
            steps=place,
            seconds=(seconds or 1.0) * place,
            cpu_seconds=(seconds or 1.0) * place,
            train_loss=loss,
            test_error=2 * loss,
        )
        for place, (third, loss) in enumerate(zip(thirds, losses, strict=True))
    )
    return Trajectory(
        problem=problem,
        revision=1,
        batch_size=5,
        method=method,
        seed=seed,
        budget=10,
        status=status,
        reason=reason,
        versions={"torch": "2"},
        points=points,
    )
