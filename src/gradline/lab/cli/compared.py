"""What is shown of a comparison: tables on the terminal, and a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradline.lab.findings.comparison import Comparison
    from gradline.lab.findings.measures import Row
    from gradline.lab.findings.packed import Packed


def show(packed: Packed, compared: Comparison) -> None:
    """Show a comparison: a table for each setting, one over all of them, and the memory of methods if it is known."""
    from gradline.lab.cli.terminal import console, print_table
    from gradline.lab.problems import Built

    out = console()
    for setting in compared.settings:
        out.print(
            f"[bold]{setting.name}[/]  [dim]{setting.problem.described}; {setting.budget:,} evaluations, ", end=""
        )
        out.print("[dim]no target[/]" if setting.target is None else f"[dim]target {setting.target:g}[/]")
        error = setting.problem.error if isinstance(setting.problem, Built) else "test error"
        lines = [line for line in compared.rows if line.setting == setting.name]
        print_table(out, _lines(lines, error), ("× step", "× evaluation", "worst ", "runs", "worst", "failed"))
        out.print()
    _overall(compared, out)
    if packed.memory:
        _memory(packed, out)


def _lines(lines: list[Row], error: str) -> Any:
    from rich.markup import escape

    from gradline.lab.cli.terminal import table
    from gradline.lab.tools.formatting import number

    made = table(
        "!method",
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
    from gradline.lab.cli.terminal import print_table, table
    from gradline.lab.findings.comparison import LIMIT
    from gradline.lab.tools.formatting import percent, plural

    count = plural(len(compared.shared()), "setting")
    out.print(
        f"[bold]All {count} that every method ran on[/]: final loss over the best one's (geometric mean, each at ",
        end="",
    )
    out.print(f"most {10**LIMIT:g}), and shares in % by evaluations to the target of the median seed")
    made = table("!method", ">× loss", ">best", ">within 2×", ">within 10×", ">reached", ">reached by all seeds")
    for score in compared.scores():
        shares = (score.best, score.near, score.far, score.reached, score.always)
        made.add_row(score.method, _ratio(score.behind), *map(percent, shares))
    print_table(out, made, ("within 10×", "reached by all seeds", "best"))


def _memory(found: Packed, out: Any) -> None:
    from gradline.lab.cli.terminal import table

    made = table("!method", ">copies")
    for label, copies in found.memory.items():
        made.add_row(label, copies if isinstance(copies, str) else f"{copies:.1f}")
    out.print("\n[bold]Peak memory beyond the parameters[/], in copies of them; a gradient is one")
    out.print(made)


def write_csv(csv_file: str, lines: list[Row]) -> None:
    """Write a line for each method on each setting."""
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
