"""Compute mean and variance of a mini-batch's value and slope from its per-sample losses.

A mini-batch of B samples has per-sample losses ℓ_b, and along a direction d per-sample slopes s_b = d·∇ℓ_b. A search
observes their means and the variances *of these means*, Σ (s_b - mean s)² / (B (B - 1)), computed from centred numbers,
so that they are never negative.

The closure returns the losses, shape (B,), and does **not** call `backward()`:

```python
import torch
from gradline.torch.moments import Evaluated

inputs, targets = torch.randn(50, 30), torch.randint(2, (50,)).float()
model = torch.nn.Linear(30, 1)
loss_of = torch.nn.BCEWithLogitsLoss(reduction="none")

def closure():
    model.zero_grad()
    return loss_of(model(inputs).squeeze(1), targets)

evaluated = Evaluated(closure(), list(model.parameters()))
evaluated.backward()  # fills .grad with the gradient of the mean
directions = [-parameter.grad for parameter in model.parameters()]
seen = evaluated.moments(directions)  # with exact variances
paper = evaluated.moments(directions, diagonal=True)  # Σ d_i² var g_i
assert seen.slope < 0 < seen.slope_var
```

There are two methods with equal results. `Evaluated` inspects the autograd graph of the losses and uses the faster one
if it provably applies:

* *layer by layer*: for linear layers (for slopes also convolutions) with operations between them that do not mix
  samples. Matrix products of the layers' inputs and output gradients, known from the backward pass, give all results.
* *from the graph*: for everything else, by differentiating the backward pass (slopes), or by one backward pass per
  sample (variances of components; also slopes, if an operator cannot be differentiated twice).

**BatchNorm in training mode** makes each loss depend on all samples of the mini-batch: gradients of single samples are
not defined, and the variance over samples is not the variance of the mean. `Evaluated` detects it in the graph and
raises an error. Put these layers in eval mode, use GroupNorm or LayerNorm, or pass `allow_batch_norm=True` for a
correct mean with an approximate variance. Batch statistics written by hand (`x - x.mean(0)`) are not detected.
"""

from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.graph import refuse_batch_norm
from gradline.torch.moments.statistics import mean_and_variance

__all__ = ["Evaluated", "mean_and_variance", "refuse_batch_norm"]
