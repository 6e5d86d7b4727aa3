"""Progress: a bar in a terminal, lines elsewhere, and errors that stay to be read."""

import io

import pytest
from rich.console import Console

from gradline.lab.cli import display
from gradline.lab.cli.display import observing
from gradline.lab.jobs.progress import Snapshot


def snapshot(**changes):
    values = {
        "runs": 240,
        "before": 40,
        "done": 50,
        "failed": 0,
        "working": 2,
        "workers": 2,
        "evaluations": 150_000,
        "total_evaluations": 600_000,
        "fraction": 0.25,
        "seconds": 30.0,
        "rate": 5000.0,
        "left": 90.0,
    }
    return Snapshot(**(values | changes))


def shown(*, terminal, quiet=False, width=80):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, highlight=False, color_system=None)
    with observing(console, quiet=quiet) as observer:
        observer.update(snapshot(done=0))
        observer.update(snapshot())
        observer.message("taking up 3 runs from x.zip")
        observer.error("a worker died [brackets]")
        if terminal and not quiet:
            observer._live.refresh()
    return file.getvalue()


def test_a_terminal_sees_a_bar_and_what_is_left():
    text = shown(terminal=True)
    assert "240 runs, of which 40 are there: 200 to make, 600,000 evaluations" in text
    assert "25%   1:30 left" in text
    assert "50/200 runs   150,000/600,000 evaluations   5,000/s   2/2 workers" in text
    assert "error: a worker died [brackets]" in text


def test_a_file_sees_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(display, "LINE_EVERY", 0.0)
    lines = shown(terminal=False, width=160).splitlines()
    assert lines == [
        "240 runs, of which 40 are there: 200 to make, 600,000 evaluations",
        "0:30  50/200 runs, 150,000/600,000 evaluations, 5,000/s, 2/2 workers, about 1:30 left",
        "taking up 3 runs from x.zip",
        "error: a worker died [brackets]",
    ]


def test_not_every_update_is_a_line():
    assert sum("workers" in line for line in shown(terminal=False, width=160).splitlines()) == 0


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_errors_only(terminal):
    assert shown(terminal=terminal, quiet=True) == "error: a worker died [brackets]\n"


def test_failures_are_counted():
    assert display._facts(snapshot(failed=2, rate=None, left=None))[-1] == "2 failed"
