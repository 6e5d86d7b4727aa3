"""What came of a comparison on a model of your own: a row for each method, the curves, and the code to paste."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings.measures import Spread, spread
from gradline.lab.jobs.result import Result, Status
from gradline.lab.jobs.store import Store
from gradline.lab.methods import METHODS, Method, Peer, SearchMethod
from gradline.lab.studies import Study, plan
from gradline.lab.tools.formatting import duration, number, percent, plural

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """A method: its measures at the end of training, over seeds, and its cost."""

    method: str
    validation_loss: Spread
    """Infinite where a run failed or diverged."""
    lowest: Spread
    """The lowest validation loss along the run, as early stopping would find it."""
    validation_error: Spread
    train_loss: Spread
    seconds: float
    """Of training, of one run (the mean over seeds)."""
    per_evaluation: float
    """Seconds of an evaluation with the method's step, over those of Adam; NaN without runs of Adam."""
    failures: tuple[str, ...]
    """The reasons of runs that failed or diverged."""
    code: str
    """The lines that make it in a training loop."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """How methods compare on a model.

    Args:
        study: the study that was run.
        directory: where its results are.
        results: the runs.
    """

    study: Study
    directory: Path
    results: tuple[Result, ...]

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each method, the lowest validation loss (of the median seed) first."""
        unit = _pace(self._of("adam-0.001"))
        made = [_row(method, self._of(method.name), unit) for method in self.study.methods]
        return sorted(made, key=lambda row: (row.validation_loss.median, row.method))

    def curves(self, method: str, measure: str) -> list[tuple[Array, Array]]:
        """Return evaluations and a measured column of a method's runs."""
        found = []
        for result in self._of(method):
            measured = ~np.isnan(result.columns[measure])
            found.append((result.columns["evaluations"][measured], result.columns[measure][measured]))
        return found

    def _of(self, method: str) -> list[Result]:
        return [result for result in self.results if result.run.method.name == method]

    @property
    def has_error(self) -> bool:
        """Whether there is an error beside the loss."""
        return any(not math.isnan(row.validation_error.median) for row in self.rows)

    @property
    def best(self) -> Row:
        """The method with the lowest validation loss."""
        return self.rows[0]

    @property
    def sentences(self) -> list[str]:
        """What to conclude, in a few sentences."""
        if math.isinf(self.best.validation_loss.median):
            return ["Every method failed or diverged."]
        seeds = len(self.study.seeds)
        said = [f"Lowest validation loss: {self.best.method}, {number(self.best.validation_loss.median)}."]
        ours = next((row for row in self.rows if _is_angle(METHODS[row.method])), None)
        if ours is not None and ours is not self.best:
            said.append(f"{ours.method}, which has no learning rate: {number(ours.validation_loss.median)}.")
        for family, rows in self._grids().items():
            total = sum(row.seconds for row in rows)
            compared = f", against {duration(ours.seconds)} of {ours.method}" if ours is not None else ""
            said.append(
                f"The best of {plural(len(rows), 'learning rate')} of {family} is {rows[0].method}, "
                f"{number(rows[0].validation_loss.median)}; trying them all took {duration(total)}{compared}."
            )
        if seeds == 1:
            said.append("One run of each method: small differences are chance (3 seeds show how much).")
        return said

    def _grids(self) -> dict[str, list[Row]]:
        """Rows of methods that are points of a grid of learning rates, by the grid, where it has several."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            method = METHODS[row.method]
            if isinstance(method, Peer) and method.rate is not None:
                found.setdefault(method.name.rpartition("-")[0], []).append(row)
        return {family: rows for family, rows in found.items() if len(rows) > 1}

    def labels(self) -> dict[str, str]:
        """Return the methods that are drawn, with what they are called: of a grid of learning rates the best one."""
        grids = self._grids().values()
        worse = {row.method for rows in grids for row in rows[1:]}
        best = {rows[0].method: f"{rows[0].method} (best of {len(rows)})" for rows in grids}
        return {row.method: best.get(row.method, row.method) for row in self.rows if row.method not in worse}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the table as text: its header and its rows."""
        error = ["validation error %"] if self.has_error else []
        header = ["method", "validation loss", "lowest", *error, "train loss", "time", "× Adam"]
        rows = []
        for row in self.rows:
            errors = [percent(row.validation_error.median)] if self.has_error else []
            loss, lowest = _text(row.validation_loss), number(row.lowest.median)
            pace = "-" if math.isnan(row.per_evaluation) else f"{row.per_evaluation:.2f}"
            rows.append(
                [row.method, loss, lowest, *errors, number(row.train_loss.median), duration(row.seconds), pace]
                if not row.failures
                else [row.method, row.failures[0], lowest, *errors, "-", duration(row.seconds), pace]
            )
        return header, rows

    def __str__(self) -> str:
        header, rows = self.cells()
        lines = [header, *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*table, "", *self.sentences, "", self.best.code])

    def _repr_html_(self) -> str:
        """Show the table, the conclusions and the code in a notebook."""
        from gradline.lab.comparing.page import summary

        return summary(self)


