"""The paper's two methods: the probabilistic line search PrLS and the gradient-only line search GOLS-I.

    python examples/prls.py
    python examples/prls.py search.png    # also draw the longest search of PrLS

Both train the same network with the same number of evaluations. The closure of PrLS returns the losses of all samples.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import gradline


def main(evaluations: int = 600, picture: Path | None = None) -> dict[str, float]:
    source = load_breast_cancer()
    inputs = torch.tensor(source.data, dtype=torch.float32)
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0)
    targets = torch.tensor(source.target, dtype=torch.float32)[:, None]
    loss = nn.BCEWithLogitsLoss(reduction="none")
    losses = {}
    for build, reduce in [
        (gradline.PrLS, lambda each: each.squeeze(dim=1)),  # a vector: the loss of each sample
        (gradline.GOLSI, torch.mean),
    ]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = build(model.parameters())
        batches = gradline.batches.dynamic(inputs, targets, batch_size=50, seed=0)
        closure = batches.closure(optimizer, lambda x, y, model=model, reduce=reduce: reduce(loss(model(x), y)))

        longest = None
        while optimizer.evaluations < evaluations:
            optimizer.step(closure)
            if longest is None or optimizer.last.evaluations > longest.evaluations:
                longest = optimizer.last
        losses[build.__name__] = loss(model(inputs), targets).mean().item()
        print(
            f"{build.__name__:>6}: loss {losses[build.__name__]:.2e} after {optimizer.evaluations} evaluations in "
            f"{optimizer.iterations} steps; its longest search took {longest.evaluations} probes: {longest.stop}"
        )
        if picture and optimizer.per_sample:
            gradline.plot.search(longest).savefig(picture)
            print(f"{'':>6}  drawn in {picture}")
    return losses


if __name__ == "__main__":
    main(picture=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
