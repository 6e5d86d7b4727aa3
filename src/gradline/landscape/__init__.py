"""Evaluate a loss along a line or over a plane, under full, static and dynamic sampling. Needs torch.

It shows, for your own model, how noisy values and slopes are for a size of mini-batches, and where searches for minima
of the value and searches for sign changes of the slope would stop.

```python
import numpy as np
import torch
from gradline import landscape

inputs, targets = torch.randn(500, 4), torch.randint(3, (500,))
model = torch.nn.Sequential(torch.nn.Linear(4, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3))
loss_of = torch.nn.CrossEntropyLoss(reduction="none")

def loss(x, y):
    return loss_of(model(x), y)

seen = landscape.line(
    model, loss, (inputs, targets), steps=np.linspace(0, 2, 51), batch_size=20, static=4, dynamic=1, seed=0
)
assert seen.full.values.shape == (51,)
assert seen.static.slopes.shape == (4, 51)
assert seen.dynamic.values.shape == (1, 51)
```

**The loss** is called with the parts of a mini-batch, as by `gradline.batches`. It returns one number, the mean over
the samples, or the vector of per-sample losses (`reduction="none"`). The vector is much cheaper: every sample is
evaluated once per point, and values and slopes of all mini-batches are means over their samples.

**Everything is restored**: parameters, their `.grad`, buffers (BatchNorm's running statistics), torch's random number
generators and those of a loader, also after Ctrl-C or an error. Training modes are not changed: dropout in training
mode draws new masks in every evaluation, so call `model.eval()` for a smooth loss. Pass the module instead of its
parameters, since buffers cannot be restored from parameters alone.
"""

from __future__ import annotations

from gradline.installing import needs
from gradline.landscape.results import Curves, Found, Interval, Line, Optima, Plane, Projections, Spread, Surfaces

with needs("gradline.landscape", "torch"):
    from gradline.landscape.directions import Direction, Weight, random_directions, weight
    from gradline.landscape.views import line, optima, plane, projections

__all__ = [
    "Curves",
    "Direction",
    "Found",
    "Interval",
    "Line",
    "Optima",
    "Plane",
    "Projections",
    "Spread",
    "Surfaces",
    "Weight",
    "line",
    "optima",
    "plane",
    "projections",
    "random_directions",
    "weight",
]
