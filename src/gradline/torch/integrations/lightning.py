"""`LineSearchCallback`: use gradline optimizers with Lightning's `Trainer`.

Lightning can train with a gradline optimizer without this callback, except if a search is spread over mini-batches:
then the parameters are at a probe between mini-batches. The callback sets them to the **accepted point outside of
training batches**, so that validation, tests, checkpoints, other callbacks and the trained model use that point. The
optimizer's checkpoint includes the probe, and a resumed run returns to it with its first mini-batch.

It also raises errors for settings that would train incorrectly, and logs the searches.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from gradline.protocol import Record, Stop
from gradline.torch.base import GradlineOptimizer
from gradline.torch.integrations.lightning_private import logs_are_due, skips_backward
from gradline.torch.optimizer import LineSearchOptimizer

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        try:
            from pytorch_lightning import Callback
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{__name__} needs Lightning, which is not installed: pip install 'gradline[lightning]'",
                name="lightning",
            ) from error

__all__ = ["LineSearchCallback"]


class LineSearchCallback(Callback):
    """Callback that keeps the model at the accepted point outside of training batches and logs the searches.

    ```python
    from lightning.pytorch import Trainer
    from gradline.torch.integrations.lightning import LineSearchCallback

    trainer = Trainer(callbacks=[LineSearchCallback()], logger=False, enable_checkpointing=False)
    ```

    Place it before callbacks that read the parameters at the end of a batch. It ignores other optimizers.

    Every `log_every_n_steps` steps it logs, of the last finished search, `line_search/step`,
    `line_search/slope_at_start`, `line_search/slope_at_step` and `line_search/evaluations`; the total
    `line_search/evaluations_so_far`; and in `line_search/stop/SIGN_CHANGE` etc. the number of searches that ended for
    each reason (a member of [`Stop`][gradline.protocol.Stop]). With several optimizers, the second one's names begin
    with `line_search-1/`.

    Args:
        log: whether to log the searches.
    """

    def __init__(self, *, log: bool = True) -> None:
        self.log_searches = log
        self.stops: list[Counter[str]] = []
        """Number of searches that ended for each reason, for each optimizer."""
        self._handles: list[RemovableHandle] = []
        self._resting: list[tuple[LineSearchOptimizer, bool]] = []  # optimizers idle in this batch, with their `spread`

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise an error for settings under which training would be incorrect."""
        _check_accumulation(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Move to the accepted point (a checkpoint saved without this callback may be at a probe); start logging."""
        _rest(trainer)
        optimizers = _line_searches(trainer)
        self.stops += [Counter() for _ in optimizers[len(self.stops) :]]
        if self.log_searches:
            for optimizer, stops in zip(optimizers, self.stops, strict=False):
                self._handles.append(optimizer.register_search_hook(_counting(stops)))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Move to the current probe."""
        if skips_backward(trainer):
            self._resting = _stay(trainer)
            return
        _check_accumulation(trainer)  # a GradientAccumulationScheduler may have changed it
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
                name = f"line_search-{place}" if place else "line_search"
                values = _values(optimizer, stops)
                pl_module.log_dict({f"{name}/{key}": float(value) for key, value in values.items()})

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Move to the accepted point, in case the epoch ended within a batch."""
        _rest(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Move to the accepted point, since the model may still be saved or used."""
        _rest(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remove the hooks from the optimizers."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

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
        optimizer.refresh()
        optimizer.train()
        if isinstance(optimizer, LineSearchOptimizer):
            before.append((optimizer, optimizer.spread))
            optimizer.spread = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
    return before


def _scales(trainer: Trainer) -> bool:
    """Whether a GradScaler is used: Lightning then calls the closure itself, and `step()` without one."""
    return getattr(trainer.precision_plugin, "scaler", None) is not None


def _check_accumulation(trainer: Trainer) -> None:
    count = trainer.accumulate_grad_batches
    if count == 1 or _scales(trainer) or not trainer.lightning_module.automatic_optimization:
        return
    for optimizer in _line_searches(trainer):
        if isinstance(optimizer, LineSearchOptimizer) and not optimizer.spread:
            raise ValueError(
                f"accumulate_grad_batches must be 1 for a {type(optimizer).__name__} that makes a whole search in each "
                f"step (Lightning lets it evaluate the last of the batches only, on top of the gradients of the "
                f"others), got {count}. Build the optimizer with spread=True: then each step is one probe, on all of "
                f"the batches"
            )


def _counting(stops: Counter[str]) -> Any:
    def count(record: Record[Any, Any]) -> None:
        stops[record.stop.name] += 1

    return count


def _values(optimizer: GradlineOptimizer, stops: Counter[str]) -> dict[str, float]:
    """Return the values to log of an optimizer; none before its first search has ended."""
    last = optimizer.last
    if last.stop is Stop.NOT_YET:
        return {}
    values = {"step": last.step, "slope_at_start": last.origin.at_zero.slope}
    if last.outcome.probe is not None:
        values["slope_at_step"] = last.transcript[last.outcome.probe][1].slope
    values |= {"evaluations": last.evaluations, "evaluations_so_far": optimizer.evaluations}
    return values | {f"stop/{name}": count for name, count in stops.items()}
