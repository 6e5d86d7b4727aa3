"""The progress of a study: a bar in a terminal, else a line every ten seconds; and how to resume it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gradline.lab.jobs.progress import Observer, Snapshot
from gradline.lab.tools.formatting import clock, count

LINE_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def observing(console: Console, *, quiet: bool) -> Iterator[Observer]:
    """Context manager with an observer that prints on a console. After Ctrl-C it prints how to resume, and exits."""
    from gradline.lab.jobs.runner import Interrupted

    try:
        if quiet:
            yield Quiet(console)
        elif console.is_terminal:
            with Live(console=console, transient=True, refresh_per_second=4) as live:
                yield Display(live)
        else:
            yield Lines(console)
    except Interrupted as error:
        console.print("Stopped. What is finished is stored, the rest has checkpoints. To resume:")
        console.print(f"  [bold]{escape(command_line())}[/]", soft_wrap=True)
        raise click.exceptions.Exit(130) from error


def command_line() -> str:
    """Return the command that is running, as one types it."""
    return shlex.join(["gradline", *(click.get_current_context().obj or ())])


class Quiet(Observer):
    """Observer that prints errors only."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def error(self, text: str) -> None:
        self.console.print(f"[red]error:[/] {escape(text)}")


class Lines(Quiet):
    """Observer that prints how much there is to do, and then a line every `LINE_EVERY` seconds."""

    _next: float | None = None

    def update(self, snapshot: Snapshot) -> None:
        now, missing = time.monotonic(), snapshot.runs - snapshot.before
        if self._next is None and missing:
            there = (
                f", of which {count(snapshot.before)} are there: {count(missing)} to make" if snapshot.before else ""
            )
            self.console.print(f"{count(snapshot.runs)} runs{there}, {count(snapshot.total_evaluations)} evaluations")
        elif self._next is not None and now >= self._next:
            self.console.print(f"{clock(snapshot.seconds)}  {', '.join(_facts(snapshot))}")
        if self._next is None or now >= self._next:
            self._next = now + LINE_EVERY

    def message(self, text: str) -> None:
        self.console.print(escape(text), style="dim")


class Display(Lines):
    """Observer with a bar: what is done, how fast, and the time left. Errors and messages stay above it."""

    def __init__(self, live: Live) -> None:
        super().__init__(live.console)
        self._live = live

    def update(self, snapshot: Snapshot) -> None:
        if self._next is None:
            super().update(snapshot)
        line = Table.grid(expand=True, padding=(0, 1))
        line.add_column(ratio=1)
        line.add_column(justify="right", no_wrap=True)
        left = "" if snapshot.left is None else f"   {clock(snapshot.left)} left"
        line.add_row(ProgressBar(total=1.0, completed=snapshot.fraction), f"{100 * snapshot.fraction:.0f}%{left}")
        facts = Text("   ".join(_facts(snapshot, left=False)), style="dim", overflow="ellipsis", no_wrap=True)
        self._live.update(Group(line, facts))


def _facts(snapshot: Snapshot, *, left: bool = True) -> list[str]:
    facts = [
        f"{count(snapshot.done)}/{count(snapshot.runs - snapshot.before)} runs",
        f"{count(snapshot.evaluations)}/{count(snapshot.total_evaluations)} evaluations",
    ]
    if snapshot.rate is not None:
        facts.append(f"{count(snapshot.rate)}/s")
    facts.append(f"{snapshot.working}/{snapshot.workers} workers")
    if snapshot.failed:
        facts.append(f"{count(snapshot.failed)} failed")
    if left and snapshot.left is not None:
        facts.append(f"about {clock(snapshot.left)} left")
    return facts
