"""Fully connected networks on a data set, as plain values: those of the paper's Table 2, and your own.

They have biases, and the activation also on the output.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

from gradline.lab.problems import data as sets
from gradline.lab.problems.problem import Problem
from gradline.lab.problems.task import Task
from gradline.lab.tools.arguments import require_count, require_counts
from gradline.searches.arguments import require


class Activation(Enum):
    """Activation function after every layer, including the last."""

    SIGMOID = "sigmoid"
    TANH = "tanh"


class Loss(Enum):
    """The loss of one sample with targets y and outputs q of K units."""

    BCE = "bce"
    """Binary cross-entropy with the natural logarithm, summed over the outputs. Its gradient is that of its value."""
    BCE_AS_PUBLISHED = "bce-as-published"
    """As the authors' programs have it: the value with log10 and averaged over the outputs, the gradient with the
    natural logarithm and summed: K ln 10 times the gradient of the value."""
    MSE = "mse"
    """Proben1's squared error, 100/K Σ (y - q)²."""


@dataclass(frozen=True, kw_only=True)
class Network(Problem):
    """A fully connected network on a data set, with the arguments of `Problem` and these.

    ```python
    from gradline.lab.problems import PROBLEMS, Activation, Loss, Network

    wide = Network(
        name="bcwd-wide", data="bcwd", hidden=(256,), activation=Activation.TANH, loss=Loss.MSE, scale=0.1,
        budget=3000, batch_sizes=(50, 100),
    )
    assert PROBLEMS["bcwd-netpi"].hidden == (32,)
    ```

    Args:
        hidden: units of each hidden layer.
        activation: what follows every layer.
        loss: the loss of one sample.
        scale: standard deviation of the initial weights and biases, all N(0, scale²).
        error_samples: losses and errors are measured on so many random samples; `None`: on all.
        dtype: of parameters and data, "float32" or "float64".
        z_score: inputs are standardised by the "train" rows, or, as published, by "all" rows.
        model: "package.module:function" that builds an `nn.Module` from a `torch.Generator`, in place of the fully
            connected network. Its outputs are what `loss` takes. It runs in the ordinary engine.
    """

    kind = "network"

    data: str
    budget: int = 3000
    batch_sizes: tuple[int, ...] = (10, 50, 100, 400)
    hidden: tuple[int, ...] = ()
    activation: Activation = Activation.SIGMOID
    loss: Loss = Loss.BCE
    scale: float = 1.0
    error_samples: int | None = None
    dtype: str = "float64"
    z_score: str = "train"
    model: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(isinstance(self.data, str) and bool(self.data), "data", "a text", "it is looked up", self.data)
        require_counts("hidden", self.hidden, "units")
        good = isinstance(self.scale, float | int) and 0.0 < self.scale < math.inf
        require(good, "scale", "above 0 and finite", "it is a standard deviation", self.scale)
        require_count("error_samples", self.error_samples, "samples", optional=True)
        good = self.dtype in ("float32", "float64")
        require(good, "dtype", "float32 or float64", "others round too much", self.dtype)
        require(self.z_score in ("train", "all"), "z_score", "train or all", "it names rows", self.z_score)

    def load(self) -> sets.DataSet:
        """Load the data set; it stays in memory for the next call."""
        return _data(self.data, self.z_score, self.dtype)

    def build(self, seed: int) -> Task:
        from gradline.lab.problems.networks import task

        return task(self, self.load(), seed=seed)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        enums = {"activation": Activation(values["activation"]), "loss": Loss(values["loss"])}
        return super().from_dict(values | enums)

    @property
    def samples(self) -> int:
        return _shape(self.data)[0]

    @property
    def parameters(self) -> int:
        if self.model is not None:
            return super().parameters
        _, inputs, outputs = _shape(self.data)
        return sum((ins + 1) * outs for ins, outs in itertools.pairwise((inputs, *self.hidden, outputs)))

    def seconds(self, samples: int) -> float:
        """Return about how long an evaluation takes in a group of runs: its bookkeeping and its arithmetic.

        Forward and backward pass have 6 operations for each weight and sample; 10 billion of them take a second.
        """
        return super().seconds(samples) if self.model is not None else 5e-5 + 6e-10 * self.parameters * samples

    @property
    def units(self) -> str:
        """The hidden layers' units as text: "1000, 500, 250", or "10 × 32"."""
        if len(self.hidden) > 3 and len(set(self.hidden)) == 1:
            return f"{len(self.hidden)} × {self.hidden[0]}"
        return ", ".join(map(str, self.hidden)) or "none"

    @property
    def described(self) -> str:
        if self.model is not None:
            return f"{self.model} on {self.data}, {self.loss.value}"
        hidden = f"hidden units {self.units}" if self.hidden else "no hidden layer"
        return f"{self.data}, {hidden}, {self.activation.value}, {self.loss.value}"


@functools.lru_cache(maxsize=2)
def _data(name: str, z_score: Any, dtype: Any) -> sets.DataSet:
    return sets.load(name, z_score=z_score, dtype=dtype, progress=False)


@functools.cache
def _shape(name: str) -> tuple[int, int, int]:
    """Training samples, inputs and outputs of a data set, from the data set itself."""
    loaded = sets.load(name, z_score="none")
    return *loaded.train_inputs.shape, loaded.train_targets.shape[1]


def _table_2() -> list[Network]:
    """Return the paper's problems, with Table 2's scales read as variances, and as its authors' programs have them."""
    bcwd = Network(name="bcwd-logr", data="bcwd")
    mnist = Network(
        name="mnist-net1",
        data="mnist",
        hidden=(800,),
        budget=40_000,
        batch_sizes=(10, 100, 200),
        error_samples=1000,
        dtype="float32",
    )
    cifar = replace(mnist, name="cifar-net1", data="cifar10", budget=10_000, scale=0.1)
    deep = {"hidden": (1000, 500, 250), "activation": Activation.TANH, "loss": Loss.MSE}
    plain = [
        Network(name="iris", data="iris", hidden=(10,), batch_sizes=(10, 50, 150)),
        bcwd,
        replace(bcwd, name="bcwd-netpi", hidden=(32,)),
        replace(bcwd, name="bcwd-netpii", hidden=(32,), loss=Loss.MSE),
        replace(bcwd, name="bcwd-netpi-10", hidden=(32,) * 10, batch_sizes=(100,)),
        mnist,
        replace(mnist, name="mnist-net2", scale=math.sqrt(0.1), **deep),  # type: ignore[arg-type]
        cifar,
        replace(cifar, name="cifar-net2", scale=0.1, **deep),  # type: ignore[arg-type]
    ]
    return plain + [_as_published(problem) for problem in plain if problem.data != "iris"]


def _as_published(problem: Network) -> Network:
    return replace(
        problem,
        name=f"{problem.name}-as-published",
        loss=Loss.BCE_AS_PUBLISHED if problem.loss is Loss.BCE else problem.loss,
        scale=0.01 if len(problem.hidden) == 3 else 1.0,
        z_score="all",
    )


NETWORKS: tuple[Network, ...] = tuple(_table_2())
"""Every problem of the paper; each (but Iris) also `-as-published`, as the authors' programs had it."""
