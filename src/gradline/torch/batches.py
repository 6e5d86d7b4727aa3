"""Endless mini-batches for line searches: dynamic, static or full sampling (Definitions 2.1 and 2.2 of the paper).

* `dynamic`: a new mini-batch for every evaluation, for gradient-only searches.
* `static`: one mini-batch for all evaluations of a step, for searches that compare values.
* `full`: all data in every evaluation.

```python
import torch, gradline

inputs = torch.randn(500, 4)
targets = inputs.sum(dim=1, keepdim=True)
model = torch.nn.Linear(4, 1)
optimizer = gradline.GOLSI(model.parameters())
batches = gradline.batches.dynamic(inputs, targets, batch_size=50, seed=0)

closure = batches.closure(optimizer, lambda x, y: torch.nn.functional.mse_loss(model(x), y))
for _ in range(100):
    loss = optimizer.step(closure)

for x, y in batches.take(100):  # the same, without a closure
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
```
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from gradline.torch.snapshot import seed_generators

__all__ = ["Batches", "dynamic", "full", "static"]


def dynamic(*source: Any, batch_size: int | None = None, seed: int | None = None) -> Batches:
    """Return batches that draw a new mini-batch for every evaluation.

    Args:
        source: tensors of equal length, or one `DataLoader`. Tensors are reshuffled in every epoch and incomplete
            mini-batches dropped; a loader shuffles and drops as it is configured.
        batch_size: samples per mini-batch of tensors; must not be given with a loader.
        seed: seed of the order. `None`: draw one from torch's global generator.
    """
    return _drawn(source, batch_size, seed, keep=False)


def static(*source: Any, batch_size: int | None = None, seed: int | None = None) -> Batches:
    """Return batches that use one mini-batch for all evaluations of a step; arguments as for `dynamic`."""
    return _drawn(source, batch_size, seed, keep=True)


def full(*source: Any) -> Batches:
    """Return batches that use all data in every evaluation: tensors, or the concatenated batches of a `DataLoader`."""
    if len(source) == 1 and isinstance(source[0], DataLoader):
        whole = _join(list(source[0]))
    else:
        check_tensors(source)
        whole = source
    return Batches(lambda *_: iter((whole,)), keep=True, source=source)


def endless(batches: Any) -> Batches:
    """Return any iterable of mini-batches as `Batches`, in its own order; of `None`, empty mini-batches."""
    if isinstance(batches, Batches):
        return batches
    return Batches(lambda *_: iter(((),) if batches is None else batches), keep=False)


def call_with(batch: Any, loss: Callable[..., Any]) -> Any:
    """Call a loss with the parts of a mini-batch, or with the batch itself if it is no tuple or list."""
    return loss(*batch) if isinstance(batch, tuple | list) else loss(batch)


class Batches(Iterator[Any]):
    """Endless iterator over mini-batches whose position can be saved and restored.

    They come in epochs, each with its own seed, so that seed, epoch and batch index are the whole position.
    """

    def __init__(
        self,
        begin: Callable[[int, int], Iterator[Any]],
        *,
        keep: bool,
        source: tuple[Any, ...] = (),
        batch_size: int | None = None,
        seed: int | None = 0,
        sizes: Sequence[int] = (),
    ) -> None:
        self._begin = begin  # an epoch, from its seed and index
        self._keep = keep
        self.source = source
        """The data: tensors of equal length, or one `DataLoader`."""
        self.batch_size = batch_size
        """Samples per mini-batch of tensors; `None` for a loader and for full sampling."""
        self._sizes = list(sizes)  # of the data: a position is valid only for the same sizes
        self._seed = int(torch.randint(2**63 - 1, (), device="cpu")) if seed is None else seed
        self._epoch = self._position = 0
        self._batches: Iterator[Any] | None = None
        self._current: Any = None
        self._taken = False  # whether there is a current batch
        self._hooked: WeakSet[Optimizer] = WeakSet()

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        """Return the next mini-batch in any mode, for loops without a closure."""
        self.advance()
        return self._current

    def take(self, count: int) -> _Taken:
        """Return an iterator over the next `count` mini-batches, whose length is `count`."""
        return _Taken(self, count)

    def draw(self) -> Any:
        """Return the mini-batch for one evaluation: a new one (dynamic), or the one of this step (static, full)."""
        if not (self._keep and self._taken):
            self.advance()
        return self._current

    def advance(self) -> None:
        """Make the next mini-batch the current one."""
        for _ in range(2):
            try:
                if self._batches is None:
                    self._batches = self._begun()
                self._current = next(self._batches)
            except StopIteration:
                self._batches = None
                self._epoch += 1
                self._position = 0
            except BaseException:
                self._batches = None  # the iterator may be exhausted: restart the epoch and retry this batch
                raise
            else:
                self._position += 1
                self._taken = True
                return
        raise ValueError("source must have at least one batch (it is drawn from without end), got an empty one")

    def _begun(self) -> Iterator[Any]:
        """Return the epoch from the current position on; earlier batches are read and discarded."""
        entropy = np.random.SeedSequence((self._seed, self._epoch)).generate_state(1, np.uint64)
        batches = self._begin(int(entropy[0] >> np.uint64(1)), self._epoch)
        for _ in range(self._position):
            next(batches)
        return batches

    def closure(self, optimizer: Optimizer, loss: Callable[..., Tensor]) -> Callable[[], Tensor]:
        """Return a closure that clears gradients, draws a mini-batch, computes its loss and calls `backward()`.

        For an optimizer that needs per-sample losses (PrLS) the closure does not call `backward()`. With static
        sampling each step of the optimizer uses a new mini-batch; a step that raises keeps its mini-batch.

        Args:
            optimizer: the optimizer to whose `step` the closure is passed.
            loss: called with the parts of a mini-batch (with the batch itself if it is a dict or a tensor). It returns
                the loss; for PrLS the per-sample losses (`reduction="none"`).
        """
        if self._keep and optimizer not in self._hooked:
            optimizer.register_step_post_hook(self._end_step)
            self._hooked.add(optimizer)
        per_sample = getattr(optimizer, "per_sample", False)

        def closure() -> Tensor:
            optimizer.zero_grad()
            value: Tensor = call_with(self.draw(), loss)
            if not per_sample:
                value.backward()  # type: ignore[no-untyped-call]
            return value

        closure.same_noise = self._keep  # type: ignore[attr-defined]  # static sampling keeps dropout masks too
        return closure

    def _end_step(self, *_: Any) -> None:
        self._taken = False

    def state_dict(self) -> dict[str, Any]:
        """Return the position as plain numbers."""
        stream = {"seed": self._seed, "epoch": self._epoch, "position": self._position, "sizes": self._sizes}
        return {"stream": stream, "taken": self._taken}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved position. A loader reads and discards the batches of its epoch up to it."""
        try:
            stream, taken = state_dict["stream"], bool(state_dict["taken"])
            sizes = list(stream["sizes"])
            seed, epoch, position = (operator.index(stream[name]) for name in ("seed", "epoch", "position"))
        except (LookupError, TypeError) as error:
            raise ValueError(
                f"state_dict must be what state_dict() of batches gave (it is a position), got {state_dict!r}"
            ) from error
        if sizes != self._sizes:
            raise ValueError(
                f"state_dict must be of the same data and batch size (a position means nothing elsewhere): "
                f"it has {sizes}, here are {self._sizes}"
            )
        before = self._seed, self._epoch, self._position
        self._batches = None
        try:
            self._seed, self._epoch, self._position = seed, epoch, max(position - 1, 0)
            if position:
                self.advance()
        except BaseException:
            self._seed, self._epoch, self._position = before
            raise
        self._taken = taken


