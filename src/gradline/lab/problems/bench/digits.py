"""A variational autoencoder on scikit-learn's digits: a loss that is random even for one batch."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from gradline.lab.bench.objective import Task
from gradline.lab.problems.bench.making import seeded
from gradline.lab.problems.bench.problem import Problem, Size
from gradline.lab.problems.data._extra import study_extra

HIDDEN = 128
LATENT = 6
TRAINING = 1500


class Autoencoder(nn.Module):
    """8 × 8 pixels to a few numbers and back; called with images it gives the loss of each."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 64))

    def forward(self, x: Tensor) -> Tensor:
        """The negative evidence lower bound of each image, with new noise."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        wrong = nn.functional.binary_cross_entropy_with_logits(self.decoder(code), x, reduction="none")
        away = (mean.square() + log_variance.exp() - 1 - log_variance) / 2
        losses: Tensor = wrong.sum(dim=1) + away.sum(dim=1)
        return losses


@cache
def _pixels() -> Tensor:
    source = study_extra("sklearn.datasets", "the digits").load_digits()
    return torch.tensor(source.data, dtype=torch.float32) / 16


def _build(seed: int) -> Task:
    pixels = _pixels()
    train, test = pixels[:TRAINING], pixels[TRAINING:]

    def measure(model: nn.Module) -> tuple[float, float]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same noise for every measurement
            return float(model(train).mean()), float(model(test).mean())

    def losses(model: nn.Module, chosen: Tensor) -> Tensor:
        values: Tensor = model(train[chosen])
        return values

    return Task(seeded(seed, Autoencoder), TRAINING, losses, measure)


PROBLEMS = (
    Problem(
        "vae-digits",
        "variational autoencoder on scikit-learn's 8 × 8 digits",
        (Size(10, 1000, 25.2), Size(100, 1000, 24.3), Size(1500, 250, 24.6)),
        _build,
        held_out=True,
        error="test loss",
    ),
)
