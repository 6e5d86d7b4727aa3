"""The outcome of a comparison on a model of your own: a row for each method, the code to paste, a picture, a page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gradline.lab.figures import style
from gradline.lab.figures.compare_losses import VALIDATION_ERROR, VALIDATION_LOSS, draw_losses
from gradline.lab.findings.cases import Case, MethodRuns, Spread
from gradline.lab.findings.traces import Trace, thin
from gradline.lab.jobs.store import Store
from gradline.lab.methods import METHODS, Method, Peer, SearchMethod
from gradline.lab.report.page import template
from gradline.lab.report.tables import text_table
from gradline.lab.studies import Study, plan
from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.formatting import duration, number, percent, plural
from gradline.plot.inks import LIGHT, Inks

PICTURE = "compare"
PAGE = "report.html"
CAPTION = "Validation loss against evaluations, a line for each method; of a grid of learning rates the best one."


class ComparedMethod(MethodRuns):
    """A method: its measures at the end of training, over seeds, and its cost."""

    @property
    def lowest(self) -> Spread:
        """The lowest validation loss along the run, as early stopping would find it."""
        return self.over_seeds(
            lambda run: min(filter(math.isfinite, run.columns["validation_loss"].tolist()), default=math.inf)
        )

    @property
    def clock(self) -> float:
        """Seconds of training of one run by the clock, without measuring (the mean over seeds)."""
        return float(np.mean([run.last("seconds") for run in self.runs]))

    @property
    def code(self) -> str:
        return code(METHODS[self.method])


@dataclass(frozen=True, eq=False)
class Outcome:
    """How methods compare on a model.

    Args:
        study: the study that was run.
        directory: where its results are.
        rows: a row for each method, the lowest validation loss (of the median seed) first.
    """

    study: Study
    directory: Path
    rows: list[ComparedMethod]

    @property
    def has_error(self) -> bool:
        """Whether there is an error beside the loss."""
        return any(math.isfinite(row.validation_error.median) for row in self.rows)

    @property
    def best(self) -> ComparedMethod:
        """The method with the lowest validation loss."""
        return self.rows[0]

    @property
    def sentences(self) -> list[str]:
        """The conclusions, in a few sentences."""
        if math.isinf(self.best.validation_loss.median):
            return ["Every method failed or diverged."]
        seeds = len(self.study.seeds)
        said = [f"Lowest validation loss: {self.best.method}, {number(self.best.validation_loss.median)}."]
        ours = next((row for row in self.rows if _is_angle(METHODS[row.method])), None)
        if ours is not None and ours is not self.best:
            said.append(f"{ours.method}, which has no learning rate: {number(ours.validation_loss.median)}.")
        for family, rows in self._grids().items():
            total = sum(row.clock for row in rows)
            compared = f", against {duration(ours.clock)} of {ours.method}" if ours is not None else ""
            said.append(
                f"The best of {plural(len(rows), 'learning rate')} of {family} is {rows[0].method}, "
                f"{number(rows[0].validation_loss.median)}; trying them all took {duration(total)}{compared}."
            )
        if seeds == 1:
            said.append("One run of each method: small differences are chance (3 seeds show how much).")
        return said

    def _grids(self) -> dict[str, list[ComparedMethod]]:
        """Return the rows of grids of learning rates, by the name of the grid; grids of one row are left out."""
        found: dict[str, list[ComparedMethod]] = {}
        for row in self.rows:
            method = METHODS[row.method]
            if isinstance(method, Peer) and method.rate is not None:
                found.setdefault(method.name.rpartition("-")[0], []).append(row)
        return {family: rows for family, rows in found.items() if len(rows) > 1}

    def drawn(self) -> Case:
        """Return the methods that are drawn, by what they are called: of a grid of learning rates the best one."""
        grids = self._grids().values()
        worse = {row.method for rows in grids for row in rows[1:]}
        best = {rows[0].method: f"{rows[0].method} (best of {len(rows)})" for rows in grids}
        entries = {best.get(row.method, row.method): row for row in self.rows if row.method not in worse}
        return Case(self.study.settings[0], dict[str, MethodRuns](entries))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the table as text: its header and its rows."""
        adam = next((row.pace() for row in self.rows if row.method == "adam-0.001"), math.nan)
        error = ["validation error %"] if self.has_error else []
        header = ["method", "validation loss", "lowest", *error, "train loss", "time", "× Adam"]
        rows = []
        for row in self.rows:
            errors = [percent(row.validation_error.median)] if self.has_error else []
            ends = (str(row.validation_loss), number(row.final("train_loss").median))
            if row.failures:
                ends = (row.failures[0], "-")
            cost = row.pace() / adam
            times = [duration(row.clock), "-" if math.isnan(cost) else f"{cost:.2f}"]
            rows.append([row.method, ends[0], number(row.lowest.median), *errors, ends[1], *times])
        return header, rows

    def __str__(self) -> str:
        header, rows = self.cells()
        lines = [header, *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*table, "", *self.sentences, "", self.best.code])

    def _repr_html_(self) -> str:
        macros: Any = template("macros.html.jinja").module
        return str(macros.summary(self, text_table(*self.cells())))


def read(study: Study, directory: str | Path) -> Outcome:
    """Read the runs of a study from its directory."""
    store, found = Store(directory), {method.name: list[Trace]() for method in study.methods}
    for run in plan(study):
        found[run.method.name].append(thin(store.load(run.key), points=run.budget))
    rows = [ComparedMethod(name, tuple(runs)) for name, runs in found.items()]
    return Outcome(study, Path(directory), sorted(rows, key=lambda row: (row.validation_loss.median, row.method)))


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


def draw(found: Outcome, inks: Inks = LIGHT) -> style.Figure:
    """Draw validation loss, and error if there is one, against evaluations: the median over seeds."""
    case = found.drawn()
    measures = [VALIDATION_LOSS, VALIDATION_ERROR] if found.has_error else [VALIDATION_LOSS]
    # With more places than were measured, lines would have steps.
    points = max(1, *(run.counted - 1 for row in found.rows for run in row.runs))
    return draw_losses([case], list(case.entries), inks, measures=measures, points=points)


def write(found: Outcome, directory: Path) -> Path:
    """Write the picture (PNG and PDF) and the page, which needs no other file, and return the page's path."""
    style.save(draw(found), directory / PICTURE)
    text = template("compare.html.jinja").render(
        title=f"{found.study.name}: optimizers compared",
        setting=found.study.settings[0],
        runs=plural(len(found.study.seeds), "run"),
        found=found,
        cells=text_table(*found.cells()),
        curves=style.picture("curves", "Along training", CAPTION, partial(draw, found)),
    )
    with atomic_write(directory / PAGE) as file:
        file.write(text.encode())
    return directory / PAGE