class _Taken(Iterator[Any]):
    """An iterator over some mini-batches that knows how many there are, as progress bars ask."""

    def __init__(self, batches: Batches, count: int) -> None:
        self._count = operator.index(count)
        self._rest = itertools.islice(batches, self._count)

    def __len__(self) -> int:
        return self._count

    def __next__(self) -> Any:
        return next(self._rest)


def _drawn(source: tuple[Any, ...], batch_size: int | None, seed: int | None, *, keep: bool) -> Batches:
    if seed is not None and seed < 0:
        raise ValueError(f"seed must be 0 or more (it seeds a generator), got {seed!r}")
    if len(source) == 1 and isinstance(source[0], DataLoader):
        if batch_size is not None:
            raise ValueError(f"batch_size must not be given with a DataLoader (it has its own), got {batch_size!r}")
        loader = source[0]
        sizes = [len(loader)] if hasattr(loader.sampler, "__len__") else []
        return Batches(partial(loader_epoch, loader), keep=keep, source=source, seed=seed, sizes=sizes)
    samples = check_tensors(source)
    if not isinstance(batch_size, int) or not 1 <= batch_size <= samples:
        raise ValueError(f"batch_size must be between 1 and the number of samples, {samples}, got {batch_size!r}")
    epoch = partial(_tensor_epoch, source, batch_size)
    return Batches(epoch, keep=keep, source=source, batch_size=batch_size, seed=seed, sizes=[samples, batch_size])


