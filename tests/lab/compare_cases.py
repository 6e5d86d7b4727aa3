"""A tiny problem, and methods and traces made by hand, that the tests of comparisons share."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.findings.comparison import Comparison
from gradline.lab.findings.traces import PACKED_POINTS, thin
from gradline.lab.jobs.result import COLUMNS, Result, Status
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS, Absent
from gradline.lab.methods.objective import Objective
from gradline.lab.problems import Built
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.problems.task import Measured, Task
from gradline.lab.studies import Setting

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
    """The trace of a run."""
    (result,) = finished(one)
    return thin(result, points=PACKED_POINTS)


def traced(run, *, status=Status.DONE, reason="", versions=None, **columns):
    """The trace of a run with these columns; what is not among them was not measured."""
    count = len(columns["evaluations"])
    table = dict.fromkeys(COLUMNS, np.full(count, NAN)) | {"iteration": np.arange(count), "stop": np.full(count, "")}
    table |= {name: np.array(values) for name, values in columns.items()}
    result = Result(run, 1.0, "ordinary", versions or {"torch": "2"}, status, reason, columns=table)
    return thin(result, points=PACKED_POINTS)


def trace(method, losses, *, seed=0, problem="tiny", thirds=None, seconds=1.0, **about):
    """A trace whose n-th loss was measured after n evaluations, iterations and seconds."""
    values = {"kind": "peer", "name": method, "settings": "", "revision": 1}
    chosen = METHODS[method] if method in METHODS else Absent(json.dumps(values))
    times = seconds * np.arange(len(losses))
    return traced(
        run(chosen, seed=seed, budget=10, problem=replace(TINY, name=problem)),
        evaluations=np.arange(len(losses)) if thirds is None else np.array(thirds) / 3,
        seconds=times,
        cpu_seconds=times,
        train_loss=np.array(losses, float),
        test_error=2.0 * np.array(losses, float),
        **about,
    )


def cases_of(traces, target=None):
    """The cases of traces, each method as it is in a comparison, with one target for all settings."""
    return comparison_of(traces, target).cases


def comparison_of(traces, target=None):
    """A comparison of traces, with one target for all settings."""
    runs = sorted(traces, key=lambda one: one.seed)
    first = {one.setting: one.run for one in runs}
    settings = [
        Setting(problem=one.problem, batch_size=one.batch_size, budget=one.budget, target=target)
        for one in first.values()
    ]
    return Comparison(tuple(runs), tuple(settings))
