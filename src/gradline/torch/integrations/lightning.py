"""`LineSearchCallback`: use gradline optimizers with Lightning's `Trainer`.

Lightning can train with a gradline optimizer without this callback, but then validation, checkpoints and the trained
model have the weights of the last mini-batch: with `Angle` not the average, and with a search that is spread over
mini-batches a probe. The callback sets the parameters to the **average, or to the accepted point, outside of training
batches**, for validation, tests, checkpoints, other callbacks and the trained model. The optimizer's checkpoint
includes the last point or probe, and a resumed run returns to it with its first mini-batch.

It also logs the searches.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from gradline.installing import needs
from gradline.protocol import Stop
from gradline.torch.base import GradlineOptimizer
from gradline.torch.integrations.lightning_private import logs_are_due, skips_backward
from gradline.torch.optimizer import LineSearchOptimizer
from gradline.torch.scalars import PREFIX, count_stops, scalars_of

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        with needs(__name__, "lightning"):
            from pytorch_lightning import Callback

__all__ = ["LineSearchCallback"]


class LineSearchCallback(Callback):
    """Callback that calls `optimizer.eval()` between training batches, and logs the searches.

    ```python
    from lightning.pytorch import Trainer
    from gradline.torch.integrations.lightning import LineSearchCallback

    trainer = Trainer(callbacks=[LineSearchCallback()], logger=False, enable_checkpointing=False)
    ```

    So validation, checkpoints and other callbacks use the average of [`gradline.Angle`][gradline.Angle], or the last
    accepted point of a line search. Place the callback before others that read the parameters at the end of a batch. It
    ignores optimizers that are not gradline's.

    Every `log_every_n_steps` steps it logs the last finished search under the names of
    [`log_scalars`][gradline.log_scalars]: `gradline/step`, `gradline/slope/start`, `gradline/total/evaluations`, etc.
    With several optimizers, the second one's names begin with `gradline-1/`.

    Args:
        log: whether to log the searches.
    """

    def __init__(self, *, log: bool = True) -> None:
        self.log_searches = log
        self.stops: list[Counter[str]] = []
        """Number of searches that ended for each reason, for each optimizer."""
        self._handles: list[RemovableHandle] = []
        self._resting: list[tuple[LineSearchOptimizer, bool]] = []  # optimizers idle in this batch, with their `spread`

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Move to the accepted point (a checkpoint saved without this callback may be at a probe); start logging.

        Without a `GradScaler`, allow Lightning to clip: in mixed precision it refuses for optimizers that unscale.
        """
        _rest(trainer)
        optimizers = _line_searches(trainer)
        if getattr(trainer.precision_plugin, "scaler", None) is None:
            for optimizer in optimizers:
                optimizer._step_supports_amp_scaling = False
        self.stops += [Counter() for _ in optimizers[len(self.stops) :]]
        if self.log_searches:
            for optimizer, stops in zip(optimizers, self.stops, strict=False):
                self._handles.append(count_stops(optimizer, stops))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Move to the current probe."""
        if skips_backward(trainer):
            self._resting = _stay(trainer)
            return
        for optimizer in _line_searches(trainer):
            optimizer.train()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move to the accepted point and log."""
        for resting, spread in self._resting:
            resting.spread = spread
        self._resting = []
        _rest(trainer)
        # Lightning's logging takes milliseconds: only if the values will be written, or read at the end of an epoch
        due = logs_are_due(trainer) or trainer.is_last_batch
        if self.log_searches and due and not trainer.barebones:
            for place, (optimizer, stops) in enumerate(zip(_line_searches(trainer), self.stops, strict=False)):
                if optimizer.last.stop is not Stop.NOT_YET:
                    prefix = f"{PREFIX}-{place}" if place else PREFIX
                    pl_module.log_dict(scalars_of(optimizer, optimizer.last, stops, prefix=prefix))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Move to the accepted point, in case the epoch ended within a batch."""
        _rest(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Move to the accepted point, since the model may still be saved or used."""
        _rest(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remove the hooks and the setting of `on_train_start` from the optimizers."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for optimizer in _line_searches(trainer):
            vars(optimizer).pop("_step_supports_amp_scaling", None)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts of stop reasons."""
        return {"stops": [dict(stops) for stops in self.stops]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the counts of stop reasons."""
        self.stops = [Counter(stops) for stops in state_dict["stops"]]


def _line_searches(trainer: Trainer) -> list[GradlineOptimizer]:
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, GradlineOptimizer)]


def _rest(trainer: Trainer) -> None:
    """Set parameters that are at a probe to the accepted point."""
    for optimizer in _line_searches(trainer):
        if optimizer.probing:
            optimizer.eval()


def _stay(trainer: Trainer) -> list[tuple[LineSearchOptimizer, bool]]:
    """Make the next step a no-op by setting all gradients to zero, and return the previous `spread` settings.

    `StochasticWeightAveraging` swaps in its average and passes over the data once more, for BatchNorm and without
    backward passes. Lightning still calls `step` at the end of that, on whatever gradients are left.
    """
    before = []
    for optimizer in _line_searches(trainer):
        optimizer.continue_from_here()
        optimizer.train()
        if isinstance(optimizer, LineSearchOptimizer):
            before.append((optimizer, optimizer.spread))
            optimizer.spread = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
    return before
