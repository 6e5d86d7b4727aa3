"""`find_lr`: record the steps of a short training run by a line search, then restore the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader

from gradline.installing import progress_bar
from gradline.protocol import Search
from gradline.searches import GolsI
from gradline.torch.batches import Batches, endless, unchanged
from gradline.torch.direction import DirectionFactory
from gradline.torch.learning_rate.recorder import StepRecorder
from gradline.torch.optimizer import LineSearchOptimizer
from gradline.torch.snapshot import Snapshot

PATIENCE = 2.0
"""Seconds before a progress bar is shown."""
FEW = 10
"""Number of steps below which a warning is issued."""
NOTE = (
    "gradline: find_lr calls loss with the parts of a batch, and loss calls the model itself: "
    "lambda x, y: loss_function(model(x), y)"
)
"""Note on an error in the first evaluation."""


def find_lr(
    model: nn.Module | Iterable[Tensor],
    loss: Callable[..., Tensor],
    batches: Any = None,
    *,
    evaluations: int = 300,
    direction: DirectionFactory | None = None,
    search: Search[Any, Any] | None = None,
    progress: bool | None = None,
) -> StepRecorder:
    """Find learning rates: record the steps of a short training run by a line search, then restore everything.

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    batches = gradline.batches.dynamic(inputs, targets, batch_size=64, seed=0)  # or a DataLoader

    steps = gradline.find_lr(
        model,
        lambda x, y: torch.nn.functional.mse_loss(model(x), y),
        batches,
        evaluations=100,
        direction=torch.optim.Adam,
    )
    adam = torch.optim.Adam(model.parameters(), lr=steps.fixed())
    ```

    Parameters, gradients, buffers (such as BatchNorm's statistics), the position of the batches and the states of
    random number generators are restored, also after an exception or Ctrl-C.

    Args:
        model: the model; or its parameters, but then buffers are not restored.
        loss: called with the parts of a mini-batch (with the batch itself if it is a dict or a tensor), or without
            arguments if `batches` is `None`. It returns the loss and does not call `backward()`.
        batches: [`gradline.batches`][gradline.batches], a `DataLoader`, or any other iterable that can be iterated
            repeatedly.
        evaluations: length of the run in gradient evaluations. The last search is completed.
        direction: the optimizer whose learning rate to find, as for [`GOLSI`][gradline.GOLSI]: `torch.optim.Adam`,
            `functools.partial(torch.optim.SGD, momentum=0.9)`, ... `None`: plain SGD.
        search: the line search, on slopes or values but not on variances. `None`: `GolsI()`.
        progress: show a progress bar (needs tqdm). `None`: only in a terminal, if tqdm is installed and the run takes
            more than 2 seconds.

    Returns:
        The recorded steps: `.fixed()` is a learning rate, `.schedule(optimizer)` a schedule.
    """
    place = Snapshot(model)
    if not callable(loss):
        raise TypeError(f"loss must be a function that returns the loss of a batch, got {loss!r}")
    if type(evaluations) is not int or evaluations < 1:
        raise ValueError(f"evaluations must be a whole number above 0 (the run is so long), got {evaluations!r}")
    _check_batches(batches)
    hidden = {"disable": None, "delay": PATIENCE} if progress is None else {}  # None: disabled if there is no terminal
    options = {"total": evaluations, "desc": "finding the learning rate", "unit": "evaluation", "leave": False}
    bar = progress_bar(progress, **options, **hidden)
    with _restored(place, batches), bar or nullcontext():
        optimizer = LineSearchOptimizer(place.parameters, GolsI() if search is None else search, direction=direction)
        if optimizer.per_sample:
            raise ValueError(
                f"search must observe slopes or values (the loss is one number here, without variances), got {search!r}"
            )
        recorder = StepRecorder(optimizer)
        closure = endless(batches).closure(optimizer, lambda *batch: _checked(loss(*batch)))
        while optimizer.evaluations < evaluations:
            before = optimizer.evaluations
            try:
                optimizer.step(closure)
            except Exception as error:
                if before == 0:
                    error.add_note(NOTE)
                raise
            if bar is not None:
                bar.update(optimizer.evaluations - before)
        recorder.stop()
    if len(recorder.steps) < FEW:
        warnings.warn(
            f"gradline: {len(recorder.steps)} steps are few to tell a learning rate from (the first search alone may "
            f"take 30 evaluations): give more than evaluations={evaluations}",
            RuntimeWarning,
            stacklevel=2,
        )
    return recorder


@contextmanager
def _restored(place: Snapshot, batches: Any) -> Iterator[None]:
    """Context manager that restores what `Snapshot.visited` does, and the position or the generators of the batches."""
    position = batches.state_dict() if isinstance(batches, Batches) else None
    loader = unchanged(batches) if isinstance(batches, DataLoader) else nullcontext()
    with place.visited(), loader:
        try:
            yield
        finally:
            if position is not None:
                batches.load_state_dict(position)  # may draw random numbers: a loader reads batches again


def _check_batches(batches: Any) -> None:
    if batches is None or isinstance(batches, Batches):
        return
    if not isinstance(batches, Iterable) or isinstance(batches, Tensor):
        raise TypeError(f"batches must be gradline.batches, a DataLoader or the like, got {type(batches).__name__}")
    if isinstance(batches, tuple | list) and any(isinstance(part, Tensor) for part in batches):
        raise TypeError(
            "batches must be gradline.batches, a DataLoader or the like, got tensors: write "
            "gradline.batches.dynamic(inputs, targets, batch_size=...)"
        )
    if isinstance(batches, Sized) and not len(batches):
        raise ValueError("batches must have at least one batch (the run goes through them), got none")
    if isinstance(batches, Iterator):
        raise TypeError(
            f"batches must be such that they can be gone through again (what is taken from an iterator cannot be put "
            f"back), got {type(batches).__name__}"
        )


def _checked(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or not value.requires_grad:
        raise ValueError(
            f"loss must compute the loss of a batch from the model (gradients are taken of it), got {value!r}, which "
            f"depends on no parameter"
        )
    return value
