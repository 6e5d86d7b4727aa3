"""Save model, optimizer and batches, and resume: training continues bit for bit.

python examples/resume.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

import gradline


def build() -> tuple[nn.Module, gradline.Angle, gradline.batches.Batches]:
    torch.manual_seed(0)
    inputs = torch.randn(1000, 8)
    targets = (inputs.square().sum(dim=1, keepdim=True) > 8).float()
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = gradline.Angle(model.parameters())
    return model, optimizer, gradline.batches.dynamic(inputs, targets, batch_size=50, seed=0)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: gradline.batches.Batches, count: int) -> None:
    for x, y in batches.take(count):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(x), y).backward()
        optimizer.step()


def main(evaluations: int = 301) -> bool:
    straight = build()
    train(*straight, 2 * evaluations)

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        parts = build()
        train(*parts, evaluations)
        torch.save([part.state_dict() for part in parts], checkpoint)  # the model to train on, not the average

        parts = build()
        for part, state in zip(parts, torch.load(checkpoint, weights_only=True), strict=True):
            part.load_state_dict(state)
        train(*parts, evaluations)

    same = all(map(torch.equal, straight[0].parameters(), parts[0].parameters()))
    print(f"resumed and uninterrupted training are {'the same' if same else 'different'}")
    return same


if __name__ == "__main__":
    main()
