"""`LateAverage`: an average of the points that a model has come through, in which late ones weigh most."""

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

__all__ = ["LateAverage"]


class LateAverage(AveragedModel):
    """The average of a model's points, for evaluation and use: it has less of the noise of the last steps.

    The k-th point has a weight of about k to the `power`, so the average forgets the beginning by itself, however long
    training goes on: there is no decay rate to choose. BatchNorm's statistics are averaged likewise. It is torch's
    `AveragedModel` with these weights, and is called, saved and loaded as that is.

    The average has the type of the parameters. After n points the next one counts by about 9/n, and what that changes
    is lost where it is below the last digit: keep parameters in float32. There, after 100,000 points, movements of less
    than about 0.05 % of a parameter are lost if they are smooth, and hardly anything if they are noisy. In half
    precision the average stands still after some hundred points.

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.Angle(model.parameters())
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
        model: what is averaged. It is copied.
        power: how much more late points weigh; with 8 the average is about a tenth of training behind.
    """

    def __init__(self, model: nn.Module, *, power: float = 8.0) -> None:
        require(0.0 <= power < math.inf, "power", "0 or more and finite", "weights grow with it", power)
        super().__init__(model, multi_avg_fn=partial(_add, power=power), use_buffers=True)


@torch.no_grad()
def _add(averages: Sequence[Tensor], present: Sequence[Tensor], before: Any, *, power: float) -> None:
    if averages[0].is_floating_point() or averages[0].is_complex():
        foreach_lerp_(averages, present, (power + 1.0) / (int(before) + power + 1.0))
    else:  # counts, such as BatchNorm's of batches
        foreach_copy_(list(averages), list(present))
