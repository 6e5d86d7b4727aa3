"""`gradline results`: show, export and pack the results of a study."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradline.lab.cli.options import whole
from gradline.lab.cli.terminal import console, escape, print_table, warn
from gradline.lab.tools.formatting import count, number, percent, plural, size

if TYPE_CHECKING:
    from rich.console import Console

    from gradline.lab.findings.cases import Case, MethodRuns
    from gradline.lab.findings.comparison import Comparison
    from gradline.lab.findings.packed import Packed
    from gradline.lab.findings.training import TrainingCases
    from gradline.lab.report.tables import Table


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
@click.option("--batch-size", type=whole, multiple=True, metavar="B", help="Only this batch size. Repeatable.")
@click.option("--runs", is_flag=True, help="Print a line for each run, not for all seeds together.")
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a line for each run; of `compare`, for each method and setting.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every run's summary as JSON.")
@click.option(
    "--study",
    metavar="STUDY",
    help="For a comparison: the study whose settings and targets are used (default: compare, or else train).",
)
@click.option("--memory", is_flag=True, help="For a comparison: also measure each method's peak memory.")
@click.option(
    "--pack",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Add the runs to one small file, with thinned curves.",
)
def verb(
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
    """Summarise the results in DIR, which may also be a file that --pack wrote.

    Losses and errors are those at the end of a run, medians over seeds. "zero train error at" is the number of
    evaluations at the first training error of zero, if at least half of the runs reached it; "evaluations an iteration"
    are the mean and the largest number of probes of a search; "stalled" counts runs whose last steps were zero.

    Runs of a comparison (`gradline run compare`) are compared: final losses, evaluations to a target loss, worst seeds,
    costs, and failures. For a grid of learning rates the table shows its best and its median one, chosen for each
    setting with the results in hand. --runs, --json and --study '' show a comparison run by run as any other study.
    """
    from gradline.lab import summary
    from gradline.lab.report.tables import Table, results_table

    if not Path(source).exists():
        raise FileNotFoundError(f"DIR must be a directory that a study was run into, but {source} does not exist")
    names = {"problems": problem, "methods": method, "batch_sizes": batch_size}
    chosen: dict[str, Any] = {"problem": problem or None, "method": method or None, "batch_size": batch_size or None}
    compared = None
    for name in () if runs or as_json else ("compare", "train") if study is None else filter(None, [study]):
        compared = compared or _compared(source, name, names, csv_file, memory=memory)
    if pack:
        from gradline.lab.findings.reading import pack_runs

        measured = compared.memory if compared else None
        try:
            packed = pack_runs(source, pack, study=study or "compare", chosen=chosen, memory=measured, report=warn)
        except LookupError as error:
            raise click.ClickException(_nothing(source)) from error
        console(stderr=True).print(f"{pack}: {plural(len(packed.runs), 'run')}, {size(Path(pack).stat().st_size)}")
    if compared or pack:
        return
    frame = summary(source, **chosen, report=warn)
    if frame.empty:
        raise click.ClickException(_nothing(source))
    if csv_file:
        frame.to_csv(csv_file, index=False)
        console(stderr=True).print(f"{csv_file} has {plural(len(frame), 'run')}")
    if as_json:
        click.echo(json.dumps(json.loads(frame.to_json(orient="records")), indent=2))
    if csv_file or as_json:
        return
    out = console()
    found = results_table(frame, each=runs)
    for trained in dict.fromkeys(row[0].value for row in found.rows):
        out.print(f"[bold]{trained}[/]")
        rows = [row[1:] for row in found.rows if row[0].value == trained]
        _print(out, Table(found.header[1:], rows, found.words - 1), OPTIONAL)
        out.print()
    medians = "" if runs else "; medians over seeds"
    out.print(f"[dim]{plural(len(frame), 'run')}, {frame.evaluations.sum():,} evaluations{medians}[/]")


OPTIONAL = (
    "steps",
    "lowest test error",
    "failed",
    "zero train error at",
    "stalled",
    "evaluations an iteration",
    "runs",
)
"""Columns that a narrow terminal does not show, the first one first."""


def _nothing(source: str) -> str:
    """Return why there is nothing to show of a directory or a packed file."""
    from gradline.lab import summary

    if Path(source).is_file():
        return (
            f"{source} has no such results (runs of a comparison in a packed file cannot be shown with --runs, --json "
            f"or --study '')"
        )
    every = summary(source)
    if every.empty:
        return f"{source} has no results; `gradline run STUDY --out {source}` makes some"
    parts = [f"{name}: {', '.join(map(str, every[name].unique()))}" for name in ("problem", "method", "batch_size")]
    return f"{source} has no such results, but some of {'; '.join(parts)}"


def _compared(source: str, study: str, chosen: dict[str, Any], csv_file: str | None, *, memory: bool) -> Packed | None:
    """Show the runs of a comparison in a directory or a packed file, and return them, if there are any."""
    from gradline.lab import studies
    from gradline.lab.findings.comparison import compare
    from gradline.lab.findings.reading import read
    from gradline.lab.findings.training import trained

    whole = studies.load(study)
    try:
        wanted = studies.load(study, **chosen)
    except studies.StudyError:
        return None  # it has no such problem, method or batch size
    found = read(source, wanted, wanted=lambda run: run.benchmark, report=warn)
    if whole.tuned:
        training = trained(found.runs, wanted)
        if not training.cases:
            return None
        if csv_file:
            _write_training(csv_file, training)
        _show_training(training)
        return found
    known = compare(found.runs, wanted)
    if chosen["methods"]:
        names = {method.name for method in wanted.methods}
        known = replace(known, runs=tuple(run for run in known.runs if run.method in names))
    if not known.runs:
        if not memory:
            return None
        raise click.ClickException(f"{source} has no such runs of a comparison; `gradline run compare` makes some")
    found = replace(found, runs=known.runs)
    if memory:
        from gradline.lab.findings.memory import copies

        found = replace(found, memory=copies(dict.fromkeys(run.method for run in known.runs)))
    if csv_file:
        _write_csv(csv_file, known)
    _show_comparison(found, known)
    return found


def _show_comparison(packed: Packed, known: Comparison) -> None:
    """Print a table for each setting, one over all of them, and the memory of methods if it was measured."""
    from gradline.lab.findings.comparison import LIMIT
    from gradline.lab.problems import Built
    from gradline.lab.report.tables import scores_table

    out = console()
    for case in known.cases:
        setting = case.setting
        target = "no target" if setting.target is None else f"target {setting.target:g}"
        described = f"{setting.problem.described}; {setting.budget:,} evaluations, {target}"
        out.print(f"[bold]{setting.name}[/]  [dim]{described}[/]")
        error = setting.problem.error if isinstance(setting.problem, Built) else "test error"
        header = ("!method", ">runs", ">train loss", ">train loss, worst", f">{error}", ">to target")
        rows = [_line(case, entry) for entry in case.ranked]
        optional = ("× step", "× evaluation", "to target, worst", "runs", "train loss, worst", "failed")
        print_table(out, (*header, ">to target, worst", ">× step", ">× evaluation", "failed"), rows, optional)
        out.print()
    out.print(
        f"[bold]All {plural(len(known.shared()), 'setting')} that every method ran on[/]: final loss over the best "
        f"one's (geometric mean, each at most {10**LIMIT:g}), and shares by evaluations to the target (median seed)"
    )
    _print(out, scores_table(known), ("within 10×", "by all seeds", "first at the target"))
    if packed.memory:
        copies = [[name, copy if isinstance(copy, str) else f"{copy:.1f}"] for name, copy in packed.memory.items()]
        out.print("\n[bold]Peak memory beyond the parameters[/], in copies of them; a gradient is one")
        print_table(out, ("!method", ">copies"), copies)


def _print(out: Console, found: Table, optional: tuple[str, ...]) -> None:
    """Print a table, with the names of problems and methods as one types them."""
    numbers = {place for row in found.rows for place, cell in enumerate(row) if not isinstance(cell.value, str)}
    numbers |= set(range(found.words, len(found.header)))
    header = [f"{'>' if place in numbers else '!'}{name}" for place, name in enumerate(found.header)]
    rows = [[cell.value if isinstance(cell.value, str) else cell.text for cell in row] for row in found.rows]
    print_table(out, header, rows, optional)


def _line(case: Case, entry: MethodRuns) -> list[str]:
    """Return the cells of a method on a setting."""
    reasons = "; ".join(dict.fromkeys(entry.failures))
    loss, to_target = entry.at_budget("train_loss"), case.to_target(entry)
    return [
        entry.method,
        str(len(entry.runs)),
        number(loss.median),
        number(loss.worst),
        number(entry.at_budget("test_error").median),
        *(count(value) if value < float("inf") else "-" for value in (to_target.median, to_target.worst)),
        *(number(case.cost(entry, counted), 2) for counted in ("iterations", "evaluations")),
        f"[red]{len(entry.failures)}[/] × {escape(reasons)[:90]}" if reasons else "",
    ]


def _write_csv(file: str, known: Comparison) -> None:
    """Write a line for each method on each setting."""
    import pandas as pd

    lines = []
    for case in known.cases:
        for entry in case.ranked:
            spreads = {name: entry.at_budget(name) for name in ("train_loss", "test_error")}
            spreads |= {"to_target": case.to_target(entry), "seconds_to_target": case.to_target(entry, "seconds")}
            lines.append(
                {"setting": case.setting.name, "method": entry.method, "runs": len(entry.runs)}
                | {f"{name}_{part}": value for name, one in spreads.items() for part, value in one._asdict().items()}
                | {"step_cost": case.cost(entry, "iterations"), "evaluation_cost": case.cost(entry, "evaluations")}
                | {"failures": "; ".join(entry.failures)}
            )
    pd.DataFrame(lines).to_csv(file, index=False)


def _write_training(file: str, training: TrainingCases) -> None:
    """Write a line for each run of each case."""
    import pandas as pd

    measured = ("validation_loss", "validation_error", "test_loss", "train_loss")
    lines = [
        {"case": case.name, "method": entry.method, "chosen": entry.chosen or "", "seed": run.seed}
        | {name: run.final(name) for name in measured}
        | {"cpu_seconds": run.last("cpu_seconds") if run.rows else None, "status": run.status.value}
        for case in training.cases
        for entry in case.entries.values()
        for run in entry.runs
    ]
    pd.DataFrame(lines).to_csv(file, index=False)


def _show_training(training: TrainingCases) -> None:
    """Print a table for each case, and how each method compares with the best tuned one."""
    from gradline.lab.report.tables import versus_table

    out = console()
    header = ["!method", ">runs", ">validation loss", ">range", ">error %", ">test loss", ">train loss"]
    header += [">evaluations", ">of tuning", ">failed", "!chosen"]
    for case in training.cases:
        held_out = ", held out" if case.setting.held_out else ""
        out.print(f"[bold]{case.name}[/]  [dim]{case.setting.problem.described}{held_out}[/]")
        rows = [
            _entry(entry) for entry in sorted(case.entries.values(), key=lambda entry: entry.validation_loss.median)
        ]
        print_table(out, header, rows, ("range", "failed", "of tuning", "train loss", "runs", "chosen"))
        out.print()
    table = versus_table(training)
    if table.rows:
        out.print(f"[bold]{plural(len(training.cases), 'case')}[/]: losses over those of the best tuned method")
        _print(out, table, ("failed runs", "higher in all seeds", "95% interval", "lower in", "median"))


def _entry(entry: MethodRuns) -> list[str]:
    """Return the cells of a method in a case."""
    return [
        entry.method,
        str(len(entry.runs)),
        number(entry.validation_loss.median),
        f"{number(entry.validation_loss.best)} to {number(entry.validation_loss.worst)}",
        percent(entry.validation_error.median),
        number(entry.final("test_loss").median),
        number(entry.final("train_loss").median),
        count(entry.evaluations),
        count(entry.tuning_evaluations) if entry.candidates else "-",
        f"[red]{len(entry.failures)}[/]" if entry.failures else "-",
        f"{entry.chosen} of {len(entry.candidates)}" if entry.chosen else "",
    ]
