"""See a loss along a line or over a plane, under full, static and dynamic sampling of the data. Needs torch.

It answers, for your own model: how noisy are values and slopes with mini-batches of this size? Where would a search
that looks for minima stop, and where one that looks for sign changes?

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

**The loss** is called with the parts of a batch, as `gradline.batches` does it. It returns one number, the mean over
the samples; or a vector, the loss of each sample (`reduction="none"`). The second is much cheaper: every sample is
evaluated once at each point, and values and slopes of all mini-batches, sizes and repeats are means of these numbers.

**Nothing changes.** Parameters, their `.grad`, buffers (BatchNorm's running statistics), torch's random generators and
those of a loader are as they were afterwards, also after Ctrl-C or an error. Modes are left alone: dropout that is
training draws new masks in every evaluation, so call `model.eval()` to see a smooth loss. Give the module rather than
its parameters: of parameters alone the buffers are not known.
"""

from __future__ import annotations

from gradline.landscape.optima import Found, Interval, Optima, Spread
from gradline.landscape.results import Curves, Line, Plane, Surfaces

try:
    from gradline.landscape.directions import Direction, Weight, random_directions, weight
    from gradline.landscape.views import line, optima, plane
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "gradline.landscape needs PyTorch, which is not installed: pip install 'gradline[torch]'", name="torch"
    ) from error

__all__ = [
    "Curves",
    "Direction",
    "Found",
    "Interval",
    "Line",
    "Optima",
    "Plane",
    "Spread",
    "Surfaces",
    "Weight",
    "line",
    "optima",
    "plane",
    "random_directions",
    "weight",
]
