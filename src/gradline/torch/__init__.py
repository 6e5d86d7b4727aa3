"""gradline for PyTorch: optimizers whose steps a line search finds, and mini-batches to feed them. Needs torch."""

from gradline.torch import batches
from gradline.torch.optimizer import GOLSI, LineSearchOptimizer

__all__ = ["GOLSI", "LineSearchOptimizer", "batches"]
