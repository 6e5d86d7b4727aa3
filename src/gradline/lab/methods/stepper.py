"""Steppers train a task with a method. All methods share three small loops.

Each makes one step of an optimizer as its documentation has it, on an `Objective` that counts. `measured` gives the
model to be judged: the trained one, unless a method says that another one is its answer (an average, for example).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from gradline.lab.methods.objective import Objective
    from gradline.protocol import Record, Search
    from gradline.torch import Angle
    from gradline.torch.direction import DirectionFactory

Measured: TypeAlias = Callable[[], Any]
"""A context in which the model to be measured is there."""


class Stepper(ABC):
    """A method that trains a task."""

    @abstractmethod
    def step(self) -> None:
        """Make one step, however many evaluations that takes."""

    @abstractmethod
    def measured(self) -> Any:
        """Return a context manager that gives the model to be measured."""

    @property
    def evaluations(self) -> float | None:
        """Evaluations as the method counts them; `None`: it does not."""
        return None

    @property
    def record(self) -> Record[Any, Any] | None:
        """The search or step that the last call of `step` ended; `None`: it ended none, or has no record."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """All there is to go on from, beside the model; `None`: a run that was stopped begins anew."""
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        raise NotImplementedError


class Gradients(Stepper):
    """One gradient for each step: `zero_grad`, `backward`, `step`.

    Args:
        objective: what is trained.
        optimizer: what trains it.
        take: makes the step from the loss; by default `optimizer.step()`.
        measured: gives the model to be measured; by default the trained one.
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


class AngleSteps(Gradients):
    """`gradline.Angle`: one evaluation for each step, and in `eval()` the average of the late points.

    Args:
        objective: what is trained.
        optimizer: the optimizer.
    """

    def __init__(self, objective: Objective, optimizer: Angle) -> None:
        super().__init__(objective, optimizer, measured=self._evaluated)
        self.optimizer = optimizer
        self._record: Record[Any, Any] | None = None

    @property
    def evaluations(self) -> float:
        """Gradients used so far."""
        return self.optimizer.evaluations

    @property
    def record(self) -> Record[Any, Any] | None:
        """The last step; `None` while the first step is searched for."""
        return self._record

    def step(self) -> None:
        """One evaluation on the next mini-batch, and the step."""
        before = self.optimizer.iterations
        super().step()
        self._record = self.optimizer.last if self.optimizer.iterations > before else None

    @contextmanager
    def _evaluated(self) -> Iterator[nn.Module]:
        with self.optimizer.eval():
            yield self._objective.model

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, which has the average."""
        return {"optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.optimizer.load_state_dict(state["optimizer"])


class OneBatch(Stepper):
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


class Searching(Stepper):
    """One of gradline's searches; every evaluation asks for the next mini-batch.

    Args:
        objective: what is trained.
        search: the search.
        direction: the torch optimizer whose update gives the direction; `None`: steepest descent.
        average: judge the model by an average of its points (`gradline.LateAverage`).
    """

    def __init__(
        self,
        objective: Objective,
        search: Search[Any, Any],
        direction: DirectionFactory | None = None,
        *,
        average: bool = False,
    ) -> None:
        from gradline.protocol import Moments, observes
        from gradline.torch import LateAverage, LineSearchOptimizer

        self.optimizer = LineSearchOptimizer(
            objective.parameters,
            search,
            direction=direction,
            reuse_gradient=objective.reuse_gradient,
            diagonal=objective.diagonal and observes(search) is Moments,
        )
        self._objective = objective
        self._average = LateAverage(objective.model) if average else None
        self.watch_direction = False
        """Whether to keep the direction of each search."""
        self._direction: list[Tensor] = []

    @property
    def evaluations(self) -> float:
        """Evaluations of all searches so far."""
        return self.optimizer.evaluations

    @property
    def record(self) -> Record[Any, Any]:
        """The search of the last step."""
        assert self.optimizer.last is not None
        return self.optimizer.last

    @property
    def direction(self) -> list[Tensor]:
        """The direction of the last search, where directions are watched."""
        return self._direction

    @property
    def origin(self) -> list[Tensor]:
        """The parameters where the last search began."""
        line: Any = self.optimizer._session.line
        return list(line.origins)

    def step(self) -> None:
        """One search."""
        self.optimizer.step(self._closure)
        if self._average is not None:
            self._average.update_parameters(self._objective.model)

    def _closure(self) -> Tensor:
        if self.watch_direction:
            self._note_direction()
        self._objective.next_batch()
        if self.optimizer.per_sample:
            return self._objective.losses()
        self.optimizer.zero_grad()
        loss = self._objective.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def _note_direction(self) -> None:
        """Keep the direction of a search that makes its first probe: at its end it may be the next one's."""
        session = self.optimizer._session
        pending = session.driver.pending
        if pending is not None and not pending.transcript:
            self._direction = [part.clone() for part in session.line.directions]  # type: ignore[union-attr]

    def measured(self) -> Any:
        """See `Stepper`."""
        return as_it_is(self._objective) if self._average is None else nullcontext(self._average.module)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, and the average's."""
        average = None if self._average is None else dict(self._average.state_dict())
        return {"optimizer": self.optimizer.state_dict(), "average": average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.optimizer.load_state_dict(state["optimizer"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])


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
