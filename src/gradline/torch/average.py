"""`LateAverage`: an average of model parameters over training, weighted towards late steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from gradline.searches.arguments import require
from gradline.torch.private import foreach_copy_, foreach_lerp_


class LateAverage(AveragedModel):
    """Average of a model's parameters over training, for evaluation: less noisy than the last parameters.

    The k-th update has a weight of about k to the `power`, so that early updates are forgotten for any length of
    training without a decay rate to choose. Buffers, such as BatchNorm's statistics, are averaged in the same way. It
    is a torch `AveragedModel` with these weights and is called, saved and loaded like one.

    The average has the dtype of the parameters. With the default `power`, update n + 1 has a weight of about 9/n, so
    that small changes are lost to rounding: keep parameters in float32. There, after 100,000 updates, smooth changes of
    less than about 0.05 % of a parameter are lost, and hardly any noisy ones. In half precision the average stops
    changing after some hundred updates.

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.GOLSI(model.parameters(), direction=torch.optim.Adam)
    average = gradline.LateAverage(model)

    for _ in range(300):
        batch = torch.randint(256, (16,))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
        average.update_parameters(model)

    average.eval()
    assert torch.nn.functional.mse_loss(average(inputs), targets) < 0.2
    ```

    Args:
        model: the model to average. It is copied.
        power: exponent of the weights. With 8 the average lags by about a tenth of training.
    """

    def __init__(self, model: nn.Module, *, power: float = 8.0) -> None:
        require(0.0 <= power < math.inf, "power", "0 or more and finite", "weights grow with it", power)
        super().__init__(model, multi_avg_fn=partial(_add, power=power), use_buffers=True)


@torch.no_grad()
def _add(averages: Sequence[Tensor], present: Sequence[Tensor], before: Any, *, power: float) -> None:
    if averages[0].is_floating_point() or averages[0].is_complex():
        foreach_lerp_(averages, present, (power + 1.0) / (int(before) + power + 1.0))
    else:  # counts, such as BatchNorm's num_batches_tracked
        foreach_copy_(list(averages), list(present))