def check_tensors(source: tuple[Any, ...], name: str = "source", other: str = " or one DataLoader") -> int:
    """Return the number of samples in tensors; raise an error for others than tensors of equal length."""
    if not source or not all(isinstance(part, Tensor) and part.ndim for part in source):
        kinds = ", ".join(type(part).__name__ for part in source) or "nothing"
        raise TypeError(f"{name} must be tensors of samples{other}, got {kinds}")
    lengths = [len(part) for part in source]
    if len(set(lengths)) != 1 or lengths[0] == 0:
        raise ValueError(f"{name} must be tensors of equal length (a sample is a row of each), got lengths {lengths}")
    return lengths[0]


def _tensor_epoch(tensors: tuple[Tensor, ...], batch_size: int, seed: int, _epoch: int) -> Iterator[Any]:
    samples = len(tensors[0])
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed), device="cpu")
    for start in range(0, samples - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield tuple(tensor[chosen.to(tensor.device)] for tensor in tensors)


def loader_epoch(loader: DataLoader[Any], seed: int, epoch: int) -> Iterator[Any]:
    """Yield the batches of one epoch of a loader, all random draws seeded; the global generator is not changed.

    torch's samplers shuffle by their own generator if they have one, and the loader seeds its workers by its own. Other
    code draws from the global generator when the iterator is created or the first batch is read.
    """
    for sampler in _samplers(loader):
        if hasattr(sampler, "generator"):
            sampler.generator = torch.Generator().manual_seed(seed)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
    if isinstance(loader.generator, torch.Generator):
        loader.generator.manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        seed_generators(seed)
        batches = iter(loader)
        first = list(itertools.islice(batches, 1))
    yield from first
    yield from batches


def _samplers(loader: DataLoader[Any]) -> list[Any]:
    return [loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]


@contextmanager
def unchanged(loader: DataLoader[Any]) -> Iterator[None]:
    """Context manager that restores the random number generators of a loader and its samplers, and their epoch."""
    kept = [(one, name) for one in _samplers(loader) for name in ("generator", "epoch") if hasattr(one, name)]
    values = [getattr(one, name) for one, name in kept]
    found = {id(one): one for one in (loader.generator, *values) if isinstance(one, torch.Generator)}
    states = [(generator, generator.get_state()) for generator in found.values()]
    try:
        yield
    finally:
        for (one, name), value in zip(kept, values, strict=True):
            setattr(one, name, value)
        for generator, state in states:
            generator.set_state(state)


def _join(parts: list[Any]) -> Any:
    """Concatenate batches of the same structure."""
    if not parts:
        raise ValueError("source must have at least one batch, got an empty DataLoader")
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, dict):
        return {key: _join([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple | list):
        return tuple(_join([part[place] for part in parts]) for place in range(len(first)))
    raise TypeError(f"source must give batches of tensors (they are joined into one), got {type(first).__name__}")
