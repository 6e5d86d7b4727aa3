"""The pictures of the documentation, made by the code they explain.

Each picture is a function that computes its data and a function that draws them; `make` writes them all as SVG, once
for light and once for dark pages. Every random number has a seed. No line or mark is told from another by its colour
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import gradline
import gradline.plot
from gradline import landscape
from gradline.lab.figures import style
from gradline.lab.problems.data import load
from gradline.lab.tools.threads import threads
from gradline.plot.inks import DARK, LIGHT, Inks
from gradline.protocol import Moments, Record
from gradline.searches import GolsI, Prls, PrlsMemory

Array = NDArray[np.float64]

HIDDEN = 10
FONTS = {
    "font.size": 9.5,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}


# ---- The loss along one direction: Iris, a network with one hidden layer ----


class Iris(NamedTuple):
    """A network, the losses of its samples, and the samples: what `gradline.landscape` looks at."""

    model: torch.nn.Module
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    data: tuple[torch.Tensor, torch.Tensor]


def iris(*, seed: int = 7) -> Iris:
    """The network at a random start."""
    samples = load("iris")
    inputs, targets = torch.from_numpy(samples.train_inputs), torch.from_numpy(samples.train_targets)
    layers = torch.nn.Linear(4, HIDDEN), torch.nn.Sigmoid(), torch.nn.Linear(HIDDEN, 3), torch.nn.Sigmoid()
    model = torch.nn.Sequential(*layers).double()
    into = [model[0].weight.T, model[0].bias, model[2].weight.T, model[2].bias]
    sizes = [parameter.numel() for parameter in into]
    start = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with torch.no_grad():
        for parameter, numbers in zip(into, torch.split(start, sizes), strict=True):
            parameter.copy_(numbers.view(parameter.shape))
    return Iris(model, lambda x, y: (model(x) - y).square().sum(dim=1), (inputs, targets))


IRIS_STEPS = np.linspace(0.0, 13.0, 101)
"""Along -∇L from the random start, past the optimum and as far again."""


def sampled_data(*, batch_size: int = 10, batches: int = 4) -> landscape.Line:
    """Full, static and dynamic sampling of the Iris line."""
    return landscape.line(*iris(), steps=IRIS_STEPS, batch_size=batch_size, static=batches, dynamic=1, seed=0)


def draw_sampled(data: landscape.Line, inks: Inks) -> Figure:
    """Values above, slopes below; static sampling left, dynamic sampling right."""
    figure, axes = style.panels(2, 2, width=8.4, height=5.8, sharex=True, sharey="row")
    styles = [(inks.blue, "--"), (inks.orange, "-."), (inks.green, ":"), (inks.purple, "s-")]
    for pair, quantity, name in zip(axes, ("values", "slopes"), ("value F(α)", "slope F'(α)"), strict=True):
        full, static, dynamic = (getattr(part, quantity) for part in (data.full, data.static, data.dynamic))
        for number, (batch, (colour, dashes)) in enumerate(zip(static, styles, strict=True), start=1):
            curve = {"color": colour, "linewidth": 1.3, "markersize": 4, "markevery": 10}
            pair[0].plot(data.steps, batch, dashes, label=f"mini-batch {number}", **curve)
        dots = {"color": inks.orange, "marker": "o", "markersize": 3, "linewidth": 0.5}
        pair[1].plot(data.steps, dynamic[0], **dots, label="mini-batch of the moment")
        pair[0].set_ylabel(name)
        for axis in pair:
            axis.plot(data.steps, full, color=inks.text, linewidth=2.2, label="all the data", zorder=3)
    for axis in axes[1]:
        axis.axhline(0.0, color=inks.faint, linewidth=1.0, zorder=0)
        axis.set_xlabel("step α along the direction")
    axes[0, 0].set_title(f"static: one mini-batch of {data.batch_size} a line")
    axes[0, 1].set_title(f"dynamic: a new mini-batch of {data.batch_size} a point")
    for axis in axes[0]:
        _legend(axis, loc="upper center", ncols=2 if axis is axes[0, 0] else 1)
    top = axes[0, 0].get_ylim()[1]
    axes[0, 0].set_ylim(0.0, top + 0.25)
    return figure


# ---- Where minima and sign changes are found ----


def found_data(*, repeats: int = 200) -> landscape.Optima:
    """Walk along the Iris line again and again with dynamic sampling, and note what looks like an optimum."""
    return landscape.optima(*iris(), steps=IRIS_STEPS, batch_sizes=(10, 50, 150), repeats=repeats, seed=1)


def draw_found(data: landscape.Optima, inks: Inks) -> Figure:
    """Minima left, sign changes right."""
    figure, axes = style.panels(1, 2, width=8.4, height=3.5, sharex=True, sharey=True)
    styles = {10: (inks.orange, "-"), 50: (inks.blue, "--")}
    inner = slice(1, -1)  # no minimum can be at an end
    steps = data.steps[inner]
    for axis, name, title in (
        (axes[0, 0], "minima_per_walk", "local minima of the value"),
        (axes[0, 1], "sign_changes_per_walk", "sign changes of the slope, - to +"),
    ):
        found = {size: getattr(one, name)[inner] for size, one in data.by_size.items()}
        for size, (colour, dashes) in styles.items():
            axis.plot(steps, found[size], dashes, color=colour, linewidth=1.4, label=f"mini-batches of {size}")
        only = np.flatnonzero(found[150])
        axis.vlines(steps[only], 0.0, found[150][only], color=inks.text, linewidth=1.0, linestyle=":")
        axis.plot(steps[only], found[150][only], "D", color=inks.text, markersize=5, label="all 150 samples")
        axis.set_title(title)
        axis.set_xlabel("step α along the direction")
        axis.set_ylim(0.0, 1.05)
    axes[0, 0].set_ylabel(f"share of {data.repeats} walks")
    _legend(axes[0, 1], loc="upper left")
    return figure


# ---- A loss of one's own: the network of the guide to landscapes ----


class Seen(NamedTuple):
    """The line of the guide, and the balls of some sizes of mini-batch."""

    line: landscape.Line
    optima: landscape.Optima


def landscape_data(*, repeats: int = 50) -> Seen:
    """What the guide's code computes."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    inputs = torch.tensor(table.data, dtype=torch.float32)
    data = (inputs - inputs.mean(0)) / inputs.std(0), torch.tensor(table.target, dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(30, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y, reduction="none")

    steps = np.linspace(0.0, 4.0, 81)
    return Seen(
        landscape.line(model, loss, data, steps=steps, batch_size=20, static=4, dynamic=1, seed=0),
        landscape.optima(model, loss, data, steps=steps, batch_sizes=[20, 50, 100, 200], repeats=repeats, seed=0),
    )


def draw_landscape(data: Seen, inks: Inks) -> Figure:
    """Values, slopes, and the ball of each size."""
    figure, axes = style.panels(1, 3, width=8.4, height=3.3)
    line, (values, slopes, balls) = data.line, axes[0]
    assert line.full is not None
    assert line.dynamic is not None
    for axis, full, dynamic, name in (
        (values, line.full.values, line.dynamic.values[0], "value F(α)"),
        (slopes, line.full.slopes, line.dynamic.slopes[0], "slope F'(α)"),
    ):
        curve = {"color": inks.orange, "marker": "o", "markersize": 2.5, "linewidth": 0.5}
        axis.plot(line.steps, dynamic, **curve, label=f"a new mini-batch of {line.batch_size} a step")
        axis.plot(line.steps, full, color=inks.text, linewidth=2.0, label="all the data")
        axis.set_title(name)
        axis.set_xlabel("step α")
    slopes.axhline(0.0, color=inks.faint, linewidth=1.0, zorder=0)
    ball = data.optima[20].ball()
    assert ball is not None
    shade = slopes.axvspan(*ball, color=inks.green, alpha=0.18, linewidth=0.0, label="ball of B = 20")
    _legend(slopes, loc="lower right", handles=[shade])
    sizes = list(data.optima.by_size)
    for row, size in enumerate(sizes):
        ball = data.optima[size].ball()
        assert ball is not None
        balls.plot(ball, [row, row], color=inks.green, linewidth=5, solid_capstyle="butt")
    optimum = line.full.found().steps_of_sign_changes
    balls.vlines(optimum, -0.5, len(sizes) - 0.5, color=inks.text, linestyle="--", label="all the data")
    balls.set_yticks(range(len(sizes)), [str(size) for size in sizes])
    balls.set_xlim(line.steps[0], line.steps[-1])
    balls.set_title("ball of sign changes")
    balls.set_ylabel("samples in a mini-batch")
    balls.set_xlabel("step α")
    values.set_ylim(top=values.get_ylim()[1] * 1.25)
    _legend(values, loc="upper right")
    _legend(balls, loc="upper right")
    return figure


# ---- GOLS-I, probe by probe ----

NOISE = 0.25
NORM = 0.1
FIRST_SEED = 5


def noisy_slope(seed: int) -> Callable[[float], float]:
    """F'(α) = α - 1 with noise, as new mini-batches give; at 0 it is -1."""
    rng = np.random.default_rng(seed)
    return lambda step: step - 1.0 + (NOISE * float(rng.standard_normal()) if step else 0.0)


def searches_data() -> dict[str, Record[Any, Any]]:
    """Three searches of one function from three guesses."""
    guesses = {"too short: grow": 0.05, "too long: shrink": 6.0, "just past: accept at once": 1.45}
    return {
        name: gradline.solve(GolsI(), noisy_slope(seed), norm=NORM, memory=guess)
        for seed, (name, guess) in enumerate(guesses.items(), start=FIRST_SEED)
    }


def draw_searches(data: dict[str, Record[Any, Any]], inks: Inks) -> Figure:
    """Each search's probes, numbered, on the slope they are seen through noise."""
    figure, axes = style.panels(1, 3, width=8.4, height=3.5, sharex=True, sharey=True)
    bound = GolsI().overshoot
    steps = np.geomspace(0.03, 8.3, 300)
    for axis, (title, record) in zip(axes[0], data.items(), strict=True):
        axis.axhline(0.0, color=inks.faint, linewidth=1.0, zorder=0)
        axis.axhspan(0.0, bound, color=inks.green, alpha=0.18, linewidth=0.0, label="0 < F'(α) < c2·|F'(0)|")
        axis.plot(steps, steps - 1.0, color=inks.text, linewidth=1.2, label="slope without noise")
        probes = np.array([step for step, _ in record.transcript])
        slopes = np.array([seen.slope for _, seen in record.transcript])
        axis.plot(probes, slopes, "o--", color=inks.blue, markersize=6, linewidth=0.8, label="probe")
        axis.plot(
            *(probes[-1:], slopes[-1:]),
            "o",
            color="none",
            markeredgecolor=inks.orange,
            markersize=13,
            markeredgewidth=2,
            label="accepted",
        )
        axis.axvline(1.0 / NORM, color=inks.purple, linestyle=":", linewidth=1.6, label="α_max = 1/‖d‖")
        for number, (step, slope) in enumerate(zip(probes, slopes, strict=True), start=1):
            place = (0, -19) if slope < 0.0 else (-12, 4)  # off the curve
            axis.annotate(
                str(number), (step, slope), xytext=place, textcoords="offset points", ha="center", color=inks.text
            )
        axis.set_title(title)
        axis.set_xscale("log")
        axis.set_xticks([0.1, 1.0, 10.0], ["0.1", "1", "10"])
        axis.set_xlabel("step α")
        axis.set_ylim(-3.2, 7.4)
    axes[0, 0].set_ylabel("slope F'(α)")
    _legend(axes[0, 0], loc="upper left")
    return figure


# ---- The steps of a training run ----


class Cancer(NamedTuple):
    """Logistic regression on 400 samples of the breast cancer data, from random weights."""

    inputs: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The mean over a mini-batch."""
        return torch.nn.functional.binary_cross_entropy_with_logits(x @ self.weights[:-1] + self.weights[-1], y)

    def closure(self, optimizer: gradline.LineSearchOptimizer, size: int) -> Callable[[], torch.Tensor]:
        """A new mini-batch of this size each time; or all the data."""
        if size == len(self.inputs):
            return gradline.batches.full(self.inputs, self.targets).closure(optimizer, self.loss)
        batches = gradline.batches.dynamic(self.inputs, self.targets, batch_size=size, seed=0)
        return batches.closure(optimizer, self.loss)


def cancer() -> Cancer:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))[:400]
    inputs = torch.tensor(data.data)[order]
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    weights = torch.randn(31, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    return Cancer(inputs, torch.tensor(data.target)[order].double(), weights)


class Run(NamedTuple):
    """One training run: every probe's step, and for each search when it ended, its step and the full-batch loss."""

    probes: Array
    evaluations: Array
    steps: Array
    losses: Array


def runs_data(*, sizes: tuple[int, ...] = (10, 100, 400), evaluations: int = 3000) -> dict[int, Run]:
    """The regression trained by GOLS-I."""
    runs = {}
    for size in sizes:
        problem = cancer()
        optimizer = gradline.GOLSI([problem.weights])
        closure = problem.closure(optimizer, size)
        entries, probes = [], [0.0]  # the first evaluation is at 0
        while optimizer.evaluations < evaluations:
            optimizer.step(closure)
            assert optimizer.last is not None
            probes += [step for step, _ in optimizer.last.transcript]
            with torch.no_grad():
                loss = problem.loss(problem.inputs, problem.targets).item()
            entries.append((optimizer.evaluations, optimizer.last.step, loss))
        runs[size] = Run(np.array(probes), *np.array(entries).T)
    return runs


def draw_runs(data: dict[int, Run], inks: Inks) -> Figure:
    """Steps above, the full-batch training loss below; a column for each size of mini-batch."""
    figure, axes = style.panels(2, len(data), width=8.4, height=5.4, sharex=True, sharey="row", height_ratios=[3, 2])
    for column, (size, run) in enumerate(data.items()):
        steps, losses = axes[:, column]
        when = np.arange(1, len(run.probes) + 1)
        steps.plot(when[1:], run.probes[1:], ".", color=inks.faint, markersize=3, label="probed", rasterized=True)
        steps.plot(run.evaluations, run.steps, "^", color=inks.blue, markersize=3.2, label="accepted", rasterized=True)
        losses.plot(run.evaluations, run.losses, color=inks.orange, linewidth=1.2)
        steps.set_title(f"mini-batches of {size}" if size < 400 else "all 400 samples")
        losses.set_xlabel("gradient evaluations")
        for axis in (steps, losses):
            axis.set_xscale("log")
            axis.set_yscale("log")
    axes[0, 0].set_ylabel("step α")
    axes[1, 0].set_ylabel("loss of all 400 samples")
    _legend(axes[0, -1], loc="lower right", markerscale=2.5)
    return figure


# ---- A training run of Angle ----


class AngleRun(NamedTuple):
    """One training run of `gradline.Angle`, by evaluations; the losses are those of the test images."""

    probes: Array
    """The steps that the first search tried: the k-th at evaluation k + 2."""
    evaluations: Array
    steps: Array
    cosines: Array
    measured: Array
    """The evaluations after which the test loss was measured."""
    last: Array
    average: Array


def angle_data(*, epochs: int = 10, every: int = 5, seed: int = 0) -> AngleRun:
    """README's perceptron on handwritten digits, with mini-batches of 32."""
    from sklearn.datasets import load_digits

    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16.0
    loss = torch.nn.functional.cross_entropy
    probes: list[float] = []
    rows, losses = [], []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        optimizer = gradline.Angle(model.parameters())

        def test_loss() -> float:
            with torch.no_grad():
                return loss(model(images[1300:]), labels[1300:]).item()

        for _ in range(epochs):
            for batch in torch.randperm(1300).split(32):
                optimizer.zero_grad()
                loss(model(images[batch]), labels[batch]).backward()
                optimizer.step()
                if optimizer.iterations == 0:  # the first search
                    continue
                if not rows:
                    probes = [step for step, _ in optimizer.last.transcript]
                rows.append((optimizer.evaluations, optimizer.last.step, optimizer.last.cosine))
                if len(rows) <= every or len(rows) % every == 0:
                    last = test_loss()
                    with optimizer.eval():
                        losses.append((optimizer.evaluations, last, test_loss()))
    return AngleRun(np.array(probes), *np.array(rows).T, *np.array(losses).T)


def draw_angle(data: AngleRun, inks: Inks) -> Figure:
    """The step above, the cosine in the middle, the loss of the test images below."""
    figure, axes = style.panels(3, 1, width=8.4, height=6.6, sharex=True, height_ratios=[3, 3, 4])
    steps, cosines, losses = axes[:, 0]
    when = np.arange(2, len(data.probes) + 2)
    steps.plot(when, data.probes, "o", color=inks.faint, markersize=4, label="tried by the first search")
    steps.plot(data.evaluations, data.steps, color=inks.blue, linewidth=1.8, label="taken")
    steps.set_yscale("log")
    steps.set_ylabel("step α")
    cosines.axhline(0.0, color=inks.text, linewidth=0.8, linestyle=":")
    inner = slice(1, None)  # the first search has no cosine
    cosines.plot(
        data.evaluations[inner],
        data.cosines[inner],
        ".",
        color=inks.faint,
        markersize=3.5,
        label="of one mini-batch",
        rasterized=True,
    )
    window = 25
    mean = np.convolve(data.cosines[inner], np.ones(window) / window, mode="valid")
    centre = data.evaluations[inner][window // 2 : window // 2 + len(mean)]
    cosines.plot(centre, mean, color=inks.purple, linewidth=1.8, label=f"mean of {window}")
    cosines.set_ylabel("cosine c")
    losses.plot(data.measured, data.last, "--", color=inks.orange, linewidth=1.2, label="last weights")
    losses.plot(data.measured, data.average, color=inks.green, linewidth=2.0, label="average, in optimizer.eval()")
    losses.set_yscale("log")
    losses.set_ylabel("loss of the test images")
    losses.set_xscale("log")
    losses.set_xlabel("gradient evaluations")
    losses.set_xticks([2, 5, 10, 20, 50, 100, 200, 400])
    steps.set_yticks([0.001, 0.01, 0.1])
    losses.set_yticks([0.2, 0.5, 1.0, 2.0])
    for scale in (losses.xaxis, steps.yaxis, losses.yaxis):
        scale.set_major_formatter("{x:g}")
        scale.set_minor_formatter("")
    for axis, place in ((steps, "lower right"), (cosines, "lower right"), (losses, "upper right")):
        _legend(axis, loc=place)
    return figure


# ---- Single searches, drawn by gradline.plot ----


def one_search_data(*, size: int = 100, number: int = 12) -> Record[Any, Any]:
    """One search of the training run with mini-batches of this size."""
    problem = cancer()
    optimizer = gradline.GOLSI([problem.weights])
    closure = problem.closure(optimizer, size)
    for _ in range(number):
        optimizer.step(closure)
    assert optimizer.last is not None
    return optimizer.last


def prls_data(*, seed: int = 23, size: int = 10, guess: float = 2.0) -> Record[Any, Any]:
    """PrLS along the Iris line, with a new mini-batch at each probe."""
    rng = np.random.default_rng(seed)

    def phi(step: float) -> Moments:
        alone = rng.permutation(150)[:size, None]  # mini-batches of one sample: its own value and slope
        seen = landscape.line(*iris(), steps=[step], static=alone, full=False).static
        assert seen is not None
        values, slopes = seen.values[:, 0], seen.slopes[:, 0]
        return Moments(
            float(slopes.mean()),
            float(values.mean()),
            value_var=float(values.var(ddof=1)) / size,
            slope_var=float(slopes.var(ddof=1)) / size,
        )

    return gradline.solve(Prls(), phi, memory=PrlsMemory(guess, guess))


def draw_record(data: Record[Any, Any], inks: Inks) -> Figure:
    """As anyone may draw it."""
    figure = gradline.plot.search(data)
    assert isinstance(figure, Figure)
    return figure


# ---- Making them ----


def _legend(axis: Axes, **where: Any) -> None:
    axis.legend(frameon=False, fontsize=8.5, **where)


PICTURES: dict[str, tuple[Callable[[], Any], Callable[[Any, Inks], Figure]]] = {
    "sampled": (sampled_data, draw_sampled),
    "found": (found_data, draw_found),
    "landscape": (landscape_data, draw_landscape),
    "searches": (searches_data, draw_searches),
    "runs": (runs_data, draw_runs),
    "angle": (angle_data, draw_angle),
    "one-search": (one_search_data, draw_record),
    "prls": (prls_data, draw_record),
}


def names() -> Iterator[str]:
    """The files that `make` writes."""
    for name in PICTURES:
        yield f"{name}.svg"
        yield f"{name}-dark.svg"


def make(folder: Path) -> None:
    """Write all pictures."""
    for name, (compute, draw) in PICTURES.items():
        with threads():  # sums have the same order on every machine
            data = compute()
        for ending, inks in (("", LIGHT), ("-dark", DARK)):
            with style.settings(inks), matplotlib.rc_context(FONTS):
                figure = draw(data, inks)
            style.save(figure, folder / f"{name}{ending}", files=(".svg",), transparent=True)
