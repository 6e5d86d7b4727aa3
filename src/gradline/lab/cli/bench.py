"""`gradline bench`: compare gradline with other ways to train."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from gradline.lab.cli.options import Count, data_option

if TYPE_CHECKING:
    from gradline.lab.bench.planning import Plan
    from gradline.lab.bench.runner import Summary
    from gradline.lab.bench.runs import Record
    from gradline.lab.findings.packed import Packed

OUT = "results/bench"
COMMANDS = "commands.txt"
SEEDS = 5
MAKING = {"out": "--out", "workers": "--workers", "quick": "--quick", "pack": "--pack"}
"""Options of those who make runs, which a packed file has no use for."""


def _names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names given one by one, or with commas between them."""
    return tuple(name.strip() for text in value for name in text.split(",") if name.strip())


@click.command(
    short_help="Compare gradline with other optimizers.",
    epilog="\b\nExamples:\n"
    "  gradline bench --list\n"
    "  gradline bench --quick\n"
    "  gradline bench --problems tune --methods gradline,learning-rate-free --seeds 5\n"
    "  gradline bench --problems regression/100 --methods gols-i,prodigy,sgd --figures figures\n"
    "  gradline bench --summary --memory --pack bench.json.gz\n"
    "  gradline bench --from bench.json.gz --problems held-out",
)
@click.option(
    "--problems", multiple=True, callback=_names, metavar="NAMES", help="Problems, NAME/BATCH_SIZE, tune or held-out."
)
@click.option("--methods", multiple=True, callback=_names, metavar="NAMES", help="Methods or groups of them.")
@click.option("--seeds", type=Count(1), metavar="N", help="Seeds 0 to N-1 of each (default: 5).")
@click.option(
    "--budget", type=Count(1), metavar="EVALUATIONS", help="Evaluations of each run (default: the problem's)."
)
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False), help=f"Directory (default: {OUT}).")
@click.option("--workers", type=Count(1), default=1, show_default=True, metavar="N", help="Processes.")
@click.option("--list", "listing", is_flag=True, help="List the problems and methods, and do nothing else.")
@click.option("--quick", is_flag=True, help="A smoke run of about a minute: three problems, every peer, one seed.")
@click.option("--summary", is_flag=True, help="Only summarise what is there.")
@click.option("--memory", is_flag=True, help="Also measure each method's peak memory.")
@click.option("--figures", type=click.Path(file_okay=False), metavar="FOLDER", help="Draw figures into FOLDER.")
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write the summary's lines.")
@click.option("--pack", type=click.Path(dir_okay=False), metavar="FILE", help="Write the runs into one small file.")
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Summarise such a file; nothing is run.",
)
@click.option("--quiet", is_flag=True, help="Only errors and the summary.")
@data_option
def bench(
    problems: tuple[str, ...],
    methods: tuple[str, ...],
    seeds: int | None,
    budget: int | None,
    out: str | None,
    workers: int,
    listing: bool,
    quick: bool,
    summary: bool,
    memory: bool,
    figures: str | None,
    csv_file: str | None,
    pack: str | None,
    source: str | None,
    quiet: bool,
) -> int:
    """Compare gradline with other optimizers: the same weights, the same batches, every evaluation counted.

    A forward and a backward pass are one evaluation, a forward pass alone is a third of one. NAMES may have commas
    between them. What is in the directory already is not made again, so the same command goes on after Ctrl-C.

    Of a grid of learning rates its best and its median one are shown, chosen for each line of problem and batch size
    with the results in hand.

    --pack thins curves and rounds numbers, but what is summarised stays the same; with --memory it keeps that too.
    """
    from gradline.lab.bench import planning
    from gradline.lab.cli import bench_shown

    if listing:
        bench_shown.everything()
        return 0
    if source:
        _refuse_making()
    if quick:
        problems, methods = problems or planning.QUICK_PROBLEMS, methods or planning.QUICK_METHODS
        seeds, budget = seeds or 1, budget or planning.QUICK_BUDGET
    # What was run is told of whether its package is here or not.
    chosen = planning.plan(problems, methods, seeds or SEEDS, budget, installed=not (source or summary))
    if not chosen.methods:
        raise click.ClickException("; ".join(dict.fromkeys(chosen.absent.values())))
    directory = out or (f"{OUT}-quick" if quick else OUT)
    if not (source or summary) and _run(chosen, directory, workers, quiet=quiet) is None:
        return 130
    found = _read(source, chosen) if source else _collect(directory, chosen, memory=memory)
    if source and memory and not found.memory:
        raise click.ClickException(
            f"{source} does not say how much memory methods need: it was packed without --memory"
        )
    if pack:
        _pack(found, pack)
    bench_shown.comparison(found, chosen, memory=memory, csv_file=csv_file, figures=figures)
    return 0


