"""A physics-informed net for Poisson's equation, compared with Adam and L-BFGS at equal numbers of gradients.

    python examples/pinn.py
    python examples/pinn.py --evaluations 3000 --methods lbfgs wolfe-lbfgs

Solves -Δu = 5π² sin(πx) sin(2πy) on the unit square, with u = 0 at its edge. Each evaluation uses all points, so the
loss is smooth and without noise. Use L-BFGS for such losses, not Angle.

torch.optim.LBFGS cannot be a direction, because it chooses its own step sizes. The optimizer `QuasiNewton` has the
direction of L-BFGS, and one of gradline's searches finds the step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import gradline
from gradline.searches import StrongWolfe

PI = torch.pi


class QuasiNewton(torch.optim.Optimizer):
    """The direction of L-BFGS as an optimizer; the search finds the step."""

    def __init__(self, params: Any, lr: float = 1.0, history: int = 20) -> None:
        super().__init__(params, {"lr": lr})
        self.history = history
        self.pairs: list[tuple[Tensor, Tensor]] = []  # changes of the parameters, and of the gradient
        self.before: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        x, g = (torch.cat([t.flatten() for t in ts]) for ts in (parameters, [p.grad for p in parameters]))
        if self.before is not None:
            s, y = x - self.before[0], g - self.before[1]
            if s @ y > 1e-10 * (y @ y):
                self.pairs = [*self.pairs, (s, y)][-self.history :]
        self.before = x, g
        direction, parts = -g, []
        for s, y in reversed(self.pairs):
            parts.append((s @ direction) / (s @ y))
            direction = direction - parts[-1] * y
        if self.pairs:
            s, y = self.pairs[-1]
            direction = direction * (s @ y) / (y @ y)
        for s, y in self.pairs:
            direction = direction + (parts.pop() - (y @ direction) / (s @ y)) * s
        for p, change in zip(parameters, direction.split([p.numel() for p in parameters]), strict=True):
            p += self.param_groups[0]["lr"] * change.view_as(p)


METHODS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda params: torch.optim.Adam(params, lr=1e-3),
    "adam, lr 0.01": lambda params: torch.optim.Adam(params, lr=1e-2),
    "lbfgs": lambda params: torch.optim.LBFGS(params, history_size=20, line_search_fn="strong_wolfe"),
    "angle": gradline.Angle,
    "gols-i": gradline.GOLSI,
    "gols-i-adam": lambda params: gradline.GOLSI(params, direction=torch.optim.Adam),
    # All values belong to one function here, so the gradient of the accepted point can be reused.
    "wolfe-adam": lambda params: gradline.LineSearchOptimizer(
        params, StrongWolfe(), direction=torch.optim.Adam, reuse_gradient=True
    ),
    "wolfe-lbfgs": lambda params: gradline.LineSearchOptimizer(
        params, StrongWolfe(), direction=QuasiNewton, reuse_gradient=True
    ),
}


def solution(points: Tensor) -> Tensor:
    return torch.sin(PI * points[:, :1]) * torch.sin(2 * PI * points[:, 1:])


def train(method: str, evaluations: int, seed: int) -> tuple[float, float, int]:
    """The loss, the error of the solution and the gradients that it took."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()
    inside = torch.rand(400, 2, dtype=torch.float64).requires_grad_()
    along, zero = torch.linspace(0, 1, 25, dtype=torch.float64), torch.zeros(25, dtype=torch.float64)
    sides = [(along, zero), (along, zero + 1), (zero, along), (zero + 1, along)]
    edge = torch.cat([torch.stack(side, dim=1) for side in sides])
    source = 5 * PI**2 * solution(inside).detach()
    optimizer = METHODS[method](net.parameters())
    count = 0

    def closure() -> Tensor:
        nonlocal count
        count += 1
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(net(inside).sum(), inside, create_graph=True)
        second = [torch.autograd.grad(slope[:, i].sum(), inside, create_graph=True)[0][:, i] for i in (0, 1)]
        residual = second[0] + second[1] + source[:, 0]
        loss = residual.square().mean() / 100 + net(edge).square().mean()
        loss.backward()
        return loss

    while count < evaluations:
        optimizer.step(closure)
    if isinstance(optimizer, gradline.Angle):
        optimizer.eval()  # the average of the weights
    spent, loss = count, closure().item()
    anywhere = torch.rand(2000, 2, dtype=torch.float64)
    exact = solution(anywhere)
    return loss, ((net(anywhere) - exact).norm() / exact.norm()).item(), spent


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=1000, help="gradients for each method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args(arguments)
    print(f"{'method':14} {'gradients':>9} {'loss':>9} {'error':>9}")
    errors = {}
    for method in options.methods:
        loss, errors[method], spent = train(method, options.evaluations, options.seed)
        print(f"{method:14} {spent:9} {loss:9.2e} {errors[method]:9.2e}")
    return errors


if __name__ == "__main__":
    main()
