"""Write the page of a directory's results: read everything, render the template, and rename the file into place."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from gradline.lab.figures import FIGURES, table_3
from gradline.lab.figures.style import Picture
from gradline.lab.findings.claims import claims
from gradline.lab.findings.query import summary_frame
from gradline.lab.findings.reading import traces
from gradline.lab.findings.traces import LOGARITHMS
from gradline.lab.report import charts, content
from gradline.lab.report.overview import endings, overview
from gradline.lab.report.searches import searches
from gradline.lab.report.sections import sections
from gradline.lab.report.tables import results_table
from gradline.lab.tools.files import Report, atomic_write
from gradline.lab.tools.packing import pack_numbers, pack_text


class NoResults(ValueError):  # noqa: N818 - it is no mistake: nothing was run yet
    """A directory has nothing to report."""


def write(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    illustrations: bool = True,
    compare: str | os.PathLike[str] | None = None,
    report: Report | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write the page of a directory's results to a file, and return its path.

    Args:
        directory: that a study was run into, or a file that `gradline results --pack` wrote.
        out: the file. One that is there is replaced when the new one is complete, and kept if that fails.
        title: of the page; by default from the name of the directory.
        illustrations: whether to compute and show Figures 1 to 7 too.
        compare: runs of a comparison from elsewhere, a directory or a packed file; those of the directory are shown
            anyway.
        report: where to say which files were passed over and why; by default as warnings.
        progress: is told what is being done.

    Raises `NoResults`.
    """
    path = Path(out)
    if path.is_dir():
        raise IsADirectoryError(f"out must be a file (the page is one), but {path} is a directory")
    say = progress or (lambda text: None)
    say("reading runs")
    runs = traces(directory, report=report)
    say("comparing with other optimizers")
    compared = sections(traces(compare, report=report) if compare else runs)
    if compare is not None and not compared:
        raise NoResults(f"{compare} has no runs of a comparison; `gradline run compare --out {compare}` makes them")
    if not runs:
        raise NoResults(f"{directory} has no results; `gradline run STUDY --out {directory}` makes some")
    table = summary_frame([run.row for run in runs])
    curves, others, left_out = charts.figure_charts(runs)
    say("making single searches")
    singles, not_shown = searches([run.run for run in runs])
    best, ended = overview(table), endings(table)
    data: dict[str, Any] = {
        "fields": ["evaluations", *charts.FIELDS],
        "logarithms": sorted(LOGARITHMS),
        "runs": charts.run_table(runs),
        "charts": {chart["id"]: chart for chart in curves},
        "overview": best,
        "endings": ended,
        "search": singles,
        "palette": charts.line_styles(("gols-i", "prls")),
        "results": json.loads(table.drop(columns="key").to_json(orient="split", double_precision=15)),
    }
    drawn = [FIGURES[name] for name in others if name != "table_3"]
    script = read_text("page.js")
    say("embedding charts")
    text = template("page.html.jinja").render(
        title=title or f"Line searches: {Path(directory).resolve().name}",
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        plotly=pack_text(_plotly()),
        data=pack_text(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        numbers=pack_numbers(charts.numbers(runs)),
        charts=curves,
        pictures=[figure.picture(others[figure.name]) for figure in drawn],
        table_3=FIGURES["table_3"] if "table_3" in others else None,
        table_3_header=table_3.HEADER,
        table_3_rows=table_3.cells(others["table_3"]) if "table_3" in others else [],
        left_out=left_out,
        verdicts=claims(table),
        signs=content.SIGNS,
        holds=content.HOLDS,
        overview=best,
        endings=ended,
        searches=singles,
        not_shown=not_shown,
        results=results_table(table),
        configuration=content.configuration(runs),
        illustrations=_illustrations(say) if illustrations else [],
        sections=compared,
        runs=len(runs),
        evaluations=round(table["evaluations"].sum()),
    )
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
    return path


def read_text(name: str) -> str:
    """Return the text of a file beside this module."""
    return files("gradline.lab.report").joinpath(name).read_text("utf-8")


@cache
def template(name: str) -> jinja2.Template:
    """Return a template for pages; those that extend `base.html.jinja` need `title` alone."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(style=read_text("page.css"), version=version("gradline"), infinity=math.inf)
    return environment.get_template(name)


def _plotly() -> str:
    """Return Plotly's program. The comment before it has Chromium compile it at once, beside the page's own thread."""
    program = files("plotly").joinpath("package_data", "plotly.min.js")
    return "//# allFunctionsCalledOnLoad\n" + program.read_text("utf-8")


def _illustrations(say: Callable[[str], None]) -> list[Picture]:
    """Return Figures 1 to 7 as pictures."""
    pictures = []
    for figure in FIGURES.values():
        if not figure.needs:
            say(f"drawing {figure.label}")
            pictures.append(figure.picture(figure.data()))
    return pictures
