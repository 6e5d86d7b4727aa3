"""Training with a closure: Angle, and the paper's GOLS-I on three kinds of mini-batches.

    python examples/closure.py

Angle calls the closure once per step. A call of `step(closure)` of GOLS-I is one whole line search, with one or more
evaluations of the closure. All four trainings have the same number of gradient evaluations.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import gradline


def main(evaluations: int = 1000) -> dict[str, float]:
    source = load_breast_cancer()
    inputs = torch.tensor(source.data, dtype=torch.float32)
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0)
    targets = torch.tensor(source.target, dtype=torch.float32)[:, None]
    losses = {}
    dynamic = gradline.batches.dynamic(inputs, targets, batch_size=50, seed=0)  # a new mini-batch per evaluation
    static = gradline.batches.static(inputs, targets, batch_size=50, seed=0)  # one mini-batch per search
    full = gradline.batches.full(inputs, targets)
    for name, build, batches in [
        ("Angle", gradline.Angle, dynamic),
        ("GOLS-I, dynamic", gradline.GOLSI, dynamic),
        ("GOLS-I, static", gradline.GOLSI, static),
        ("GOLS-I, full", gradline.GOLSI, full),
    ]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 1))
        loss = nn.BCEWithLogitsLoss()

        optimizer = build(model.parameters())
        closure = batches.closure(optimizer, lambda x, y, model=model, loss=loss: loss(model(x), y))
        while optimizer.evaluations < evaluations:
            optimizer.step(closure)

        with optimizer.eval():
            losses[name] = loss(model(inputs), targets).item()
        print(f"{name:15}: loss {losses[name]:.2e}, {optimizer.evaluations} evaluations, {optimizer.iterations} steps")
    return losses


if __name__ == "__main__":
    main()
