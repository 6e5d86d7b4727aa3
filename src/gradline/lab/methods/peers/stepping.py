"""How optimizers are driven: three small loops that all adapters share.

Each makes one step of an optimizer as its documentation has it, on an `Objective` that counts. `measured` gives the
model to be judged: the trained one, unless a method says that another one is its answer (an average, for example).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, TypeAlias

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from gradline.lab.bench.objective import Objective

Measured: TypeAlias = Callable[[], Any]
"""A context in which the model to be judged is there."""


class Stepper(Protocol):
    """An optimizer at work."""

    def step(self) -> None:
        """Make one step, however many evaluations that takes."""

    def measured(self) -> Any:
        """A context manager that gives the model to be judged."""


class Gradients:
    """One gradient for each step: `zero_grad`, `backward`, `step`.

    Args:
        objective: what is trained.
        optimizer: what trains it.
        take: makes the step from the loss; by default `optimizer.step()`.
        measured: gives the model to be judged; by default the trained one.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: Optimizer,
        *,
        take: Callable[[Tensor], Any] | None = None,
        measured: Measured | None = None,
    ) -> None:
        self._objective = objective
        self._optimizer = optimizer
        self._take = take or (lambda loss: optimizer.step())
        self._measured = measured or (lambda: as_it_is(objective))

    def step(self) -> None:
        """One evaluation on the next mini-batch, and the step."""
        self._objective.next_batch()
        self._optimizer.zero_grad()
        loss = self._objective.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        self._take(loss)

    def measured(self) -> Any:
        """See `Stepper`."""
        return self._measured()


class OneBatch:
    """A search on one mini-batch: the same for all evaluations of a step, as searches that compare values need it.

    Args:
        objective: what is trained.
        take: makes the step.
    """

    def __init__(self, objective: Objective, take: Callable[[], Any]) -> None:
        self._objective = objective
        self._take = take

    def step(self) -> None:
        """The step, on the next mini-batch."""
        self._objective.next_batch()
        self._take()

    def measured(self) -> Any:
        """See `Stepper`."""
        return as_it_is(self._objective)


class NewBatches:
    """A search whose every evaluation has the next mini-batch.

    Args:
        objective: what is trained.
        optimizer: one of gradline's.
        average: an average of the model that follows each step, and is the one to be judged.
    """

    def __init__(self, objective: Objective, optimizer: Any, average: AveragedModel | None = None) -> None:
        self._objective = objective
        self._optimizer = optimizer
        self._average = average

    def step(self) -> None:
        """One search."""
        self._optimizer.step(self._closure)
        if self._average is not None:
            self._average.update_parameters(self._objective.model)

    def _closure(self) -> Tensor:
        self._objective.next_batch()
        if self._optimizer.per_sample:
            return self._objective.losses()
        self._optimizer.zero_grad()
        loss = self._objective.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def measured(self) -> Any:
        """See `Stepper`."""
        return as_it_is(self._objective) if self._average is None else nullcontext(self._average.module)


@contextmanager
def as_it_is(objective: Objective) -> Iterator[nn.Module]:
    """The model that is trained."""
    yield objective.model


def closure(objective: Objective, optimizer: Optimizer, flag: str | None = None) -> Callable[..., Tensor]:
    """The closure that an optimizer calls: clears gradients, goes forward, goes backward.

    Args:
        objective: what is trained.
        optimizer: whose gradients are cleared.
        flag: the name of the closure's argument that says whether to go backward; `None`: it always does.
    """

    def evaluate(*places: bool, **named: bool) -> Tensor:
        backward = places[0] if places else named.get(flag, DEFAULTS[flag]) if flag else True
        if backward:
            optimizer.zero_grad()
        loss = objective.loss()
        if backward:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return evaluate


DEFAULTS = {"backward": True, "backwards": False}
"""What the flags of closures are where they are not given: torchzero's, and SaLSA's."""
