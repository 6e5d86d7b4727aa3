"""How reliable Angle's start is: final training losses over many seeds, in a plain loop and with a closure.

    python benchmarks/first_steps.py                                  # all problems, 8 seeds: about 10 minutes
    python benchmarks/first_steps.py --ways loop --seeds 20           # what a plain loop's start depends on
    python benchmarks/first_steps.py --problems tune --seeds 4        # those not held out, fewer seeds
    python benchmarks/first_steps.py --json benchmarks/results/first_steps.json

Ways to train, all with the same number of evaluations:

    loop      a plain loop, a new mini-batch at each evaluation
    closure   all evaluations of the first search on one mini-batch, as a closure may have it; each later one on another
    small     the loop, but the first search is left out, and the first step is 100 times smaller than the one that the
              loop's first search found for the same seed
    constant  the loop without any search, at the median over seeds of the loop's last steps: how far seeds differ
              where the step is always the same

What is in the JSON file already is not made again: the same command goes on after Ctrl-C. A run's numbers are its final
loss, the first step, the step after a hundred evaluations, the last step, and the evaluations of the first search.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

import gradline
from gradline.driver import Driver
from gradline.protocol import Outcome, Slope, Stop
from gradline.searches import Angle, AngleMemory


@dataclass(frozen=True, kw_only=True)
class Forced(Angle):
    """Angle without its first search: begins with `step_first`."""

    def _first(self, slope: float, memory: AngleMemory) -> Generator[float, Slope, Outcome[AngleMemory]]:
        del slope
        return self._take(memory, memory, 0, Stop.FIXED)


class Residual(nn.Module):
    """A layer added to what goes through it."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Add."""
        return x + self.layers(x)


class Characters(nn.Module):
    """Predicts each next character of a text, by a causal transformer or a GRU."""

    def __init__(self, symbols: int, width: int, layers: int, *, recurrent: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.place = nn.Parameter(0.02 * torch.randn(32, width))
        self.recurrent = nn.GRU(width, width, layers, batch_first=True) if recurrent else None
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.attend = None if recurrent else nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.read = nn.Linear(width, symbols)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the next characters, symbols before places as `cross_entropy` wants them."""
        if self.recurrent is not None:
            hidden, _ = self.recurrent(self.embed(x))
        else:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            hidden = self.attend(self.embed(x) + self.place[: x.shape[1]], mask=mask, is_causal=True)
        return self.read(hidden).transpose(1, 2)


@dataclass(frozen=True)
class Problem:
    """A model, its data, and how long it is trained."""

    data: Callable[[], tuple[Tensor, Tensor]]
    model: Callable[[], nn.Module]
    batch: int
    evaluations: int
    tune: bool
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy
    deep: bool = False


@cache
def products() -> tuple[Tensor, Tensor]:
    """README's regression."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(1000, 10, generator=random)
    return inputs, (inputs[:, :5] * inputs[:, 5:]).sum(dim=1, keepdim=True)


@cache
def waves() -> tuple[Tensor, Tensor]:
    """A regression with noise in its targets."""
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(2000, 6, generator=random)
    clean = (2.0 * inputs[:, :3]).sin().sum(dim=1, keepdim=True) + inputs[:, 3:4] * inputs[:, 4:5]
    return inputs, clean + 0.3 * torch.randn(2000, 1, generator=random)


@cache
def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's digits, 8 by 8 pixels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 8.0 - 1.0, dtype=torch.float32), torch.tensor(labels)


@cache
def text() -> tuple[Tensor, Tensor]:
    """Windows of 32 characters of Python's reference manual, which is shipped with it."""
    import pydoc_data.topics as topics

    written = "".join(topics.topics[key] for key in sorted(topics.topics))[:60_000]
    symbols = {symbol: index for index, symbol in enumerate(sorted(set(written)))}
    codes = torch.tensor([symbols[symbol] for symbol in written])
    windows = codes.unfold(0, 33, 29)
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def mlp(*widths: int, unit: type[nn.Module] = nn.Tanh) -> nn.Module:
    """A multilayer perceptron."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), unit()]
    return nn.Sequential(*layers[:-1])


def conv(norm: Callable[[int], nn.Module], channels: int = 16) -> nn.Module:
    """A small convolutional net for digits."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, channels, 3, padding=1),
        norm(channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        norm(2 * channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * channels, 10),
    )


def deep_conv(blocks: int, channels: int) -> nn.Module:
    """Residual blocks with GroupNorm."""
    block = [
        Residual(nn.GroupNorm(2, channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1))
        for _ in range(blocks)
    ]
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, channels, 3, padding=1),
        nn.MaxPool2d(2),
        *block,
        nn.Flatten(),
        nn.Linear(16 * channels, 10),
    )


def symbols() -> int:
    """How many different characters the text has."""
    return int(text()[0].max()) + 1


