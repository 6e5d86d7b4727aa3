"""The cost model: what a run costs in time and memory, relative to others."""

from __future__ import annotations

from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.problems import Problem


def cost(run: Run) -> float:
    """About how many seconds a run takes on one core. Good for comparing runs; `gradline check` measures instead.

    An evaluation costs some time for its bookkeeping and some for its arithmetic (forward and backward: 6 operations
    for each weight and sample; 10 billion of them a second).
    """
    samples = run.problem.samples if run.sampling is Sampling.FULL else run.batch_size
    return run.budget * (5e-5 + 6e-10 * run.problem.parameters * samples)


def row_bytes(problem: Problem) -> int:
    """About how much memory one run of a group needs: its parameters, gradients and what a search keeps of them."""
    return 10 * problem.parameters * (8 if getattr(problem, "dtype", "float32") == "float64" else 4)
