"""How large things are: data sets, networks, and what a run costs in time, relative to others."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.problems.network import Problem


@dataclass(frozen=True)
class Shape:
    """Of a data set."""

    train: int
    test: int
    inputs: int
    outputs: int


@functools.cache
def shape(data: str) -> Shape:
    """The shape of a data set, from the data set itself."""
    from gradline.lab.problems.data import load

    loaded = load(data, z_score="none")
    train, inputs = loaded.train_inputs.shape
    return Shape(train, len(loaded.test_inputs), inputs, loaded.train_targets.shape[1])


def parameters(problem: Problem) -> int:
    """Weights and biases of a problem's network. Of a `model`, what its own layers have."""
    if problem.model is not None:
        return _parameters_of_model(problem.model)
    units = (shape(problem.data).inputs, *problem.hidden, shape(problem.data).outputs)
    return sum((ins + 1) * outs for ins, outs in itertools.pairwise(units))


@functools.cache
def _parameters_of_model(name: str) -> int:
    from importlib import import_module

    import torch

    module, _, function = name.partition(":")
    model = getattr(import_module(module), function)(torch.Generator().manual_seed(0))
    return sum(parameter.numel() for parameter in model.parameters())


def cost(run: Run) -> float:
    """About how many seconds a run takes on one core. Good for comparing runs; `gradline check` measures instead.

    An evaluation costs some time for its bookkeeping and some for its arithmetic (forward and backward: 6 operations
    for each weight and sample; 10 billion of them a second).
    """
    samples = shape(run.problem.data).train if run.sampling is Sampling.FULL else run.batch_size
    return run.budget * (5e-5 + 6e-10 * parameters(run.problem) * samples)


def row_bytes(problem: Problem) -> int:
    """About how much memory one run of a group needs: its parameters, gradients and what a search keeps of them."""
    return 10 * parameters(problem) * (8 if problem.dtype == "float64" else 4)
