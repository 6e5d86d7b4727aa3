"""What `gradline bench` shows: tables on the terminal, a CSV file, figures; and the list of what there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradline.lab.bench.planning import Plan
    from gradline.lab.findings.comparison import Comparison
    from gradline.lab.findings.measures import Row
    from gradline.lab.findings.packed import Packed


def comparison(found: Packed, chosen: Plan, *, memory: bool, csv_file: str | None, figures: str | None) -> None:
    """Show a comparison, and write what is asked for.

    Args:
        found: the records, and the memory of methods.
        chosen: what was wanted.
        memory: whether to show the memory.
        csv_file: where to write the lines.
        figures: the folder of the figures.
    """
    import click

    from gradline.lab.cli.words import console
    from gradline.lab.findings.comparison import compare

    out = console()
    compared = compare(found.records, chosen)
    for setting in compared.settings:
        out.print(f"[bold]{setting.name}[/]  [dim]{setting.problem.about}; {setting.budget:,} evaluations, ", end="")
        out.print(f"[dim]target {setting.target:g}[/]")
        out.print(_lines([line for line in compared.rows if line.setting == setting.name], setting.problem.error))
        out.print()
    _overall(compared, out)
    for method, reason in chosen.absent.items():
        out.print(f"{method}: not available ({reason})", style="dim", markup=False)
    if memory:
        _memory(found, out)
    if csv_file:
        _write(csv_file, compared.rows)
    if figures:
        for path in _draw(compared, Path(figures)):
            click.echo(path)


def _lines(lines: list[Row], error: str) -> Any:
    from rich.markup import escape

    from gradline.lab.cli.words import number, table

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


def _overall(compared: Comparison, out: Any) -> None:
    """Who ends how far behind the best, and is how often within a factor of it, over all settings."""
    from gradline.lab.cli.words import percent, plural, table
    from gradline.lab.findings.comparison import LIMIT

    count = plural(len(compared.shared()), "setting")
    out.print(
        f"[bold]All {count} that every method ran on[/]: final loss over the best one's (geometric mean, each at ",
        end="",
    )
    out.print(f"most {10**LIMIT:g}), and shares in % by evaluations to the target of the median seed")
    made = table("method", ">× loss", ">best", ">within 2×", ">within 10×", ">reached", ">reached by all seeds")
    for score in compared.scores():
        shares = (score.best, score.near, score.far, score.reached, score.always)
        made.add_row(score.method, _ratio(score.behind), *map(percent, shares))
    out.print(made)


def _memory(found: Packed, out: Any) -> None:
    from gradline.lab.cli.words import table

    made = table("method", ">copies")
    for label, copies in found.memory.items():
        made.add_row(label, copies if isinstance(copies, str) else f"{copies:.1f}")
    out.print("\n[bold]Peak memory beyond the parameters[/], in copies of them; a gradient is one")
    out.print(made)


def _write(csv_file: str, lines: list[Row]) -> None:
    import csv
    import dataclasses

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


def _draw(compared: Comparison, folder: Path) -> list[Path]:
    from gradline.lab.figures import save
    from gradline.lab.figures.bench_heat import draw_heat, heat_data
    from gradline.lab.figures.bench_lines import draw_losses, draw_profile, losses_data, profile_data
    from gradline.lab.figures.bench_looks import own

    methods, table, targets = compared.drawn(own()), compared.table, compared.targets
    written = save(draw_heat(heat_data(compared)), folder / "bench_heat")
    written += save(draw_profile(profile_data(table, targets, methods)), folder / "bench_profile")
    for measure in ("train_loss", "test_error"):
        for against in ("evaluations", "seconds"):
            data = losses_data(table, list(table), methods, measure=measure, against=against, targets=targets)
            written += save(draw_losses(data), folder / f"bench_{measure}_{against}")
    return written


def everything() -> None:
    """The problems and the methods that there are."""
    from gradline.lab.cli.words import console, count, table
    from gradline.lab.methods.peers import METHODS
    from gradline.lab.problems.bench import PROBLEMS

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
