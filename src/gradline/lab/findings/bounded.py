"""Claim 1: along a line, sign changes of the slope stay near the optimum while minima of the value are everywhere.

It is about one line through the loss of the network on Iris (Figure 6), so it needs no training runs. Here it is
computed for ten random starts.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

import gradline
from gradline.lab.findings.claims import SEEDS, Part, Verdict
from gradline.lab.problems import PROBLEMS, Loss, Network
from gradline.lab.tools.threads import threads

SIZES = (10, 50, 100, 140)
POINTS, SPACING, REPEATS = 100, 0.002, 100
"""Steps along the line, the distance between two, and walks for each batch size, as in the paper."""
EVEN = 0.9
"""Minima are spread over the whole line if their standard deviation (the median over starts) is at least this part of
an even spread's."""


@threads()
def first_claim(*, starts: int = SEEDS, repeats: int = REPEATS) -> Verdict:
    """Return the verdict on claim 1, from walks along -∇L with a new mini-batch at each step.

    Starts are random; only those whose optimum along the line is inside the range of steps count.
    """
    import torch

    problem = PROBLEMS["iris"]
    assert isinstance(problem, Network)
    problem = replace(problem, loss=Loss.MSE)  # with the cross-entropy the optimum is outside the paper's range
    steps = SPACING * np.arange(POINTS, dtype=np.float64)
    minima: list[list[float]] = []
    changes: list[list[float]] = []
    inside: list[list[bool]] = []
    seed = 0
    while len(minima) < starts:
        task = problem.build(seed)
        model, samples = task.model, torch.arange(task.samples)
        arguments = (model, lambda chosen, task=task: task.losses(task.model, chosen), samples)
        seed += 1
        full = gradline.landscape.line(*arguments, steps=steps, seed=0).full
        if full is None or not full.found().steps_of_sign_changes.size:
            continue
        found = gradline.landscape.optima(*arguments, steps=steps, batch_sizes=SIZES, repeats=repeats, seed=0)
        even = steps[1:-1].std()
        minima.append([found[size].spread_of_minima.deviation / even for size in SIZES])
        changes.append([found[size].spread_of_sign_changes.deviation / even for size in SIZES])
        balls = [found[size].ball() for size in SIZES]
        inside.append([ball is not None and steps[0] < ball.low and ball.high < steps[-1] for ball in balls])
    runs = f"{starts} starts, {repeats} walks each"
    by_size = list(zip(SIZES, np.transpose(minima), np.transpose(changes), np.transpose(inside), strict=True))
    shrinks = [all(before > after for before, after in pairwise(row)) for row in changes]
    parts = [
        Part(
            statement="minima of the value spread over the whole line for every B below 150",
            paper="across the entire line",
            holds=bool(np.median(minima, axis=0).min() >= EVEN),
            seen="standard deviation, in parts of an even spread's: "
            + ", ".join(f"{_range(some)} at B = {size}" for size, some, _, _ in by_size),
            runs=runs,
        ),
        *(
            Part(
                statement=f"sign changes of the slope stay inside the line, around the optimum (B = {size})",
                paper="bounded for B of 10 and above",
                holds=bool(within.mean() > 0.5),
                seen=f"{int(within.sum())} of {starts} starts; standard deviation {_range(some)} of an even spread's",
                runs=runs,
            )
            for size, _, some, within in by_size
        ),
        Part(
            statement="the spread of sign changes shrinks as B grows",
            paper="shrinks",
            holds=all(shrinks),
            seen=f"at every step of B in {sum(shrinks)} of {starts} starts",
            runs=runs,
        ),
    ]
    return Verdict(1, "Sign changes stay bounded around the optimum, minima do not (Figure 6)", tuple(parts))


def _range(values: NDArray[np.float64]) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
