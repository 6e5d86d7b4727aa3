"""Steppers train an objective with a method: each call makes one step of an optimizer as its documentation has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import gradline
from gradline.lab.methods.objective import Objective
from gradline.protocol import Moments, Record, Search, observes

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from gradline.torch.direction import DirectionFactory

    Model: TypeAlias = AbstractContextManager[nn.Module]


class Stepper(ABC):
    """A method that trains an objective."""

    record: Record[Any, Any] | None = None
    """The search or step that the last call of `step` ended; `None`: it ended none, or has no record."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    @abstractmethod
    def step(self) -> None:
        """Make one step, however many evaluations that takes."""

    def measured(self) -> Model:
        """Return a context manager with the model to be measured: the trained one, or an average of its points."""
        return nullcontext(self.objective.model)

    @property
    def evaluations(self) -> float | None:
        """Evaluations as the method counts them; `None`: it does not."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """Return what training continues from, beside the model; `None`: a run that was stopped begins anew."""
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        raise NotImplementedError


class Gradients(Stepper):
    """One gradient for each step: `zero_grad`, `backward`, `step`.

    Args:
        objective: what is trained.
        optimizer: what trains it.
        take: makes the step from the loss; by default `optimizer.step()`.
        measured: returns a context manager with the model to be measured; by default the trained one.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: Optimizer,
        *,
        take: Callable[[Tensor], Any] | None = None,
        measured: Callable[[], Model] | None = None,
    ) -> None:
        super().__init__(objective)
        self.optimizer = optimizer
        self._take = take or (lambda loss: optimizer.step())
        self._measured = measured or super().measured

    def step(self) -> None:
        self.objective.next_batch()
        self.optimizer.zero_grad()
        self._take(self.objective.backward())

    def measured(self) -> Model:
        return self._measured()


class AngleSteps(Gradients):
    """`gradline.Angle`: one evaluation for each step, and in `eval()` the average."""

    optimizer: gradline.Angle

    @property
    def evaluations(self) -> float:
        return self.optimizer.evaluations

    def step(self) -> None:
        before = self.optimizer.iterations
        super().step()
        self.record = self.optimizer.last if self.optimizer.iterations > before else None

    @contextmanager
    def measured(self) -> Iterator[nn.Module]:
        with self.optimizer.eval():
            yield self.objective.model

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])


class OneBatch(Stepper):
    """A search on one mini-batch: the same for all evaluations of a step, as searches that compare values need it.

    Args:
        objective: what is trained.
        optimizer: what trains it; it may leave gradients as they are, each evaluation clears them.
        flag: the name of the closure's argument that says whether to compute gradients, and its default; `None`: it has
            none and always computes them.
    """

    def __init__(self, objective: Objective, optimizer: Optimizer, flag: tuple[str, bool] | None = None) -> None:
        super().__init__(objective)
        self._optimizer: Any = optimizer
        self._name, self._default = flag or ("", True)

    def step(self) -> None:
        self.objective.next_batch()
        self._optimizer.zero_grad()
        self._optimizer.step(self._closure)

    def _closure(self, *places: bool, **named: bool) -> Tensor:
        if not (places[0] if places else named.get(self._name, self._default)):
            return self.objective.loss()
        self._optimizer.zero_grad()
        return self.objective.backward()


class Searching(Stepper):
    """One of gradline's searches, along the update of a torch optimizer; every evaluation has the next mini-batch.

    Without a `direction` it is steepest descent. With `average` a `gradline.LateAverage` of the points is measured.
    """

    def __init__(
        self,
        objective: Objective,
        search: Search[Any, Any],
        direction: DirectionFactory | None = None,
        *,
        average: bool = False,
    ) -> None:
        super().__init__(objective)
        self.optimizer = gradline.LineSearchOptimizer(
            objective.parameters,
            search,
            direction=direction,
            reuse_gradient=objective.reuse_gradient,
            diagonal=objective.diagonal and observes(search) is Moments,
        )
        self._average = gradline.LateAverage(objective.model) if average else None
        self.keep_direction = False
        """Whether to keep the direction of each search."""
        self.direction: list[Tensor] = []
        """The direction of the last search, if directions are kept."""

    @property
    def evaluations(self) -> float:
        return self.optimizer.evaluations

    @property
    def origin(self) -> list[Tensor]:
        """The parameters where the last search began."""
        line: Any = self.optimizer._session.line
        return list(line.origins)

    def step(self) -> None:
        self.optimizer.step(self._closure)
        self.record = self.optimizer.last
        if self._average is not None:
            self._average.update_parameters(self.objective.model)

    def _closure(self) -> Tensor:
        if self.keep_direction:
            self._copy_direction()
        self.objective.next_batch()
        if self.optimizer.per_sample:
            return self.objective.losses()
        self.optimizer.zero_grad()
        return self.objective.backward()

    def _copy_direction(self) -> None:
        """Copy the direction of a search at its first probe: at its end the direction may be the next search's."""
        session = self.optimizer._session
        pending = session.driver.pending
        if pending is not None and not pending.transcript:
            self.direction = [part.clone() for part in session.line.directions]  # type: ignore[union-attr]

    def measured(self) -> Model:
        return super().measured() if self._average is None else nullcontext(self._average.module)

    def state_dict(self) -> dict[str, Any]:
        average = None if self._average is None else dict(self._average.state_dict())
        return {"optimizer": self.optimizer.state_dict(), "average": average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])
