"""`gradline report`: the results of a study as one HTML page."""

from __future__ import annotations

import click

from gradline.lab.cli.terminal import console
from gradline.lab.tools.formatting import size


@click.command(
    short_help="Write the results as one HTML page.",
    epilog="\b\nExamples:\n"
    "  gradline report results/bcwd --out bcwd.html\n"
    "  gradline report results/bcwd --out a.html --no-illustrations --title BCWD\n"
    "  gradline report results/bcwd --out a.html --compare results/compare.json.gz\n\n"
    "In Python: gradline.lab.report.write(DIR, FILE).",
)
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option("--out", "file", required=True, type=click.Path(), metavar="FILE", help="Path of the page.")
@click.option("--title", metavar="TEXT", help="Title of the page (default: from DIR's name).")
@click.option(
    "--illustrations/--no-illustrations", default=True, help="Compute and show Figures 1 to 7 too (some seconds)."
)
@click.option(
    "--compare",
    type=click.Path(exists=True),
    metavar="FILE_OR_DIR",
    help="Also compare with other optimizers, by runs of the study compare that are not in DIR.",
)
def verb(directory: str, file: str, title: str | None, illustrations: bool, compare: str | None) -> None:
    """Write the results in DIR to FILE: one page with claims, tables and charts that can be explored.

    DIR is a directory of results, or a file that `gradline results --pack` wrote.

    The page needs no network and no other file, so that it can be mailed. It replaces an earlier one when it is
    complete.
    """
    from gradline.lab import report as pages

    notes = console(stderr=True)
    with notes.status("reading runs") as status:
        path = pages.write(
            directory,
            file,
            title=title,
            illustrations=illustrations,
            compare=compare,
            report=lambda text: notes.print(text, style="yellow", markup=False),
            progress=status.update,
        )
    click.echo(f"{path} ({size(path.stat().st_size)})")
