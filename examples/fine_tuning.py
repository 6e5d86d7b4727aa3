"""Fine-tuning: train a new head on a frozen body, then unfreeze a part of the body and continue.

    python examples/fine_tuning.py

The body learns the digits 0 to 4 first. Then it learns 5 to 9, from a few labelled images only. Parameter
groups have their own weight decay, as in any AdamW, and `lr_scale`: the body takes a tenth of the step of the new head.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import gradline


def digits(first: int, last: int) -> tuple[Tensor, Tensor]:
    source = load_digits()
    images, labels = torch.tensor(source.data, dtype=torch.float32) / 16, torch.tensor(source.target)
    chosen = (labels >= first) & (labels <= last)
    return images[chosen], labels[chosen] - first


def groups(layer: nn.Module, weight_decay: float, lr_scale: float = 1.0) -> Iterator[dict[str, object]]:
    """Two groups: weights, which decay, and biases."""
    weights, biases = ([p for p in layer.parameters() if (p.ndim > 1) == many] for many in (True, False))
    yield {"params": weights, "weight_decay": weight_decay, "lr_scale": lr_scale}
    yield {"params": biases, "lr_scale": lr_scale}


def train(
    model: nn.Module,
    optimizer: gradline.Angle,
    batches: gradline.batches.Batches,
    test: tuple[Tensor, Tensor],
    *,
    steps: int,
    what: str,
) -> float:
    """The ordinary loop; returns the error on test images."""
    losses = []
    for x, y in batches.take(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with optimizer.eval(), torch.no_grad():  # with the average of the weights
        error = (model(test[0]).argmax(dim=1) != test[1]).float().mean().item()
    moving = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(
        f"{what:22} {moving:6} parameters: loss {sum(losses[-20:]) / len(losses[-20:]):.4f}, test error {error:.1%}, "
        f"step size {optimizer.param_groups[0]['lr']:.2g}"
    )
    return error


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="passes through the loop in each of three parts")
    parser.add_argument("--labelled", type=int, default=100, help="images of the new digits to learn from")
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--lr-scale", type=float, default=0.1, help="step of the body over the step of the head")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)

    # A model that somebody has trained: the digits 0 to 4.
    images, labels = digits(0, 4)
    lower, upper = (nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()) for _ in range(2))
    model = nn.Sequential(lower, upper, nn.Linear(64, 5))
    optimizer = gradline.Angle(model.parameters())
    batches = gradline.batches.dynamic(images[:700], labels[:700], batch_size=50, seed=0)
    test = images[700:], labels[700:]
    errors = [train(model, optimizer, batches, test, steps=options.steps, what="pretraining")]
    optimizer.eval()  # this training is over: leave the average in place

    # New digits, a new head, and a frozen body.
    images, labels = digits(5, 9)
    test = images[options.labelled :], labels[options.labelled :]
    batches = gradline.batches.dynamic(
        images[: options.labelled], labels[: options.labelled], batch_size=min(50, options.labelled), seed=0
    )
    lower.requires_grad_(False)
    upper.requires_grad_(False)
    head = model[2] = nn.Linear(64, 5)
    optimizer = gradline.Angle(groups(head, options.weight_decay))
    errors.append(train(model, optimizer, batches, test, steps=options.steps, what="a new head"))

    # A new stage: unfreeze the upper half of the body, and continue with the same optimizer.
    upper.requires_grad_(True)
    for group in groups(upper, options.weight_decay, options.lr_scale):
        optimizer.add_param_group(group)
    optimizer.restart()  # find a first step again; Adam's second moment of the head is kept
    errors.append(train(model, optimizer, batches, test, steps=options.steps, what="and the upper layer"))
    return errors


if __name__ == "__main__":
    main()
