"""`LineSearchCallback`: what Hugging Face's `Trainer` does not do for an optimizer whose probes move the parameters.

`Trainer` calls `step()` without a closure, so each of its steps is one probe, and between steps the parameters stand at
a probe. It calls the optimizer's `eval()` before it evaluates and `train()` before it trains on. It does not before it
saves, and not when training ends. The callback does.

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

from typing import Any, cast

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradline.torch.optimizer import LineSearchOptimizer

__all__ = ["LineSearchCallback"]

PREFIX = "line_search/"


class LineSearchCallback(TrainerCallback):
    """Saves and ends at the accepted point, and logs what the searches do.

    * Checkpoints hold the model at the last accepted point, with an optimizer that knows it: resumed training is bit
      for bit the uninterrupted one, and the saved model is fit for use.
    * At the end of training the model is at the last accepted point, or is the best one where
      `load_best_model_at_end=True`.
    * The last search is added to each training log: `line_search/step`, `line_search/slope` (at its start),
      `line_search/evaluations` and `line_search/searches` (how many have ended); in `trainer.state.log_history` also
      `line_search/stop`, why it ended.

    `Trainer(..., callbacks=[LineSearchCallback()])` is enough. `Trainer` calls its loggers (TensorBoard and others)
    before your own callbacks, so these do not get the added values. Use `attach` to have them there too.
    """

    def attach(self, trainer: Trainer) -> None:
        """Add it to a trainer ahead of the loggers, instead of giving it as one of `callbacks`."""
        trainer.add_callback(self)
        callbacks = trainer.callback_handler.callbacks
        callbacks.insert(1, callbacks.pop())  # the first one decides what is saved and logged

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Refuse other optimizers at once."""
        _line_search_in(kwargs["optimizer"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Before a checkpoint, go to the accepted point. `Trainer` calls `optimizer.train()` when it trains on."""
        if control.should_save:
            _line_search_in(kwargs["optimizer"]).eval()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Go to the accepted point: a checkpoint may follow, or the end of training."""
        _line_search_in(kwargs["optimizer"]).eval()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stay at the accepted point. If the best model was loaded, forget the search: it was somewhere else."""
        optimizer = _line_search_in(kwargs["optimizer"])
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            optimizer.refresh()  # moves nothing, since the epoch ended at the accepted point

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the last search to the logs of training, not to those of an evaluation."""
        optimizer = _line_search_in(kwargs["optimizer"])
        last = optimizer.last
        if logs is None or "loss" not in logs or last is None:
            return
        numbers = {
            "step": last.step,
            "slope": last.origin.at_zero.slope,
            "evaluations": last.evaluations,
            "searches": optimizer.iterations,
        }
        added = {f"{PREFIX}{name}": number for name, number in numbers.items()}
        logs.update(added)
        if state.log_history:
            # Numbers only for the loggers: TensorBoard's complains of sentences.
            state.log_history[-1].update(cast("dict[str, float]", {**added, f"{PREFIX}stop": str(last.stop)}))


def _line_search_in(optimizer: Any) -> LineSearchOptimizer:
    """The line search inside Accelerate's wrapper."""
    inner = optimizer
    while inner is not None and not isinstance(inner, LineSearchOptimizer):
        inner = getattr(inner, "optimizer", None)
    if inner is None:
        raise TypeError(
            f"the Trainer's optimizer must be one of gradline's for LineSearchCallback (it asks it for the accepted "
            f"point), got {type(optimizer).__name__}"
        )
    return inner
