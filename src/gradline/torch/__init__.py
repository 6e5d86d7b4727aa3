"""gradline for PyTorch: optimizers whose steps a line search finds, and mini-batches to feed them. Needs torch."""

from gradline.torch import batches
from gradline.torch.constructors import GOLSI, PrLS
from gradline.torch.optimizer import LineSearchOptimizer
from gradline.torch.schedule import NoSchedule

__all__ = ["GOLSI", "LineSearchOptimizer", "NoSchedule", "PrLS", "batches"]
