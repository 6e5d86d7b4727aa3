"""`gradline check`: what a study is, whether it can be run, and how much time and memory it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gradline.lab.cli.options import data_option, known_option, study_options
from gradline.lab.cli.terminal import console, escape, print_facts, print_table
from gradline.lab.tools.formatting import count, duration, plural, ranges, size

if TYPE_CHECKING:
    from gradline.lab.jobs.estimate import Estimate
    from gradline.lab.jobs.runs import Run
    from gradline.lab.studies import Study


@click.command(
    short_help="Check a study and estimate its time and memory.",
    epilog="\b\nExamples:\n"
    "  gradline check bcwd\n"
    "  gradline check mine.toml --seeds 3 --workers 8\n"
    "  gradline check mnist-net1 --no-measure\n"
    "  gradline check mnist-net2 --seeds 3 --known results/paper.json.gz",
)
@study_options
@known_option
@click.option("--measure/--no-measure", default=True, help="Measure how fast this machine is.")
@data_option
def verb(study: Study, workers: int | None, known: str | None, measure: bool) -> None:
    """Check STUDY and estimate its time, memory and disk space, without running it.

    Prints the number of runs and evaluations, and estimates time, memory and disk space from half a second of each
    kind of run.
    """
    from gradline.lab import engines
    from gradline.lab.findings.reading import known_runs
    from gradline.lab.jobs.estimate import estimate
    from gradline.lab.jobs.executors import default_workers
    from gradline.lab.problems import data
    from gradline.lab.studies import plan, plan_tuned, validate
    from gradline.lab.studies.running import choices

    for name in sorted({problem.data for problem in study.problems if problem.data is not None}):
        try:
            data.load(name, download=False, progress=False)
        except data.DataError as error:
            raise click.ClickException(
                f"data set {name} is not in {data.data_directory()}, or is damaged: "
                f"`gradline data fetch {name}` gets it, --data DIR looks for it elsewhere"
            ) from error
    elsewhere = known_runs(known, study) if known else {}
    runs = plan(study)
    if study.tuned:
        choose = choices(None, study, elsewhere)
        # Where it is not known yet which candidate will be chosen, any will do: all of them cost about the same.
        runs += plan_tuned(study, lambda setting, tuned: choose(setting, tuned) or tuned.candidates[0])
    runs = [run for run in runs if run.key not in elsewhere]
    if not runs:
        console().print(f"All runs are in {escape(str(known))} already: there is nothing to do.")
        return
    validate(runs)
    out = console()
    out.print(f"[bold]{escape(study.title or study.name)}[/]")
    out.print()
    print_facts(out, _facts(study, runs))
    if not measure:
        out.print("\n[green]The study can be run.[/] Nothing was measured.")
        return
    processes = workers or default_workers()
    with console(stderr=True).status("measuring") as status:
        found = estimate(
            runs,
            processes,
            make_engine=engines.make,
            key=engines.group_key,
            notice=lambda text: status.update(f"measuring {text}"),
        )
    out.print()
    header = ("!problem", ">B", ">runs", ">evaluations", ">a second", ">time of one worker")
    rows = [
        [pace.problem, *map(count, (pace.batch_size, pace.runs, pace.evaluations, pace.rate)), duration(pace.seconds)]
        for pace in found.paces
    ]
    print_table(out, header, rows)
    out.print()
    print_facts(out, _costs(found, processes))
    out.print("\n[green]The study can be run.[/]")


def _facts(study: Study, runs: list[Run]) -> dict[str, str]:
    budgets = sorted({run.budget for run in runs})
    total = sum(run.budget for run in runs)
    facts = {
        "problems": ", ".join(f"{item.name} ({count(item.parameters)} weights)" for item in study.problems),
        "methods": ", ".join(method.name for method in study.methods),
    }
    if study.tuned:
        words = [f"{tuned.name} (the best of {len(tuned.candidates)})" for tuned in study.tuned]
        facts["tuned"] = f"{', '.join(words)}, on seed {study.tuning_seed}"
    facts["batch sizes"] = ", ".join(str(size) for size in sorted({run.batch_size for run in runs}))
    if any(run.direction_batch_size for run in runs):
        sizes = ["same" if size is None else str(size) for size in study.direction_batch_sizes]
        facts["of directions"] = ", ".join(sizes)
    facts["sampling"] = ", ".join(mode.value for mode in study.sampling)
    facts["seeds"] = f"{len(study.seeds)} ({ranges(study.seeds)})"
    each = " or ".join(map(count, budgets)) if len(budgets) <= 2 else f"{count(budgets[0])} to {count(budgets[-1])}"
    facts["runs"] = f"{plural(len(runs), 'run')} of {each} evaluations, {count(total)} in all"
    return facts


def _costs(found: Estimate, workers: int) -> dict[str, str]:
    time = f"about [bold]{duration(found.seconds)}[/] with {plural(workers, 'worker')}"
    return {
        "time": f"{time} (measured for {duration(found.measured)} on this machine)",
        **({"memory": f"about {size(found.memory)} a worker"} if found.memory else {}),
        "disk": f"about {size(found.disk)}, and up to {size(found.checkpoints)} of checkpoints while it runs",
    }