def _refuse_making() -> None:
    """Refuse what makes no sense with --from."""
    context = click.get_current_context()
    given = [name for key, name in MAKING.items() if context.get_parameter_source(key) is ParameterSource.COMMANDLINE]
    if given:
        raise click.UsageError(
            f"--from cannot go with {' and '.join(given)}: it reads a packed file in the place of a directory, "
            "and makes no runs"
        )


def _run(chosen: Plan, directory: str, workers: int, *, quiet: bool) -> Summary | None:
    """Make what is missing; `None` after Ctrl-C."""
    from rich.markup import escape

    from gradline.lab.bench.runner import run_bench
    from gradline.lab.cli.display import observing
    from gradline.lab.cli.words import console, duration, plural

    notes = console(stderr=True)
    again = shlex.join(["gradline", *(click.get_current_context().obj or ("bench",))])
    _note(directory, again)
    try:
        with observing(notes, quiet=quiet) as observer:
            done = run_bench(chosen.runs, directory, workers=workers, observer=observer)
    except KeyboardInterrupt:
        notes.print("Stopped. What is finished is stored. To go on:")
        notes.print(f"  [bold]{escape(again)}[/]", soft_wrap=True)
        return None
    if not quiet:
        notes.print(f"{plural(done.made, 'run')} made in {duration(done.seconds)}, {done.before} were there before")
    return done


def _note(directory: str, command: str) -> None:
    """Keep the command beside what it makes, each one once: results are worth little without it."""
    known = _commands(directory)
    if command not in known:
        file = Path(directory) / COMMANDS
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*known, command]) + "\n", encoding="utf-8")


def _commands(directory: str) -> list[str]:
    file = Path(directory) / COMMANDS
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _read(source: str, chosen: Plan) -> Packed:
    """What a packed file has of a plan."""
    from dataclasses import replace

    from gradline.lab.findings.packed import unpack

    found = unpack(source)
    found.check(chosen.targets)
    records = _wanted(found.records, chosen)
    if not records:
        raise click.ClickException(
            f"{source} has none of these runs; `gradline bench --from {source}` shows all it has"
        )
    return replace(found, records=records)


def _collect(directory: str, chosen: Plan, *, memory: bool) -> Packed:
    """What a directory has of a plan; and the memory of its methods, if it is asked for."""
    from gradline.lab.bench.store import Store
    from gradline.lab.cli.words import console
    from gradline.lab.findings.memory import copies
    from gradline.lab.findings.packed import Packed, portable

    notes = console(stderr=True)
    store = Store(directory, report=lambda text: notes.print(text, style="yellow", markup=False))
    records = _wanted(store.records(), chosen)
    if not records:
        raise click.ClickException(f"{directory} has none of these runs; `gradline bench --out {directory}` makes them")
    return Packed(records, chosen.targets, portable(_commands(directory)), copies(chosen.methods) if memory else {})


def _wanted(records: Iterable[Record], chosen: Plan) -> tuple[Record, ...]:
    keys = {run.key for run in chosen.runs}
    return tuple(record for record in records if record.run.key in keys)


def _pack(found: Packed, file: str) -> None:
    from dataclasses import replace

    from gradline.lab.cli.words import console, plural, size
    from gradline.lab.findings.packed import pack

    there = {record.run.setting for record in found.records}
    targets = {setting: target for setting, target in found.targets.items() if setting in there}
    path = pack(replace(found, targets=targets), file)
    console(stderr=True).print(f"{path}: {plural(len(found.records), 'run')}, {size(path.stat().st_size)}")
