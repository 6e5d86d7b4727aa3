"""gradline for PyTorch: optimizers that find their steps by line searches, and mini-batches for them."""

from gradline.torch import batches
from gradline.torch.angle import Angle
from gradline.torch.average import LateAverage
from gradline.torch.constructors import GOLSI, PrLS
from gradline.torch.learning_rate import NoSchedule, StepRecorder, find_lr
from gradline.torch.optimizer import LineSearchOptimizer
from gradline.torch.scalars import log_scalars

__all__ = [
    "GOLSI",
    "Angle",
    "LateAverage",
    "LineSearchOptimizer",
    "NoSchedule",
    "PrLS",
    "StepRecorder",
    "batches",
    "find_lr",
    "log_scalars",
]
