"""`gradline claims`: whether results reproduce the claims of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradline.lab.cli.terminal import console

if TYPE_CHECKING:
    import pandas as pd

    from gradline.lab.findings.claims import Verdict

MARKS = {True: "yes", False: "no", None: "not run"}


@click.command(
    short_help="Test the paper's claims on results.",
    epilog="\b\nExamples:\n"
    "  gradline claims                       claim 1, computed on the spot\n"
    "  gradline claims results/bcwd\n"
    "  gradline claims bcwd.csv --markdown   of `gradline results --csv bcwd.csv`",
)
@click.argument("source", metavar="[DIR]", type=click.Path(), required=False)
@click.option("--markdown", is_flag=True, help="Print it as a Markdown table.")
def verb(source: str | None, markdown: bool) -> None:
    """Report for each claim of the paper whether the runs in DIR reproduce it, with the paper's figures and ours.

    DIR is a folder of results, or a file that `gradline results` wrote with --csv or --pack. A claim has parts; one
    that no run can decide is "not run". Claim 1 is about one line through a loss: it needs no runs, and is computed
    on the spot.
    """
    from gradline.lab.findings.bounded import first_claim
    from gradline.lab.findings.claims import claims as held

    of_runs = held(_summary(Path(source))) if source else []  # first: a folder without results is told at once
    verdicts = [first_claim(), *of_runs]
    if markdown:
        click.echo(table_of(verdicts))
        return

    out = console()
    for verdict in verdicts:
        runs = "" if verdict.runs == "none" else f" ({verdict.runs})"
        out.print(f"[bold]{verdict.number}. {verdict.claim}[/]: {verdict.verdict}{runs}")
        for part in verdict.parts:
            out.print(f"   {MARKS[part.holds]:>7}  {part.statement}: [dim]{verdict.evidence(part)}[/]", highlight=False)


def _summary(source: Path) -> pd.DataFrame:
    import pandas as pd

    from gradline.lab import summary

    if source.suffix != ".csv":
        found = summary(source)
        if found.empty:
            raise click.ClickException(f"{source} has no results; `gradline run bcwd --out {source}` makes some")
        return found
    if not source.exists():
        raise FileNotFoundError(f"DIR must be a folder of results or a file of them, but {source} does not exist")
    frame = pd.read_csv(source)
    missing = {"problem", "method", "start_train_loss", "step_early"} - set(frame)
    if missing:
        raise click.ClickException(
            f"{source} must be a file that `gradline results --csv` wrote, but it has no {sorted(missing)[0]}"
        )
    return frame


def table_of(verdicts: list[Verdict]) -> str:
    """Return verdicts as a Markdown table."""
    from gradline.lab.report.tables import markdown

    rows: list[list[object]] = []
    for verdict in verdicts:
        rows.append([verdict.number, f"**{verdict.claim}**", f"**{verdict.verdict}**", "", "", ""])
        for part in verdict.parts:
            runs = f"{part.runs} (few or short)" if part.short else part.runs
            rows.append(["", part.statement, MARKS[part.holds], part.seen, part.paper, runs])
    return markdown(["", "claim", "verdict", "here", "paper", "runs"], rows, words=range(6))