def read(study: Study, directory: str | Path) -> Outcome:
    """Read the runs of a study from its directory."""
    store = Store(directory)
    return Outcome(study, Path(directory), tuple(store.load(run.key) for run in plan(study)))


def code(method: Method) -> str:
    """Return the lines that make an optimizer in a training loop, from the description of a method."""
    if _is_angle(method):
        assert isinstance(method, SearchMethod)
        if not method.average:
            return "optimizer = gradline.Angle(model.parameters(), average=False)"
        return "optimizer = gradline.Angle(model.parameters())  # evaluate and save in `with optimizer.eval():`"
    call, _, schedule = method.described.partition("), ")
    name, _, options = call.removesuffix(")").partition("(")
    module = f"{method.module}." if isinstance(method, Peer) and not name.startswith("torch.") else ""
    made = f"optimizer = {module}{name}(model.parameters(){f', {options}' if options else ''})"
    if schedule == "cosine":
        made += "\nscheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=number_of_steps)"
    return made


def _is_angle(method: Method) -> bool:
    return isinstance(method, SearchMethod) and type(method.search).__name__ == "Angle"


def _row(method: Method, results: list[Result], adam: float) -> Row:
    failures = tuple(result.reason or "diverged" for result in results if result.status is not Status.DONE)
    return Row(
        method=method.name,
        validation_loss=_final(results, "validation_loss"),
        lowest=spread(_lowest(result) for result in results),
        validation_error=_final(results, "validation_error"),
        train_loss=_final(results, "train_loss"),
        seconds=float(np.mean([result.seconds for result in results])),
        per_evaluation=_pace(results) / adam,
        failures=failures,
        code=code(method),
    )


def _final(results: list[Result], measure: str) -> Spread:
    values = []
    for result in results:
        measured = result.columns[measure][~np.isnan(result.columns[measure])]
        absent = math.nan if measure == "validation_error" else math.inf
        values.append(float(measured[-1]) if result.status is Status.DONE and measured.size else absent)
    return spread(values)


def _lowest(result: Result) -> float:
    measured = result.columns["validation_loss"]
    finite = measured[np.isfinite(measured)]
    return float(finite.min()) if finite.size else math.inf


def _pace(results: list[Result]) -> float:
    """Return processor seconds of an evaluation, the median over runs; NaN if there are none."""
    paces: list[Any] = []
    for result in results:
        times = result.columns["cpu_seconds"][~np.isnan(result.columns["cpu_seconds"])]
        if times.size and result.columns["evaluations"][-1] > 0:
            paces.append(times[-1] / result.columns["evaluations"][-1])
    return float(np.median(paces)) if paces else math.nan


def _text(found: Spread) -> str:
    """Return a number over seeds as text, with its range if there is one."""
    middle = number(found.median)
    return middle if found.best == found.worst else f"{middle} ({number(found.best)} to {number(found.worst)})"
