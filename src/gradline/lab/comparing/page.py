"""The picture and the page of a comparison on a model of your own."""

from __future__ import annotations

import base64
import io
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradline.lab.comparing.outcome import Outcome
from gradline.lab.figures import style
from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.formatting import number
from gradline.plot.inks import stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = "compare"
PAGE = "report.html"

_SHEET = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-size: 0.9rem }
.wide { overflow-x: auto }
th, td { padding: 0.25rem 0.9rem 0.25rem 0; text-align: left; border-bottom: 1px solid #8884; white-space: nowrap }
tbody tr:first-child { font-weight: bold }
pre { padding: 0.7rem 1rem; background: #8882; border-radius: 0.4rem; overflow-x: auto }
img { max-width: 100%; height: auto; background: white; border-radius: 0.4rem }
footer { font-size: 0.8rem; opacity: 0.7; margin-top: 2rem }
"""


def draw(found: Outcome) -> Figure:
    """Draw validation loss, and error if there is one, against evaluations: the median over seeds."""
    measures = {"validation_loss": "validation loss"}
    if found.has_error:
        measures["validation_error"] = "validation error"
    labels = found.labels()
    with style.settings():
        figure, axes = style.panels(1, len(measures), height=3.6, width=4.2 * len(measures) + 1.0)
        for axis, (measure, words) in zip(axes.flat, measures.items(), strict=True):
            shown: list[float] = []
            for place, (method, label) in enumerate(labels.items()):
                curves = [curve for curve in found.curves(method, measure) if curve[0].size]
                if not curves:
                    continue
                grid = np.unique(np.concatenate([at for at, _ in curves]))
                values = np.median([np.interp(grid, at, value) for at, value in curves], axis=0)
                ours = method.startswith("angle")
                options = stroke(0 if ours else 1 + place).options() | ({"linewidth": 2.4, "zorder": 4} if ours else {})
                axis.plot(grid, values, label=label, **options)
                shown += [value for value in values[len(values) // 10 :] if np.isfinite(value)]
            positive = [value for value in shown if value > 0.0]
            if positive and measure == "validation_loss":
                axis.set_yscale("log")
                for which in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
                    which(style.matplotlib("ticker").FuncFormatter(lambda value, _: number(value, 2)))
            if positive:
                low, high = min(positive), float(np.quantile(positive, 0.98))
                axis.set_ylim(low * 0.9 if measure == "validation_loss" else 0.0, max(high * 1.1, low * 1.2))
            axis.set_xlabel("evaluations (forward and backward passes)")
            axis.set_ylabel(words)
        style.legend(figure, axes.flat, columns=3)
    return figure


def summary(found: Outcome) -> str:
    """Return the table, the conclusions and the code as HTML."""
    header, rows = found.cells()
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in found.sentences)
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    return f"{table}<ul>{said}</ul><pre>{escape(found.best.code)}</pre>"


def write(found: Outcome, directory: Path) -> Path:
    """Write the picture (PNG and PDF) and the page, which needs no other file, and return the page's path."""
    figure = draw(found)
    style.save(figure, directory / PICTURE)
    buffer = io.BytesIO()
    with style.settings():
        figure.savefig(buffer, dpi=150, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode("ascii")
    name, setting = escape(found.study.name), found.study.settings[0]
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name}: optimizers compared</title><style>{_SHEET}</style></head><body>
<h1>{name}: optimizers compared</h1>
<p>{escape(setting.problem.described)}: {setting.problem.parameters:,} parameters, {setting.problem.samples:,} training
samples, batches of {setting.batch_size}, {setting.budget:,} evaluations (forward and backward passes) a run,
{len(found.study.seeds)} run(s) of each method. Losses are those at the end of training, medians over the runs;
"lowest" is the lowest validation loss on the way, "× Adam" the processor time of an evaluation over Adam's.</p>
{summary(found)}
<img alt="validation loss against evaluations, a line for each method" src="data:image/png;base64,{picture}">
<footer>gradline {escape(version("gradline"))}. Time is that of training, without measuring.</footer>
</body></html>
"""
    path = directory / PAGE
    with atomic_write(path) as file:
        file.write(text.encode())
    return path
