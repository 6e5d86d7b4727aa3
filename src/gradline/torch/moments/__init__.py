"""Mean and variance of a mini-batch's value and slope, from the vector of its per-sample losses.

A mini-batch of B samples has per-sample losses ℓ_b, and along a direction d per-sample slopes s_b = d·∇ℓ_b. What a
search is told are their means and the variances *of these means*, Σ (s_b - mean s)² / (B (B - 1)), always computed
from centred numbers, so that they are never negative.

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

Two ways lead to the same numbers. `Evaluated` looks at the autograd graph of the losses and takes the fast one where
it can prove that it applies:

* *layer by layer*: linear layers (slopes: convolutions too) with operations between them that keep samples apart.
  The layers' inputs and output gradients, which the ordinary backward has anyway, give everything by matrix products.
* *from the graph*: anything else, by differentiating the backward pass once more (slopes), or by one backward pass
  per sample (variances of single components; also slopes, where an operator cannot be differentiated twice).

**BatchNorm in training mode** makes each loss depend on all samples of the batch: "the gradient of sample b" is not
defined, and samples are not independent, so a variance over them is not the variance of the mean. `Evaluated` finds it
in the graph and refuses. Put these layers in eval mode, use GroupNorm or LayerNorm, or pass `allow_batch_norm=True` for
numbers whose mean is right and whose variance is a guess. Statistics over a batch that are written by hand
(`x - x.mean(0)`) cannot be told from honest operations: their losses are differentiated as they are.
"""

from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.functional import forward_slopes, gradient_variances
from gradline.torch.moments.independence import refuse_batch_norm
from gradline.torch.moments.statistics import mean_and_variance

__all__ = ["Evaluated", "forward_slopes", "gradient_variances", "mean_and_variance", "refuse_batch_norm"]
