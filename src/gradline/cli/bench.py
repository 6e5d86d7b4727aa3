"""`gradline bench`: compare gradline with other ways to train."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from gradline.cli.options import Count, data_option

if TYPE_CHECKING:
    from gradline.bench.measures import Row, Table
    from gradline.bench.planning import Plan
    from gradline.bench.runner import Summary

OUT = "results/bench"
SEEDS = 5
DRAWN = 10
"""Lines in a figure, at most: gradline's, the tuned ones, and the best of the others."""


def _names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names given one by one, or with commas between them."""
    return tuple(name.strip() for text in value for name in text.split(",") if name.strip())


@click.command(
    short_help="Compare gradline with other optimizers.",
    epilog="\b\nExamples:\n"
    "  gradline bench --list\n"
    "  gradline bench --quick\n"
    "  gradline bench --problems tune --methods gradline,learning-rate-free --seeds 5\n"
    "  gradline bench --problems regression/100 --methods gols-i,prodigy,sgd --figures figures",
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
    quiet: bool,
) -> int:
    """Compare gradline with other optimizers: the same weights, the same batches, every evaluation counted.

    A forward and a backward pass are one evaluation, a forward pass alone is a third of one. NAMES may have commas
    between them. What is in the directory already is not made again, so the same command goes on after Ctrl-C.

    Of a grid of learning rates its best and its median one are shown, chosen for each line of problem and batch size
    with the results in hand.
    """
    from gradline.bench import planning

    if listing:
        _list()
        return 0
    if quick:
        problems, methods = problems or planning.QUICK_PROBLEMS, methods or planning.QUICK_METHODS
        seeds, budget = seeds or 1, budget or planning.QUICK_BUDGET
    chosen = planning.plan(problems, methods, seeds or SEEDS, budget)
    if not chosen.methods:
        raise click.ClickException("; ".join(dict.fromkeys(chosen.absent.values())))
    directory = out or (f"{OUT}-quick" if quick else OUT)
    if not summary:
        done = _run(chosen, directory, workers, quiet=quiet)
        if done is None:
            return 130
    return _conclude(chosen, directory, memory=memory, figures=figures, csv_file=csv_file)


def _run(chosen: Plan, directory: str, workers: int, *, quiet: bool) -> Summary | None:
    """Make what is missing; `None` after Ctrl-C."""
    from rich.markup import escape

    from gradline.bench.runner import run_bench
    from gradline.cli.display import observing
    from gradline.cli.words import console, duration, plural

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
    from pathlib import Path

    file = Path(directory) / "commands.txt"
    known = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if command not in known:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*known, command]) + "\n", encoding="utf-8")


def _conclude(chosen: Plan, directory: str, *, memory: bool, figures: str | None, csv_file: str | None) -> int:
    from gradline.bench import measures, planning
    from gradline.bench.store import Store
    from gradline.cli.words import console

    out, notes = console(), console(stderr=True)
    store = Store(directory, report=lambda text: notes.print(text, style="yellow", markup=False))
    wanted = {run.key for run in chosen.runs}
    records = [record for record in store.records() if record.run.key in wanted]
    if not records:
        raise click.ClickException(f"{directory} has none of these runs; `gradline bench --out {directory}` makes them")
    plain = measures.tabulate(records)
    grids = planning.grids()
    table = measures.with_grids(plain, grids)
    lines = measures.rows(table, chosen.targets, [name for name in ("sgd best", "sgd median") if _has(table, name)])
    for setting in chosen.settings:
        of_setting = [line for line in lines if line.setting == setting.name]
        if of_setting:
            out.print(
                f"[bold]{setting.name}[/]  [dim]{setting.problem.about}; {setting.budget:,} evaluations, ", end=""
            )
            out.print(f"[dim]target {setting.target:g}[/]")
            out.print(_lines(of_setting, setting.problem.error))
            out.print()
    _overall(table, chosen, out)
    _absent(chosen, out)
    if memory:
        _memory(chosen, out)
    if csv_file:
        _write(csv_file, lines)
    if figures:
        for path in _draw(table, chosen, figures):
            click.echo(path)
    return 0


def _has(table: Table, method: str) -> bool:
    return any(method in methods for methods in table.values())


def _lines(lines: list[Row], error: str) -> Any:
    from rich.markup import escape

    from gradline.cli.words import number, table

    made = table(
        "method",
        *(">runs", ">train loss", ">worst", f">{error}", ">to target", ">worst ", ">× step", ">× evaluation"),
        "failed",
    )
    for line in lines:
        reasons = "; ".join(dict.fromkeys(line.failures))
        made.add_row(
            line.method,
            str(line.runs),
            number(line.train_loss.median),
            number(line.train_loss.worst),
            number(line.test_error.median),
            _count(line.to_target.median),
            _count(line.to_target.worst),
            _ratio(line.step_cost),
            _ratio(line.evaluation_cost),
            f"[red]{len(line.failures)}[/] × {escape(reasons)[:90]}" if reasons else "",
        )
    return made


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < float("inf") else "-"


def _ratio(value: float) -> str:
    return "-" if value != value else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _overall(table: Table, chosen: Plan, out: Any) -> None:
    """Who is how often within a factor of the best, over all settings."""
    from gradline.bench.profiles import profile
    from gradline.cli.words import percent, plural
    from gradline.cli.words import table as make

    usual, worst = profile(table, chosen.targets), profile(table, chosen.targets, worst=True)
    count = plural(len(usual.settings), "setting")
    out.print(f"[bold]Share of {count} in %[/], by evaluations to the target of the median seed")
    made = make("method", ">best", ">within 2×", ">within 10×", ">reached", ">reached by all seeds")
    shares = [usual.share(1.0), usual.share(2.0), usual.share(10.0), usual.solved(), worst.solved()]
    for method in sorted(usual.methods, key=lambda name: tuple(-share[name] for share in (shares[1], *shares))):
        made.add_row(method, *(percent(share[method]) for share in shares))
    out.print(made)


def _absent(chosen: Plan, out: Any) -> None:
    for method, reason in chosen.absent.items():
        out.print(f"{method}: not available ({reason})", style="dim", markup=False)


def _memory(chosen: Plan, out: Any) -> None:
    from gradline.bench.memory import peak_copies
    from gradline.bench.peers import METHODS
    from gradline.cli.words import table

    made = table("method", ">copies")
    shown: set[str] = set()
    for name in chosen.methods:
        label = METHODS[name].family or name
        if label not in shown:
            shown.add(label)
            try:
                text = f"{peak_copies(METHODS[name]):.1f}"
            except Exception as error:  # a peer may fail in any way
                text = f"failed: {type(error).__name__}"
            made.add_row(label, text)
    out.print("\n[bold]Peak memory beyond the parameters[/], in copies of them; a gradient is one")
    out.print(made)


def _write(csv_file: str, lines: list[Row]) -> None:
    import csv
    import dataclasses
    from pathlib import Path

    with Path(csv_file).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [field.name for field in dataclasses.fields(lines[0])]
        spreads = [name for name in names if isinstance(getattr(lines[0], name), tuple) and name != "failures"]
        head = [f"{name}_{part}" if part else name for name in names for part in _parts(name in spreads)]
        writer.writerow(head)
        for line in lines:
            values: list[Any] = []
            for name in names:
                value = getattr(line, name)
                values += list(value) if name in spreads else ["; ".join(value) if name == "failures" else value]
            writer.writerow(values)


def _parts(spread: bool) -> tuple[str, ...]:
    return ("median", "best", "worst") if spread else ("",)


def _draw(table: Table, chosen: Plan, folder: str) -> list[Any]:
    from pathlib import Path

    from gradline.bench.figures import draw_losses, draw_profile, losses_data, profile_data
    from gradline.bench.peers import GROUPS
    from gradline.bench.profiles import leading, profile
    from gradline.figures import save

    methods = leading(profile(table, chosen.targets), (*GROUPS["gradline"], "sgd best", "adam best"), DRAWN)
    settings = [setting.name for setting in chosen.settings if setting.name in table]
    written = save(draw_profile(profile_data(table, chosen.targets, methods)), Path(folder) / "bench_profile")
    for measure in ("train_loss", "test_error"):
        for against in ("evaluations", "seconds"):
            drawn = draw_losses(losses_data(table, settings, methods, measure=measure, against=against))
            written += save(drawn, Path(folder) / f"bench_{measure}_{against}")
    return written


def _list() -> None:
    from gradline.bench.peers import METHODS
    from gradline.bench.problems import PROBLEMS
    from gradline.cli.words import console, count, table

    out = console()
    made = table("name", "for", "batch sizes", ">evaluations", "what is trained", "and measured", title="Problems")
    for problem in PROBLEMS.values():
        made.add_row(
            f"[bold]{problem.name}[/]",
            "held-out" if problem.held_out else "tune",
            ", ".join(str(size.batch_size) for size in problem.sizes),
            ", ".join(count(size.budget) for size in problem.sizes),
            problem.about,
            problem.error,
        )
    out.print(made)
    out.print()
    made = table("name", "group", "package", "version", "what it is", title="Methods")
    for method in METHODS.values():
        absent = method.unavailable()
        version = method.version() if absent is None else "[yellow]not available[/]"
        made.add_row(f"[bold]{method.name}[/]", method.group, method.package, version, absent or method.about)
    out.print(made)
