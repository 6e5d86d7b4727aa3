"""A model, a loss and data of your own as a problem: a function builds them, and any method trains them."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib.util
import inspect
import math
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradline.lab.problems.problem import Problem
from gradline.lab.problems.task import Measured, Task
from gradline.lab.tools.arguments import PATTERN
from gradline.searches.arguments import require

if TYPE_CHECKING:
    from torch import Tensor, nn

BATCH_SIZE = 32
"""Samples of a batch, where neither the training data nor the caller say it."""
MEASURED = 2000
"""Samples on which losses and errors are measured: of the training data, and of the validation data."""
HELD_OUT = 0.2
"""Share of the training samples that is held out where there are no validation data."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions that are in no file (those of notebooks), by the digest of their source."""
_IMPORTING: set[str] = set()
"""Files that are being imported."""


@dataclass(frozen=True, eq=False)
class Training:
    """A model, a loss and data.

    ```python
    import torch
    from gradline.lab import Training

    def build():
        inputs = torch.randn(500, 4)
        model = torch.nn.Linear(4, 1)
        return Training(model, torch.nn.functional.mse_loss, (inputs, inputs.sum(dim=1, keepdim=True)))
    ```

    Args:
        model: the module to train, on its device.
        loss: called as `loss(outputs, targets)`; returns the mean loss of a batch.
        train: training data: a tuple of tensors, a map-style `Dataset`, or a `DataLoader`, of which the data set, the
            batch size and `collate_fn` are used. Its last part is the targets, the others are passed to the model.
        validation: validation data, as `train`; `None`: a fifth of the training samples is held out.
        batch_size: samples of a batch; `None`: that of the `DataLoader`, else 32.
        error: called as `error(outputs, targets)`; returns a mean to be shown beside the loss. `None`: the share of
            wrong classes where targets are class indices, else nothing.
        forward: called as `forward(model, batch)`; returns outputs and targets. `None`: `model(*batch[:-1])` and
            `batch[-1]`.
    """

    model: nn.Module
    loss: Callable[[Any, Any], Tensor]
    train: Any
    validation: Any = None
    batch_size: int | None = None
    error: Callable[[Any, Any], Any] | None = None
    forward: Callable[[nn.Module, Any], tuple[Any, Any]] | None = None

    def task(self) -> Task:
        """Return the task: mean losses of training batches, and losses and errors of both parts of the data."""
        import torch

        train = _Samples(self.train, "train")
        if self.validation is None:
            order = torch.randperm(len(train.chosen), generator=torch.Generator().manual_seed(0))
            count = max(1, round(HELD_OUT * len(order)))
            validation = copy.copy(train)
            validation.chosen, train.chosen = order[:count], order[count:]
        else:
            validation = _Samples(self.validation, "validation")
        size = 4 * self.batch()

        def losses(model: nn.Module, chosen: Tensor | slice) -> Tensor:
            return self._evaluate(model, train, chosen)[0]

        def measure(model: nn.Module) -> Measured:
            found = [_mean(self._evaluate, model, samples, size) for samples in (train, validation)]
            return Measured(*found[0], math.nan, math.nan, *found[1])

        return Task(self.model, len(train.chosen), losses, measure)

    def batch(self) -> int:
        return self.batch_size or getattr(self.train, "batch_size", None) or BATCH_SIZE

    def _evaluate(self, model: nn.Module, samples: _Samples, chosen: Tensor | slice) -> tuple[Tensor, float]:
        """Return the mean loss of a batch of chosen samples, and its error (NaN where it has none)."""
        import torch

        batch = samples.batch(chosen)
        if self.forward is None and (not isinstance(batch, tuple | list) or len(batch) < 2):
            raise TypeError(
                f"{samples.name} must have batches of inputs and targets (the model is called with the first, the loss "
                f"with the second), got {_kind(batch)}; Training(forward=...) takes others"
            )
        batch = _moved(batch, next((parameter.device for parameter in model.parameters()), torch.device("cpu")))
        outputs, targets = (self.forward or _forward)(model, batch)
        loss = self.loss(outputs, targets)
        scalar = isinstance(loss, torch.Tensor) and loss.dim() == 0
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        require(scalar, "loss", "a function that returns a tensor without dimensions", "it is a batch's mean", got)
        if torch.is_grad_enabled():
            return loss, math.nan
        return loss, float((self.error or _wrong_classes)(outputs, targets))


