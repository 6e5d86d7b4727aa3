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
    "  gradline results results/bcwd --csv bcwd.csv\n"
    "  gradline results results/bcwd --pack bcwd.json.gz\n"
    "  gradline results results/compare --memory --pack compare.json.gz\n"
    "  gradline results compare.json.gz --problem regression\n\n"
    "In Python: gradline.lab.results(DIR) gives every iteration, gradline.lab.summary(DIR) every run.",
)
@click.argument("source", metavar="DIR", type=click.Path())
@click.option("--problem", multiple=True, metavar="NAME", help="Only this problem. Repeatable.")
@click.option("--method", multiple=True, metavar="NAME", help="Only this method. Repeatable.")
@click.option("--batch-size", type=Count(1), multiple=True, metavar="B", help="Only these. Repeatable.")
@click.option("--runs", is_flag=True, help="A line for each run, not for its seeds together.")
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write a line for each run.")
@click.option("--json", "as_json", is_flag=True, help="Print every run's summary as JSON.")
@click.option(
    "--study",
    metavar="STUDY",
    help="Of a comparison: whose settings and targets count (default: compare, or else train).",
)
@click.option("--memory", is_flag=True, help="Of a comparison: also measure each method's peak memory.")
@click.option(
    "--pack",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the runs into one small file, with thinned curves.",
)
def results(
    source: str,
    problem: tuple[str, ...],
    method: tuple[str, ...],
    batch_size: tuple[int, ...],
    runs: bool,
    csv_file: str | None,
    as_json: bool,
    study: str | None,
    memory: bool,
    pack: str | None,
) -> None:
    """Summarise the results in DIR.

    Losses and errors are those at the end of a run. "zero at" is the number of evaluations at the first training error
    of zero, if at least half of the runs reached it; "probes" and "max" are the mean and the largest number of probes
    of a search; "stalled" counts runs whose last steps were zero.

    Runs of a comparison (`gradline run compare`) are compared: final losses, evaluations to a target loss, worst seeds,
    costs, and what failed. DIR may also be a file that --pack wrote, which thins curves and rounds numbers; what
    is told stays the same. Of a grid of learning rates its best and its median one are shown, chosen for each setting
    with the results in hand. --runs, --json and --study '' show a comparison run by run as any other study.
    """
    from gradline.lab import summary
    from gradline.lab.cli.terminal import console
    from gradline.lab.tools.formatting import plural

    notes = console(stderr=True)
    chosen = (problem, method, batch_size)
    for name in () if runs or as_json else ("compare", "train") if study is None else filter(None, [study]):
        if _compared(source, name, chosen, csv_file, memory, pack):
            return
    directory = source
    if pack:
        _pack(source, pack)
        return
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


def _compared(
    source: str,
    study: str,
    chosen: tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]],
    csv_file: str | None,
    memory: bool,
    pack: str | None,
) -> bool:
    """Show the comparison that a directory or a packed file holds; whether there is one."""
    from dataclasses import replace
    from pathlib import Path

    from gradline.lab.cli import compared
    from gradline.lab.cli.terminal import console
    from gradline.lab.findings import packed as files
    from gradline.lab.findings.reading import read
    from gradline.lab.tools.formatting import plural, size

    notes = console(stderr=True)
    if not Path(source).exists():
        raise FileNotFoundError(f"directory must be one that a study was run into, but {source} does not exist")
    problems, methods, sizes = chosen
    wanted = _load(study, problems, methods, sizes)
    if wanted is None:
        return False
    if wanted.tuned:
        return _trained(source, wanted, pack)
    found, known = read(source, wanted, report=lambda text: notes.print(text, style="yellow", markup=False))
    if methods:
        names = {method.name for method in wanted.methods}
        known = replace(known, records=tuple(record for record in known.records if record.method in names))
    if not known.records:
        if not memory:
            return False
        raise click.ClickException(f"{source} has no such runs of a comparison; `gradline run compare` makes some")
    found = replace(found, records=known.records)
    if memory:
        from gradline.lab.findings.memory import copies

        found = replace(found, memory=copies(dict.fromkeys(record.method for record in known.records)))
    if pack:
        there = {record.setting for record in known.records}
        targets = {setting: target for setting, target in found.targets.items() if setting in there}
        path = files.pack(replace(found, targets=targets), pack)
        notes.print(f"{path}: {plural(len(found.records), 'run')}, {size(path.stat().st_size)}")
    if csv_file:
        compared.write_csv(csv_file, known.rows)
    compared.show(found, known)
    return True


def _trained(source: str, study: Any, pack: str | None) -> bool:
    """Show the runs of a study that tunes methods; whether there are any."""
    from dataclasses import replace

    from gradline.lab.cli import trained
    from gradline.lab.cli.terminal import console
    from gradline.lab.findings import packed as files
    from gradline.lab.findings.reading import read_training
    from gradline.lab.tools.formatting import plural, size

    notes = console(stderr=True)
    found, known = read_training(source, study, report=lambda text: notes.print(text, style="yellow", markup=False))
    if not known.cases:
        return False
    if pack:
        names = {setting.problem.name for setting in study.settings}
        records = tuple(record for record in found.records if record.problem in names)
        path = files.pack(replace(found, records=records), pack)
        notes.print(f"{path}: {plural(len(records), 'run')}, {size(path.stat().st_size)}")
    trained.show(known)
    return True


def _pack(directory: str, file: str) -> None:
    """Write the runs of a directory into one small file."""
    from pathlib import Path

    from gradline.lab.cli.terminal import console
    from gradline.lab.findings.reading import pack_directory
    from gradline.lab.tools.formatting import plural, size

    notes = console(stderr=True)
    packed = pack_directory(directory, file, report=lambda text: notes.print(text, style="yellow", markup=False))
    notes.print(f"{file}: {plural(len(packed.digests), 'run')}, {size(Path(file).stat().st_size)}")


def _load(study: str, problems: tuple[str, ...], methods: tuple[str, ...], sizes: tuple[int, ...]) -> Any:
    """The study with what is asked for; `None` if it has nothing of that kind."""
    from gradline.lab import studies

    try:
        return studies.load(study, problems=problems, methods=methods, batch_sizes=sizes)
    except studies.StudyError:
        studies.load(study)  # raises if the study itself is at fault
        return None


def _settings(frame: pd.DataFrame, *, each: bool) -> dict[str, str]:
    """The settings that tell the lines of a table apart, and the headers of their columns."""
    shown = {"batch_size": ">B", "method": "method"}
    more = {"sampling": "sampling", "direction_batch_size": ">B of dir.", "budget": ">budget", "loss": "loss"}
    more |= {"diagonal": "diagonal", "repetition": "repetition"}
    within = frame.groupby("problem", observed=True)[list(more)].nunique(dropna=False).max()
    shown |= {name: header for name, header in more.items() if within[name] > 1}
    return shown | ({"seed": ">seed"} if each else {})


def _table(frame: pd.DataFrame, shown: dict[str, str], *, each: bool) -> Any:
    from gradline.lab.cli.terminal import table
    from gradline.lab.tools.formatting import number, percent

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
            *(("-", "-") if rows.probes_mean.isna().all() else _probes(rows)),
            f"[red]{stalled}[/]" if stalled else "-",
        )
    return made


def _plain(value: Any) -> str:
    import pandas as pd

    return "same" if pd.isna(value) else str(value)


def _probes(rows: Any) -> tuple[str, str]:
    """The mean number of probes of a search, and the largest."""
    return f"{rows.probes_mean.mean():.1f}", str(int(rows.probes_max.max()))
