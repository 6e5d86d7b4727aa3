"""`LineSearchCallback`: use gradline optimizers with Hugging Face's `Trainer`.

`Trainer` calls `step()` without a closure. Each of its steps is then one step of `Angle`, or one probe of a line search
such as GOLS-I, and between steps the parameters are at that probe. It calls the optimizer's `eval()` before evaluations
and `train()` before it continues, but not before it saves checkpoints or at the end of training. The callback does.

```python
import tempfile
import torch, gradline
from gradline.torch.integrations.transformers import LineSearchCallback
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x, labels):
        return {"loss": (self.linear(x) - labels).square().mean()}

model = Model()
optimizer = gradline.GOLSI(model.parameters())
trainer = Trainer(
    model,
    TrainingArguments(tempfile.mkdtemp(), max_steps=3, save_steps=2, report_to="none", use_cpu=True),
    train_dataset=[{"x": torch.randn(3), "labels": torch.randn(1)} for _ in range(8)],
    optimizers=(optimizer, gradline.NoSchedule(optimizer)),
    callbacks=[LineSearchCallback()],
)
trainer.train()
```
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils.hooks import RemovableHandle
from transformers import Trainer, TrainerCallback

from gradline.protocol import Stop
from gradline.torch.base import GradlineOptimizer
from gradline.torch.scalars import count_stops, scalars_of

__all__ = ["LineSearchCallback"]


class LineSearchCallback(TrainerCallback):
    """Callback that saves and ends training with the weights to evaluate, and logs the searches.

    The weights to evaluate are those of `optimizer.eval()`: with [`gradline.Angle`][gradline.Angle] the average, with a
    line search the last accepted point.

    * Checkpoints contain the model with these weights. Training resumed from them is bit for bit equal to uninterrupted
      training.
    * At the end of training the model has these weights, or is the best model if `load_best_model_at_end=True`.
    * The last search is added to each training log under the names of [`log_scalars`][gradline.log_scalars]:
      `gradline/step`, `gradline/slope/start`, `gradline/total/evaluations`, etc.

    Use it as `Trainer(..., callbacks=[LineSearchCallback()])`. `Trainer` calls its loggers (TensorBoard and others)
    before your callbacks, so that they do not get the added values; use `attach` if they should.
    """

    def __init__(self) -> None:
        self._stops: Counter[str] = Counter()
        self._handle: RemovableHandle | None = None

    def attach(self, trainer: Trainer) -> None:
        """Add the callback to a trainer before its loggers; use it instead of the argument `callbacks`."""
        trainer.add_callback(self)
        callbacks = trainer.callback_handler.callbacks
        callbacks.insert(1, callbacks.pop())  # the first one decides what is saved and logged

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to count the reasons why searches end. Raises an error if the optimizer is not one of gradline."""
        self._handle = count_stops(_line_search_in(kwargs["optimizer"]), self._stops)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before a checkpoint, move to the accepted point. `Trainer` later calls `optimizer.train()`."""
        if control.should_save:
            _line_search_in(kwargs["optimizer"]).eval()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move to the accepted point, since a checkpoint or the end of training may follow."""
        _line_search_in(kwargs["optimizer"]).eval()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stay at the accepted point. If the best model was loaded, discard the search, which was elsewhere."""
        optimizer = _line_search_in(kwargs["optimizer"])
        if self._handle is not None:
            self._handle.remove()
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            optimizer.continue_from_here()  # moves nothing, since the epoch ended in eval()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add the last search to training logs, not to evaluation logs."""
        optimizer = _line_search_in(kwargs["optimizer"])
        last = optimizer.last
        if logs is None or "loss" not in logs or last.stop is Stop.NOT_YET:
            return
        added = scalars_of(optimizer, last, self._stops)
        logs.update(added)
        if state.log_history:
            state.log_history[-1].update(added)


def _line_search_in(optimizer: Any) -> GradlineOptimizer:
    """Return the gradline optimizer inside Accelerate's wrapper."""
    inner = optimizer
    while inner is not None and not isinstance(inner, GradlineOptimizer):
        inner = getattr(inner, "optimizer", None)
    if inner is None:
        raise TypeError(
            f"the Trainer's optimizer must be one of gradline's for LineSearchCallback (it asks it for the accepted "
            f"point), got {type(optimizer).__name__}"
        )
    return inner
