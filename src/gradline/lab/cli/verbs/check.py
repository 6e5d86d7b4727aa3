"""`gradline check`: what a study is, whether it can be run, and what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gradline.lab.cli.options import data_option, study_options

if TYPE_CHECKING:
    from gradline.lab.jobs.estimate import Estimate, Pace
    from gradline.lab.jobs.runs import Run
    from gradline.lab.studies import Study

ORDER = 3


@click.command(
    short_help="Check a study and estimate what it takes.",
    epilog="\b\nExamples:\n"
    "  gradline check bcwd\n"
    "  gradline check mine.toml --seeds 3 --workers 8\n"
    "  gradline check mnist-net1 --no-measure",
)
@study_options
@click.option("--measure/--no-measure", default=True, help="Measure how fast this machine is.")
@data_option
def verb(study: Study, workers: int | None, measure: bool) -> None:
    """Check STUDY and estimate what it takes, without running it.

    Prints the number of runs and evaluations, and estimates time, memory and disk space from half a second of each
    kind of run.
    """
    from rich.markup import escape

    from gradline.lab import engines
    from gradline.lab.cli.terminal import console, print_table
    from gradline.lab.jobs.estimate import estimate
    from gradline.lab.jobs.executors import default_workers
    from gradline.lab.problems import data
    from gradline.lab.studies import plan, plan_tuned, validate

    for name in sorted({problem.data for problem in study.problems if problem.data is not None}):
        try:
            data.load(name, download=False, progress=False)
        except data.DataError as error:
            raise click.ClickException(
                f"data set {name} is not in {data.data_directory()}, or is damaged: "
                f"`gradline data fetch {name}` gets it, --data DIR looks for it elsewhere"
            ) from error
    # Which candidates will be chosen is not known yet; all of them cost about the same.
    runs = plan(study) + plan_tuned(study, lambda setting, tuned: tuned.candidates[0])
    validate(runs)
    out = console()
    out.print(f"[bold]{escape(study.title or study.name)}[/]")
    out.print()
    out.print(_facts(study, runs))
    if not measure:
        out.print("\n[green]The study can be run.[/] Nothing was measured.")
        return
    count = workers or default_workers()
    notes = console(stderr=True)
    with notes.status("measuring") as status:
        found = estimate(
            runs,
            count,
            make_engine=engines.make,
            key=engines.group_key,
            notice=lambda text: status.update(f"measuring {text}"),
        )
    out.print()
    header = ("!problem", ">B", ">runs", ">evaluations", ">a second", ">time of one worker")
    print_table(out, header, [_pace(pace) for pace in found.paces])
    out.print()
    out.print(_costs(found, count))
    out.print("\n[green]The study can be run.[/]")


def _facts(study: Study, runs: list[Run]) -> Any:
    from gradline.lab.tools.formatting import count, plural, ranges

    made = _grid()
    made.add_row("problems", ", ".join(f"{item.name} ({count(item.parameters)} weights)" for item in study.problems))
    made.add_row("methods", ", ".join(method.name for method in study.methods))
    if study.tuned:
        words = [f"{tuned.name} (the best of {len(tuned.candidates)})" for tuned in study.tuned]
        made.add_row("tuned", f"{', '.join(words)}, on seed {study.tuning_seed}")
    made.add_row("batch sizes", ", ".join(str(size) for size in sorted({run.batch_size for run in runs})))
    if any(run.direction_batch_size for run in runs):
        sizes = ["same" if size is None else str(size) for size in study.direction_batch_sizes]
        made.add_row("of directions", ", ".join(sizes))
    made.add_row("sampling", ", ".join(mode.value for mode in study.sampling))
    made.add_row("seeds", f"{len(study.seeds)} ({ranges(study.seeds)})")
    budgets = sorted({run.budget for run in runs})
    total = sum(run.budget for run in runs)
    each = " or ".join(count(budget) for budget in budgets)
    made.add_row("runs", f"{plural(len(runs), 'run')} of {each} evaluations, {count(total)} in all")
    return made


def _pace(pace: Pace) -> list[str]:
    from gradline.lab.tools.formatting import count, duration

    counted = (pace.batch_size, pace.runs, pace.evaluations, pace.rate)
    return [pace.problem, *map(count, counted), duration(pace.seconds)]


def _costs(found: Estimate, workers: int) -> Any:
    from gradline.lab.tools.formatting import duration, plural, size

    made = _grid()
    made.add_row(
        "time",
        f"about [bold]{duration(found.seconds)}[/] with {plural(workers, 'worker')} "
        f"(measured for {duration(found.measured)} on this machine)",
    )
    if found.memory:
        made.add_row("memory", f"about {size(found.memory)} a worker")
    made.add_row("disk", f"about {size(found.disk)}, and up to {size(found.checkpoints)} of checkpoints while it runs")
    return made


def _grid() -> Any:
    from rich.table import Table

    made = Table.grid(padding=(0, 3, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column()
    return made
