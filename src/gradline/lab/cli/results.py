"""`gradline results`: what came of a study."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from gradline.lab.cli.options import Count

if TYPE_CHECKING:
    import pandas as pd


@click.command(
    short_help="Summarise the results of a study.",
    epilog="\b\nExamples:\n"
    "  gradline results results/bcwd\n"
    "  gradline results results/bcwd --problem bcwd-netpi --runs\n"
    "  gradline results results/bcwd --csv bcwd.csv\n\n"
    "In Python: gradline.lab.results(DIR) gives every iteration, gradline.lab.summary(DIR) every run.",
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--problem", multiple=True, metavar="NAME", help="Only this problem. Repeatable.")
@click.option("--method", multiple=True, metavar="NAME", help="Only this method. Repeatable.")
@click.option("--batch-size", type=Count(1), multiple=True, metavar="B", help="Only these. Repeatable.")
@click.option("--runs", is_flag=True, help="A line for each run, not for its seeds together.")
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write a line for each run.")
@click.option("--json", "as_json", is_flag=True, help="Print every run's summary as JSON.")
def results(
    directory: str,
    problem: tuple[str, ...],
    method: tuple[str, ...],
    batch_size: tuple[int, ...],
    runs: bool,
    csv_file: str | None,
    as_json: bool,
) -> None:
    """Summarise the results in DIR.

    Losses and errors are the last ones measured. "zero at" is the number of evaluations at the first training error of
    zero, where at least half of the runs got there; "probes" and "max" are the mean and the most of one search;
    "stalled" counts runs whose last steps were zero.
    """
    from gradline.lab import summary
    from gradline.lab.cli.words import console, plural

    notes = console(stderr=True)
    frame = summary(
        directory,
        problem=problem or None,
        method=method or None,
        batch_size=batch_size or None,
        report=lambda text: notes.print(text, style="yellow", markup=False),
    )
    if frame.empty:
        raise click.ClickException(
            f"{directory} has no such results; `gradline run STUDY --out {directory}` makes some"
        )
    if csv_file:
        frame.to_csv(csv_file, index=False)
        notes.print(f"{csv_file} has {plural(len(frame), 'run')}")
    if as_json:
        click.echo(json.dumps(json.loads(frame.to_json(orient="records")), indent=2))
    if csv_file or as_json:
        return
    out = console()
    shown = _settings(frame, each=runs)
    for problem_name, rows in frame.groupby("problem", observed=True):
        out.print(f"[bold]{problem_name}[/]")
        out.print(_table(rows, shown, each=runs))
        out.print()
    medians = "" if runs else "; medians over seeds"
    out.print(f"[dim]{plural(len(frame), 'run')}, {frame.evaluations.sum():,} evaluations{medians}[/]")


def _settings(frame: pd.DataFrame, *, each: bool) -> dict[str, str]:
    """The settings that tell the lines of a table apart, and the headers of their columns."""
    shown = {"batch_size": ">B", "method": "method"}
    more = {"sampling": "sampling", "direction_batch_size": ">B of dir.", "budget": ">budget", "loss": "loss"}
    more |= {"diagonal": "diagonal", "repetition": "repetition"}
    within = frame.groupby("problem", observed=True)[list(more)].nunique(dropna=False).max()
    shown |= {name: header for name, header in more.items() if within[name] > 1}
    return shown | ({"seed": ">seed"} if each else {})


def _table(frame: pd.DataFrame, shown: dict[str, str], *, each: bool) -> Any:
    from gradline.lab.cli.words import number, percent, table

    made = table(
        *shown.values(),
        *([] if each else [">runs"]),
        *(">train loss", ">train %", ">test %", ">zero at", ">probes", ">max", ">stalled"),
    )
    for column in made.columns:  # the same for every problem
        column.no_wrap, column.min_width = True, {"method": 6, "B": 4}.get(str(column.header))
    lines = [*shown, *(["key"] if each else [])]
    for values, rows in frame.groupby(lines, observed=True, dropna=False):
        zeros = rows.zero_error_at.dropna()
        stalled = int(rows.stalled.sum())
        made.add_row(
            *(_plain(value) for value in values[: len(shown)]),
            *([] if each else [str(len(rows))]),
            number(rows.final_train_loss.median()),
            percent(rows.final_train_error.median()),
            percent(rows.final_test_error.median()),
            f"{zeros.median():,.0f}" if len(zeros) >= len(rows) / 2 else "-",
            f"{rows.probes_mean.mean():.1f}",
            str(int(rows.probes_max.max())),
            f"[red]{stalled}[/]" if stalled else "-",
        )
    return made


def _plain(value: Any) -> str:
    import pandas as pd

    return "same" if pd.isna(value) else str(value)
