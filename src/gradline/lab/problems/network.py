"""What is trained: a problem is a value. Adding one is adding one value to `PROBLEMS`, or passing your own.

The networks are those of the paper's Table 2: fully connected, with biases, the activation also on the output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from gradline.lab.tools.names import require_name
from gradline.searches._arguments import require


class Activation(Enum):
    """What follows every layer, the last one too."""

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
class Problem:
    """A data set, a network, a loss, where training starts, and how long it goes on.

    ```python
    from gradline.lab.problems.network import PROBLEMS, Activation, Loss, Problem

    wide = Problem(
        name="bcwd-wide", data="bcwd", hidden=(256,), activation=Activation.TANH, loss=Loss.MSE, scale=0.1,
        budget=3000, batch_sizes=(50, 100),
    )
    assert PROBLEMS["bcwd-netpi"].hidden == (32,)
    ```

    Args:
        name: what it is called in studies, files and figures.
        data: a data set of `gradline.lab.problems.data`.
        hidden: units of each hidden layer.
        activation: what follows every layer.
        loss: the loss of one sample.
        scale: standard deviation of the initial weights and biases, all N(0, scale²).
        budget: evaluations of one run.
        batch_sizes: those of the study.
        error_samples: losses and errors are measured on so many random samples; `None`: on all.
        dtype: of parameters and data, "float32" or "float64".
        z_score: inputs are standardised by the "train" rows, or, as published, by "all" rows.
        model: "package.module:function" that builds an `nn.Module` from a `torch.Generator`, in place of the fully
            connected network. Its outputs are what `loss` takes. It runs through the ordinary optimizer.
    """

    name: str
    data: str
    hidden: tuple[int, ...] = ()
    activation: Activation = Activation.SIGMOID
    loss: Loss = Loss.BCE
    scale: float = 1.0
    budget: int = 3000
    batch_sizes: tuple[int, ...] = (10, 50, 100, 400)
    error_samples: int | None = None
    dtype: str = "float64"
    z_score: str = "train"
    model: str | None = None

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require(isinstance(self.data, str) and bool(self.data), "data", "a text", "it is looked up", self.data)
        require(
            all(type(units) is int and units > 0 for units in self.hidden),
            "hidden",
            "whole numbers above 0",
            "they are numbers of units",
            self.hidden,
        )
        require(
            isinstance(self.scale, float | int) and 0.0 < self.scale < math.inf,
            "scale",
            "above 0 and finite",
            "it is a standard deviation",
            self.scale,
        )
        require(type(self.budget) is int and self.budget > 0, "budget", "above 0", "it counts evaluations", self.budget)
        require(
            bool(self.batch_sizes) and all(type(size) is int and size > 0 for size in self.batch_sizes),
            "batch_sizes",
            "whole numbers above 0",
            "they count samples",
            self.batch_sizes,
        )
        samples = self.error_samples
        require(
            samples is None or (type(samples) is int and samples > 0),
            "error_samples",
            "a whole number above 0, or None",
            "it counts samples",
            samples,
        )
        require(
            self.dtype in ("float32", "float64"), "dtype", "float32 or float64", "others round too much", self.dtype
        )
        require(self.z_score in ("train", "all"), "z_score", "train or all", "it names rows", self.z_score)


def _table_2() -> list[Problem]:
    """The paper's problems, with Table 2's scales read as variances, and as its authors' programs have them."""
    bcwd = Problem(name="bcwd-logr", data="bcwd")
    mnist = Problem(
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
        Problem(name="iris", data="iris", hidden=(10,), batch_sizes=(10, 50, 150)),
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


def _as_published(problem: Problem) -> Problem:
    return replace(
        problem,
        name=f"{problem.name}-as-published",
        loss=Loss.BCE_AS_PUBLISHED if problem.loss is Loss.BCE else problem.loss,
        scale=0.01 if len(problem.hidden) == 3 else 1.0,
        z_score="all",
    )


PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in _table_2()}
"""Every problem of the paper by name; each (but Iris) also `-as-published`, as the authors' programs had it."""