def group_norm(channels: int) -> nn.Module:
    """Groups of eight channels."""
    return nn.GroupNorm(channels // 8, channels)


PROBLEMS = {
    "products, batch 8": Problem(products, lambda: mlp(10, 64, 1), 8, 2000, True, functional.mse_loss),
    "products, two layers, batch 64": Problem(products, lambda: mlp(10, 64, 64, 1), 64, 500, True, functional.mse_loss),
    "digits, perceptron, batch 256": Problem(digits, lambda: mlp(64, 128, 10, unit=nn.ReLU), 256, 400, True),
    "digits, GroupNorm conv, batch 32": Problem(digits, lambda: conv(group_norm), 32, 400, True),
    "text, transformer, batch 8": Problem(
        text, lambda: Characters(symbols(), 48, 4, recurrent=False), 8, 250, True, deep=True
    ),
    "products, batch 32": Problem(products, lambda: mlp(10, 64, 1), 32, 500, False, functional.mse_loss),
    "waves, ReLU, batch 16": Problem(
        waves, lambda: mlp(6, 64, 64, 1, unit=nn.ReLU), 16, 1000, False, functional.mse_loss
    ),
    "digits, perceptron, batch 16": Problem(digits, lambda: mlp(64, 128, 10, unit=nn.ReLU), 16, 600, False),
    "digits, plain conv, batch 64": Problem(digits, lambda: conv(lambda _: nn.Identity()), 64, 400, False),
    "text, GRU, batch 64": Problem(text, lambda: Characters(symbols(), 48, 1, recurrent=True), 64, 300, False),
    "digits, deep conv, batch 128": Problem(digits, lambda: deep_conv(8, 8), 128, 300, False, deep=True),
}
WAYS = ("loop", "closure", "small", "constant")
SHOWN = ("loss", "first", "hundred", "last", "evaluations")


def train(problem: Problem, way: str, seed: int, first: float | None) -> dict[str, float]:
    """Train once; return the numbers of the run."""
    inputs, targets = problem.data()
    torch.manual_seed(seed)
    model = problem.model()
    optimizer = gradline.Angle(model.parameters())
    if first is not None:
        fixed = {"gain": 1e-9, "climb": 0.0} if way == "constant" else {}
        optimizer._driver = Driver(Forced(step_first=first, **fixed))
    draws = torch.Generator().manual_seed(seed + 1000)
    seen: dict[str, float] = {}
    for made in range(1, problem.evaluations + 1):
        if made == 1 or way != "closure" or optimizer.iterations:
            batch = torch.randint(len(inputs), (problem.batch,), generator=draws)
        optimizer.zero_grad()
        problem.loss(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
        if optimizer.last.step > 0.0:
            seen.setdefault("first", optimizer.last.step)
            seen.setdefault("evaluations", made)
            if made >= 100:
                seen.setdefault("hundred", optimizer.last.step)
            seen["last"] = optimizer.last.step
    with optimizer.eval(), torch.no_grad():
        parts = zip(inputs.split(500), targets.split(500), strict=True)
        seen["loss"] = sum(float(problem.loss(model(x), y)) * len(x) for x, y in parts) / len(inputs)
    return {name: float(f"{seen.get(name, 0.0):.4g}") for name in SHOWN}


def main() -> None:
    """Measure what is missing, and show all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", choices=["all", "tune", "held-out"], default="all")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--evaluations", type=int, help="of each run (default: the problem's)")
    parser.add_argument("--json", type=Path, help="keep all runs here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    file: Path | None = arguments.json
    known: dict[str, dict[str, float]] = json.loads(file.read_text()) if file and file.exists() else {}
    table = Table("problem", "way", "seeds", "loss: median", "worst", "worst/median", *SHOWN[1:], box=None)
    for name, problem in PROBLEMS.items():
        if arguments.problems != "all" and problem.tune != (arguments.problems == "tune"):
            continue
        if arguments.evaluations:
            problem = replace(problem, evaluations=arguments.evaluations)

        def looped(seed: int, name: str = name, problem: Problem = problem) -> dict[str, float]:
            key = f"{name} | loop | {problem.evaluations} | {seed}"
            if key not in known:
                known[key] = train(problem, "loop", seed, None)
            return known[key]

        for way in (way for way in WAYS if way in arguments.ways):
            runs = []
            for seed in range(arguments.seeds):
                key = f"{name} | {way} | {problem.evaluations} | {seed}"
                if key not in known:
                    first = None
                    if way == "small":
                        first = looped(seed)["first"] / 100.0
                    elif way == "constant":
                        first = statistics.median(looped(other)["last"] for other in range(arguments.seeds))
                    known[key] = train(problem, way, seed, first)
                    if file:
                        file.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
                runs.append(known[key])
            losses = [run["loss"] for run in runs]
            median = statistics.median(losses)
            others = (f"{statistics.median(run[shown] for run in runs):.2g}" for shown in SHOWN[1:])
            marked = name if problem.tune else f"{name} (held out)"
            table.add_row(
                marked,
                way,
                str(len(runs)),
                f"{median:.3g}",
                f"{max(losses):.3g}",
                f"{max(losses) / median:.2f}",
                *others,
            )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
