"""gradline for PyTorch: optimizers whose steps a line search finds, mini-batches, and landscapes. Needs torch."""

from gradline.torch import batches, landscape
from gradline.torch.constructors import GOLSI, PrLS
from gradline.torch.optimizer import LineSearchOptimizer

__all__ = ["GOLSI", "LineSearchOptimizer", "PrLS", "batches", "landscape"]
