"""A convolutional net with BatchNorm on CIFAR10, in the ordinary training loop.

    python examples/cifar10_conv.py
    python examples/cifar10_conv.py --samples 50000 --steps 4000

The images come from the folder named by GRADLINE_DATA (torchvision's layout), or else from the user's cache.
`gradline data fetch cifar10` gets them.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import gradline
from gradline.lab.problems import data


def images(samples: int) -> tuple[TensorDataset, TensorDataset]:
    """Training and test images, as many of each."""
    try:
        source = data.load("cifar10", download=False)
    except data.DataError as error:
        raise SystemExit(f"{error}\nOr let gradline download them: gradline data fetch cifar10") from error

    def part(inputs: object, targets: object) -> TensorDataset:
        pixels, classes = torch.as_tensor(inputs)[:samples], torch.as_tensor(targets)[:samples]
        return TensorDataset(pixels.view(-1, 3, 32, 32), classes.argmax(dim=1))

    return part(source.train_inputs, source.train_targets), part(source.test_inputs, source.test_targets)


def block(inputs: int, outputs: int) -> nn.Sequential:
    """Half the width and height."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def flipped(x: Tensor) -> Tensor:
    """Each image or its mirror image, by chance."""
    mirror = torch.rand(len(x), 1, 1, 1) < 0.5
    return torch.where(mirror, x.flip(3), x)


@torch.no_grad()
def accuracy(model: nn.Module, samples: TensorDataset) -> float:
    x, y = samples.tensors
    model.eval()
    right = torch.cat([model(part).argmax(dim=1) for part in x.split(500)]) == y
    model.train()
    return right.float().mean().item()


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000, help="training images, and as many test images")
    parser.add_argument("--steps", type=int, default=320, help="passes through the loop: one gradient each")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    train, test = images(options.samples)
    loader = DataLoader(train, batch_size=options.batch_size, shuffle=True, drop_last=True)
    model = nn.Sequential(block(3, 16), block(16, 32), block(32, 64), nn.Flatten(), nn.Linear(64 * 4 * 4, 10))

    optimizer = gradline.Angle(model.parameters())
    done, losses = 0, []
    while done < options.steps:
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(flipped(x)), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            done += 1
            if done % max(options.steps // 8, 1) == 0 or done == options.steps:
                with optimizer.eval():  # with the average of the weights
                    result = accuracy(model, test)
                print(
                    f"{done:5} steps: loss {sum(losses) / len(losses):.3f}, test accuracy {result:.1%}, "
                    f"step size {optimizer.param_groups[0]['lr']:.2g}"
                )
                losses.clear()
            if done == options.steps:
                break
    return result


if __name__ == "__main__":
    main()
