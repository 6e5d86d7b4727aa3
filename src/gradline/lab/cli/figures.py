"""`gradline figures`: draw the paper's figures, and those of the other studies, into files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gradline.lab.figures.traces import Trace


@click.command(
    short_help="Draw the paper's figures from results.",
    epilog="\b\nExamples:\n"
    "  gradline figures results/bcwd --out figures\n"
    "  gradline figures results/bcwd --out figures --figure 8 --figure table-3\n"
    "  gradline figures results/paper.json.gz --out figures\n"
    "  gradline figures --out figures                     the illustrations, 1 to 7\n\n"
    "In Python: FIGURES of gradline.lab.figures has each figure's data(...) and draw(...).",
)
@click.argument("directory", metavar="[DIR]", type=click.Path(), required=False)
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Folder for PDF and PNG files.",
)
@click.option(
    "--figure",
    "wanted",
    multiple=True,
    metavar="N",
    help="Only this one: a number, table-3, or a study such as direction-quality. Repeatable.",
)
def figures(directory: str | None, folder: str, wanted: tuple[str, ...]) -> int:
    """Draw the figures of the results in DIR into FOLDER, as PDF and PNG.

    Figures 1 to 7 are illustrations and computed on the spot. A figure whose runs are not in DIR is left out; one that
    has a part of them says so. DIR may also be a file of `gradline results --pack`. Of a comparison
    (`gradline run compare`, `gradline run train`) three kinds of figures are drawn.
    """
    from gradline.lab.cli.terminal import console
    from gradline.lab.figures import FIGURES, save
    from gradline.lab.figures.traces import MissingRuns

    notes = console(stderr=True)
    names = [find(text, FIGURES) for text in wanted] or list(FIGURES)
    runs = read(directory, notes) if directory is not None else []
    written: list[Path] = []
    if directory is not None and not wanted:
        written += compared(directory, folder, notes)
    if directory is not None and not (runs or written):
        raise click.ClickException(f"{directory} has no results; `gradline run STUDY --out {directory}` makes some")
    for name in dict.fromkeys(names):
        figure = FIGURES[name]
        try:
            with notes.status(f"drawing {figure.label}"):
                data = figure.data(runs) if figure.needs else figure.data()
                for part, drawn in figure.drawings(data).items():
                    written += save(drawn, Path(folder) / part)
        except MissingRuns as reason:
            if wanted or directory is not None:
                notes.print(str(reason), style="dim", markup=False)
    for path in written:
        click.echo(path)
    return 0 if written else 1


def compared(source: str, folder: str, notes: Any) -> list[Path]:
    """Draw the figures of a comparison, where there is one."""
    from gradline.lab.figures import save
    from gradline.lab.figures.compare_heat import draw_heat, heat_data
    from gradline.lab.figures.compare_lines import draw_losses, draw_profile, losses_data, profile_data
    from gradline.lab.figures.train_questions import drawings
    from gradline.lab.findings.comparison import own
    from gradline.lab.findings.reading import read, read_training
    from gradline.plot.inks import LIGHT

    written = []
    _, training = read_training(source)
    if training.cases:
        with notes.status("drawing the study train"):
            for name, draw in drawings(training).items():
                written += save(draw(LIGHT), Path(folder) / f"train_{name}")
    _, known = read(source)
    if not known.records:
        return written
    methods, table, targets = known.drawn(own()), known.table, known.targets
    with notes.status("drawing the comparison"):
        written += save(draw_heat(heat_data(known)), Path(folder) / "compare_heat")
        written += save(draw_profile(profile_data(table, targets, methods)), Path(folder) / "compare_profile")
        for measure in ("train_loss", "test_error"):
            for against in ("evaluations", "seconds"):
                data = losses_data(table, list(table), methods, measure=measure, against=against, targets=targets)
                written += save(draw_losses(data), Path(folder) / f"compare_{measure}_{against}")
    return written


def read(directory: str, notes: Any) -> list[Trace]:
    """The runs in a directory or a packed file."""
    from gradline.lab.figures.traces import traces

    with notes.status("reading runs"):
        return traces(directory, report=lambda text: notes.print(text, style="yellow", markup=False))


def find(text: str, known: Any) -> str:
    """The name of the figure that is meant by 8, figure-8, table_3 or static-vs-dynamic."""
    plain = re.sub(r"[\s-]+", "_", text.strip().lower())
    for name in (plain, f"figure_{plain}", f"study_{plain}"):
        if name in known:
            return str(name)
    choices = ", ".join(one.label.removeprefix("figure ").replace(" ", "-") for one in known.values())
    raise click.UsageError(f"--figure must be one of {choices}; got {text}")
