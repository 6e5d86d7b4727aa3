"""A variational autoencoder on scikit-learn's digits: a loss that is random even for one batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradline.lab.problems.supervised import Part, build_task, two_part_task
from gradline.lab.problems.tabular import digits, load_digits
from gradline.lab.problems.task import Task

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
        """Return the negative evidence lower bound of each image, with new noise."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        wrong = nn.functional.binary_cross_entropy_with_logits(self.decoder(code), x, reduction="none")
        away = (mean.square() + log_variance.exp() - 1 - log_variance) / 2
        losses: Tensor = wrong.sum(dim=1) + away.sum(dim=1)
        return losses


def build(seed: int) -> Task:
    """Build the task."""
    pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    return two_part_task(seed, Autoencoder, Part(pixels, pixels), TRAINING, _own_losses)


def build_split(seed: int) -> Task:
    """Build the task with 1,200 of 1,797 images for training, 300 for validation and the others for testing."""
    return build_task(seed, Autoencoder, digits(), _own_losses)


def _own_losses(losses: Tensor, targets: Tensor) -> Tensor:
    """Return what the model gives: they are losses already."""
    return losses
