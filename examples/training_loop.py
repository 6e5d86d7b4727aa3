"""The usual PyTorch training loop: only the optimizer's line is new, and evaluation is in `with optimizer.eval():`.

python examples/training_loop.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradline


def main(epochs: int = 20) -> float:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(images[:1500], labels[:1500]), batch_size=100, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))

    optimizer = gradline.Angle(model.parameters())
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()

        with optimizer.eval(), torch.no_grad():  # with the average of the weights
            error = (model(images[1500:]).argmax(dim=1) != labels[1500:]).float().mean().item()
        step = optimizer.param_groups[0]["lr"]  # learning-rate monitors read it there
        print(f"epoch {epoch + 1:2}: loss {loss.item():.4f}, test error {error:.1%}, step {step:.3g}")
    return error


if __name__ == "__main__":
    main()