def _forward(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    return model(*batch[:-1]), batch[-1]


def _kind(value: Any) -> str:
    """Return the name of a value's type, with those of its entries."""
    entries = f" of {', '.join(type(part).__name__ for part in value)}" if isinstance(value, tuple | list) else ""
    return f"{type(value).__name__}{entries}"


def _wrong_classes(outputs: Any, targets: Any) -> float:
    """Return the share of wrong classes, or NaN where targets are no class indices."""
    import torch

    if not (isinstance(outputs, torch.Tensor) and isinstance(targets, torch.Tensor)):
        return math.nan
    if targets.is_floating_point() or targets.dim() != outputs.dim() - 1:
        return math.nan
    return float((outputs.argmax(dim=1) != targets).float().mean())


def _moved(batch: Any, device: Any) -> Any:
    """Return a batch with its tensors on a device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: _moved(part, device) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(_moved(part, device) for part in batch) if type(batch) in (tuple, list) else batch
    return batch


class _Samples:
    """Training or validation samples: tensors, or the items of a data set."""

    def __init__(self, source: Any, name: str) -> None:
        import torch
        from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

        self.name = name
        self._collate: Callable[[list[Any]], Any] = default_collate
        if isinstance(source, DataLoader):
            self._collate, source = source.collate_fn, source.dataset
        if isinstance(source, tuple | list) and all(isinstance(part, torch.Tensor) for part in source):
            lengths = {len(part) for part in source}
            require(len(lengths) == 1, name, "tensors of equal length", "they belong together", sorted(lengths))
            source = TensorDataset(*source)
        sized = hasattr(source, "__len__") and hasattr(source, "__getitem__")
        rule = "a tuple of tensors, a data set with a length, or a DataLoader of one"
        reason = "all methods are trained on the same batches, which are drawn by index"
        require(sized and not isinstance(source, IterableDataset), name, rule, reason, type(source).__name__)
        require(len(source) > 0, name, "at least one sample", "there is nothing to train on", 0)
        self._source, self._tensors = source, isinstance(source, TensorDataset)
        self.chosen = torch.arange(len(source))
        """Places of the samples in the source: of all, unless part of them is held out."""

    def batch(self, chosen: Tensor | slice) -> Any:
        """Return a batch of chosen samples."""
        places = self.chosen[chosen if isinstance(chosen, slice) else chosen.long()]
        if self._tensors:
            return self._source[places]
        return self._collate([self._source[place] for place in places.tolist()])


def _mean(evaluate: Any, model: nn.Module, samples: _Samples, size: int) -> tuple[float, float]:
    """Return the mean loss and error of at most `MEASURED` samples, always the same ones."""
    import torch

    order = torch.randperm(len(samples.chosen), generator=torch.Generator().manual_seed(1))[:MEASURED]
    loss = error = 0.0
    with torch.no_grad():
        for part in torch.split(order, size):
            found = evaluate(model, samples, part)
            loss += float(found[0]) * len(part) / len(order)
            error += found[1] * len(part) / len(order)
    return loss, error


@dataclass(frozen=True, kw_only=True)
class Script(Problem):
    """A problem that a function of a Python file builds, with the arguments of `Problem` and these.

    Args:
        path: the file; empty for a function of this process that is in no file.
        function: its name. It returns a `Training`, or the first fields of one as a tuple.
        digest: a hash of the source, so that results of another version are not taken for those of this one.
    """

    kind = "script"

    path: str
    function: str
    digest: str
    batch_sizes: tuple[int, ...] = (BATCH_SIZE,)

    def build(self, seed: int) -> Task:
        return self.training(seed).task()

    def training(self, seed: int) -> Training:
        """Call the function with the random numbers of a seed."""
        made = _seeded(seed, self._found())
        if isinstance(made, tuple) and 3 <= len(made) <= len(dataclasses.fields(Training)):
            made = Training(*made)
        if not isinstance(made, Training):
            raise TypeError(
                f"{self.function} must return model, loss, training data and perhaps validation data, or a "
                f"gradline.lab.Training (it is trained), got {_kind(made)}"
            )
        return made

    def _found(self) -> Callable[[], Any]:
        if not self.path:
            return _FUNCTIONS[self.digest]
        module = _module(self.path, self.digest)
        found = getattr(module, self.function, None)
        if not callable(found):
            there = [name for name, value in vars(module).items() if inspect.isfunction(value)]
            raise TypeError(
                f"{self.path} must have a function {self.function} (it builds the model, the loss and the data); "
                f"its functions are {', '.join(there) or 'none'}"
            )
        return found  # type: ignore[no-any-return]

    @property
    def described(self) -> str:
        return f"{self.function} of {Path(self.path).name}" if self.path else self.function


def _seeded(seed: int, make: Callable[[], Any]) -> Any:
    """Call a function with torch, NumPy and `random` seeded, and leave their generators as they were."""
    from gradline.lab.problems.supervised import seeded

    numbers, others = np.random.get_state(), random.getstate()
    try:
        np.random.seed(seed)
        random.seed(seed)
        return seeded(seed, make)
    finally:
        np.random.set_state(numbers)
        random.setstate(others)


def script(build: str | Path | Callable[[], Any], function: str = "build") -> Script:
    """Return the problem of a function without arguments, or of the `function` of a Python file."""
    if callable(build):
        place = inspect.getsourcefile(build)
        importable = place is not None and Path(place).suffix == ".py" and Path(place).is_file()
        if place is not None and importable and build.__qualname__ == build.__name__:
            return script(place, build.__name__)
        name, digest = build.__name__, _digest(_source(build))
        _FUNCTIONS[digest] = build
        return Script(name=name if PATTERN.fullmatch(name) else "model", path="", function=name, digest=digest)
    path = Path(build)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: name a Python file with a function {function}()")
    name = path.stem if PATTERN.fullmatch(path.stem) else "model"
    return Script(name=name, path=str(path.resolve()), function=function, digest=_digest(path.read_bytes()))


def _source(function: Callable[[], Any]) -> bytes:
    """Return the source of a function, or what is known of it where there is none (typed at a prompt)."""
    try:
        return inspect.getsource(function).encode()
    except OSError:
        code: Any = getattr(function, "__code__", None)
        return repr(code and (code.co_code, code.co_consts, code.co_names)).encode()


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:12]


@cache
def _module(path: str, digest: str) -> ModuleType:
    """Import a file under a name of its own, with its folder importable, as when it is run."""
    if _digest(Path(path).read_bytes()) != digest:
        raise ValueError(f"{path} was changed while its runs were being made: start the comparison again")
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(f"gradline_script_{digest}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} must be a Python file (its name ends in .py)")
    if path in _IMPORTING:
        raise RuntimeError(
            f'compare must be called under `if __name__ == "__main__":` (the file of the function is imported, also by '
            f"worker processes), but {Path(path).name} calls it when it is imported"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    _IMPORTING.add(path)
    try:
        spec.loader.exec_module(module)
    finally:
        _IMPORTING.remove(path)
    return module


class TrainingError(ValueError):
    """The user's function, model, loss or data raised an error."""


def check(problem: Script, batch_size: int | None = None) -> tuple[int, Task, Measured]:
    """Build a problem once; return the batch size, the task, and what it measures at its initial weights.

    Its loss and gradients are computed too. Raises `TrainingError`, which names the line of the user's file.
    """
    import torch

    try:
        training = problem.training(0)
        task = training.task()
        size = batch_size or training.batch()
        rule, reason = f"at most {task.samples}", "there are so many training samples"
        require(size <= task.samples, "batch_size", rule, reason, size)
        loss = task.losses(task.model, torch.arange(size))
        reason = "it has to have gradients"
        require(loss.requires_grad, "loss", "a function of the model's outputs", reason, "one without them")
        loss.backward()  # type: ignore[no-untyped-call]
        task.model.zero_grad()
        was_training = task.model.training
        task.model.eval()
        measured = task.measure(task.model)
        task.model.train(was_training)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        package = str(Path(__file__).parents[2])
        if frames[-1].filename.startswith(package):
            raise TrainingError(str(error)) from error
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == problem.path), None)
        place = f"{problem.described}{f', line {line}' if line else ''}"
        reason = str(error).strip().partition("\n")[0]
        raise TrainingError(f"{place}: {type(error).__name__}: {reason}") from error
    return size, task, measured
