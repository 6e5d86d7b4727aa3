"""A line search of your own: a generator that asks for steps. It does not depend on torch.

    python examples/own_search.py

This one probes the zero of the straight line through the slopes at 0 and at the previous step.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import torch
from torch import nn

import gradline
from gradline.protocol import Origin, Outcome, Slope, Stop
from gradline.testing import check_line_search


@dataclass(frozen=True)
class Secant:
    """Two probes: the previous step, and where the secant through the slopes crosses zero."""

    first: float = 1e-3
    most: float = 10.0

    def start(self) -> float:
        return self.first

    def search(self, origin: Origin[Slope], memory: float) -> Generator[float, Slope, Outcome[float]]:
        zero = origin.at_zero.slope
        observed = yield memory
        if not observed.finite:
            return Outcome(0.0, None, Stop.NON_FINITE, memory / 10)
        rise = observed.slope - zero
        step = memory * min(max(-zero / rise, 1 / self.most), self.most) if rise > 0 else memory * self.most
        step = min(max(step, 1e-8), 1e3)
        observed = yield step
        if not observed.finite:
            return Outcome(0.0, None, Stop.NON_FINITE, memory / 10)
        return Outcome(step, 1, Stop.TOLERANCE, step)


def main(steps: int = 100) -> float:
    check_line_search(Secant())
    outcome, transcript = gradline.solve(Secant(), lambda step: step - 0.5)
    print(f"on a parabola: step {outcome.step:.3f} after {len(transcript)} probes")

    torch.manual_seed(0)
    inputs = torch.randn(500, 10)
    targets = inputs @ torch.randn(10, 1)
    model = nn.Linear(10, 1)
    optimizer = gradline.LineSearchOptimizer(model.parameters(), Secant())
    batches = gradline.batches.dynamic(inputs, targets, batch_size=100, seed=0)
    closure = batches.closure(optimizer, lambda x, y: nn.functional.mse_loss(model(x), y))
    for _ in range(steps):
        loss = optimizer.step(closure).item()
    print(f"linear regression: loss {loss:.2e} after {optimizer.evaluations} evaluations")
    return loss


if __name__ == "__main__":
    main()
