"""A variational autoencoder on scikit-learn's digits, which then draws digits of its own.

    python examples/vae.py

The loss of a VAE is random even on one batch, since each evaluation draws noise. That is no problem: no losses are
compared. The model is evaluated, saved and used with the average of the weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import gradline

SHADES = " .:-=+*#%@"


class VAE(nn.Module):
    """8 x 8 pixels to a few numbers and back."""

    def __init__(self, hidden: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 64))

    def losses(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruction error, and divergence of the code from pure noise; means over the batch."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        wrong = nn.functional.binary_cross_entropy_with_logits(self.decoder(code), x, reduction="none")
        away = (mean.square() + log_variance.exp() - 1 - log_variance) / 2
        return wrong.sum(dim=1).mean(), away.sum(dim=1).mean()

    @torch.no_grad()
    def draw(self, count: int) -> Tensor:
        """New images."""
        return self.decoder(torch.randn(count, self.latent)).sigmoid().view(count, 8, 8)


def printed(images: Tensor) -> str:
    """A row of images as text."""
    rows = torch.cat([nn.functional.pad(image, (0, 2)) for image in images], dim=1)
    return "\n".join("".join(SHADES[int(9 * shade)] * 2 for shade in row) for row in rows.tolist())


def main(arguments: list[str] | None = None) -> tuple[float, Tensor]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000, help="passes through the loop: one gradient each")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--latent", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="write the trained model there")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    train, test = pixels[:1500], pixels[1500:]
    model = VAE(options.hidden, options.latent)

    optimizer = gradline.Angle(model.parameters())
    batches = gradline.batches.dynamic(train, batch_size=options.batch_size, seed=options.seed)
    for done, (x,) in enumerate(batches.take(options.steps), start=1):
        optimizer.zero_grad()
        sum(model.losses(x)).backward()
        optimizer.step()
        if done % max(options.steps // 8, 1) == 0 or done == options.steps:
            with optimizer.eval(), torch.no_grad():
                wrong, away = (part.item() for part in model.losses(test))
            print(
                f"{done:5} steps: test loss {wrong + away:.2f} ({wrong:.2f} reconstruction + {away:.2f} divergence), "
                f"step size {optimizer.param_groups[0]['lr']:.2g}"
            )

    optimizer.eval()  # training is over: leave the average in place
    if options.save:
        torch.save(model.state_dict(), options.save)
    drawn = model.draw(5)
    print(printed(drawn))
    return wrong + away, drawn


if __name__ == "__main__":
    main()
