"""With a closure: each step is one whole search, and gradline.batches decides what a closure sees.

Compares the three kinds of sampling on one problem at the same number of gradient evaluations.
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
    for name, batches in [
        ("dynamic", gradline.batches.dynamic(inputs, targets, batch_size=50, seed=0)),
        ("static", gradline.batches.static(inputs, targets, batch_size=50, seed=0)),
        ("full", gradline.batches.full(inputs, targets)),
    ]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 1))
        loss = nn.BCEWithLogitsLoss()

        optimizer = gradline.GOLSI(model.parameters())
        closure = batches.closure(optimizer, lambda x, y, model=model, loss=loss: loss(model(x), y))
        while optimizer.evaluations < evaluations:
            optimizer.step(closure)

        losses[name] = loss(model(inputs), targets).item()
        print(
            f"{name:>8} sampling: loss {losses[name]:.2e} after {optimizer.evaluations} evaluations "
            f"in {optimizer.iterations} steps; the last one: {optimizer.last.stop}"
        )
    return losses


if __name__ == "__main__":
    main()
