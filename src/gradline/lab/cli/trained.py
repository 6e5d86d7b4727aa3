"""What is shown of a study that tunes methods: a table for each case, and one over all of them."""

from __future__ import annotations

from typing import Any

from gradline.lab.findings.measures import Spread
from gradline.lab.findings.training import Case, Training


def show(training: Training) -> None:
    """Print a table for each case, and how each method compares with what one gets by tuning."""
    from gradline.lab.cli.terminal import console, print_table, table
    from gradline.lab.tools.formatting import plural

    out = console()
    for case in training.cases:
        held_out = ", held out" if case.setting.held_out else ""
        out.print(f"[bold]{case.name}[/]  [dim]{case.setting.problem.described}{held_out}[/]")
        print_table(out, _lines(case), ("range", "failed", "tuning s", "train loss", "runs", "chosen"))
        out.print()
    out.print(f"[bold]{plural(len(training.cases), 'case')}[/]: losses over those of the best tuned method")
    head = (">× validation", ">95% interval", ">median", ">as good in", ">× test", ">lower in", ">higher in all seeds")
    made = table("!method", *head, ">cases")
    for name in training.methods:
        found = training.versus(name)
        if found is not None:
            made.add_row(
                name,
                f"{found.ratio:.3f}",
                f"{found.low:.2f} to {found.high:.2f}",
                f"{found.middle:.3f}",
                str(found.close),
                f"{found.test:.3f}",
                f"{found.better} of {found.pairs} runs",
                str(found.always_worse),
                str(found.cases),
            )
    print_table(out, made, ("cases", "higher in all seeds", "95% interval"))


def _lines(case: Case) -> Any:
    from gradline.lab.cli.terminal import table
    from gradline.lab.tools.formatting import number, percent

    head = (
        ">runs",
        ">validation loss",
        ">range",
        ">error %",
        ">test loss",
        ">train loss",
        ">CPU s",
        ">tuning s",
        ">failed",
    )
    made = table("!method", *head, "!chosen")
    for entry in sorted(case.entries.values(), key=lambda entry: entry.loss.median):
        made.add_row(
            entry.method,
            str(len(entry.runs)),
            number(entry.loss.median),
            span(entry.loss),
            percent(entry.error.median),
            number(entry.test_loss.median),
            number(entry.train_loss.median),
            f"{entry.seconds:.1f}",
            f"{entry.tuning_seconds:.0f}" if entry.candidates else "-",
            f"[red]{entry.failures}[/]" if entry.failures else "-",
            f"{entry.chosen} of {len(entry.candidates)}" if entry.chosen else "",
        )
    return made


def span(values: Spread) -> str:
    """Return the lowest and the highest of some seeds as text."""
    from gradline.lab.tools.formatting import number

    return f"{number(values.best)} to {number(values.worst)}"
