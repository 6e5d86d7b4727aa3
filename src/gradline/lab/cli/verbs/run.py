"""`gradline run`: make the runs of a study that are missing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradline.lab.cli.options import data_option, known_option, positive, study_options, threads_option
from gradline.lab.cli.terminal import console, escape
from gradline.lab.tools.formatting import duration, plural

if TYPE_CHECKING:
    from rich.console import Console

    from gradline.lab.jobs.runner import Summary
    from gradline.lab.studies import Study


@click.command(
    short_help="Run a study; runs with results are skipped.",
    epilog="\b\nExamples:\n"
    "  gradline run bcwd\n"
    "  gradline run bcwd --seeds 3 --budget 300 --out results/first\n"
    "  gradline run mnist-net1 --method gols-i --batch-size 100 --workers 4\n"
    "  gradline run bcwd --sampling static --repetition\n"
    "  gradline run mnist-net2 --seeds 3 --known results/paper.json.gz\n"
    "  gradline run bcwd --tensorboard\n"
    "  gradline run compare --problem tune --method angle --seeds 3\n"
    "  gradline run train --method adamw-tuned --known results/train.json.gz\n"
    "  gradline run mine.toml --backend tcp://scheduler:8786 --out /shared/mine",
)
@study_options
@click.option(
    "--backend",
    default="processes",
    metavar="NAME",
    help="processes, dask (a cluster on this machine), tcp://HOST:PORT (a Dask scheduler whose workers share the "
    "directory), or inline (for debuggers).",
)
@click.option(
    "--out", metavar="DIR", type=click.Path(file_okay=False), help="Directory of the results (default: results/STUDY)."
)
@click.option(
    "--checkpoint-every",
    type=positive,
    default=30.0,
    metavar="SECONDS",
    help="Seconds between two checkpoints of a run.",
)
@threads_option
@click.option(
    "--tensorboard",
    "logs",
    is_flag=False,
    flag_value="",
    metavar="[LOGDIR]",
    help="Write curves for TensorBoard while the study runs, into LOGDIR (default: DIR/tensorboard).",
)
@known_option
@click.option("--quiet", is_flag=True, help="Print errors only.")
@data_option
def verb(study: Study, out: str | None, logs: str | None, known: str | None, quiet: bool, **options: Any) -> int:
    """Run STUDY: the name of a study (see `gradline list`) or the path of a TOML file.

    Runs whose results are in the directory are skipped, and unfinished runs continue from their last checkpoints: after
    Ctrl-C or a crash, give the same command again. Options such as --method replace the study's settings.

    --tensorboard (after STUDY) writes curves while the study runs: the median over seeds of each setting, against
    evaluations. `tensorboard --logdir DIR/tensorboard` shows them.
    """
    from gradline.lab.cli.display import command_line, observing
    from gradline.lab.findings.reading import known_runs
    from gradline.lab.jobs.runner import Interrupted
    from gradline.lab.studies.running import run_study

    directory = out or str(Path("results") / study.name)
    notes, follower = console(stderr=True, quiet=quiet), None
    notes.print(f"[bold]{escape(study.title or study.name)}[/]")
    elsewhere = known_runs(known, study) if known else None
    if logs is not None:
        from gradline.lab.jobs.tensorboard import TensorBoard

        folder = logs or str(Path(directory) / "tensorboard")
        follower = TensorBoard(folder)
        notes.print(f"[dim]To see the curves grow: tensorboard --logdir {escape(shlex.quote(folder))}[/]")
    with observing(console(stderr=True), quiet=quiet) as observer:
        try:
            done = run_study(study, directory, observer=observer, follower=follower, known=elsewhere, **options)
        except Interrupted:
            _note(directory, command_line())
            raise
    _note(directory, command_line())
    _show_failures(done)
    if not done.runs and known:
        notes.print(f"All runs are in {escape(known)} already: there was nothing to do.")
    elif done.made or done.before:
        _conclude(done, directory, notes)
    return 1 if done.failures else 0


def _note(directory: str, command: str) -> None:
    """Add the command to the file of commands in the directory, if it is not there."""
    from gradline.lab.findings.reading import COMMANDS, commands

    known = commands(directory)
    if command not in known:
        file = Path(directory) / COMMANDS
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*known, command]) + "\n", encoding="utf-8")


def _show_failures(done: Summary) -> None:
    """Print how many runs failed by each error, and the keys of some of them."""
    notes = console(stderr=True)
    if done.failures:
        notes.print(f"[red]{plural(len(done.failures), 'run')} failed[/]; the same command tries again")
    keys: dict[str, list[str]] = {}
    for failure in done.failures:
        keys.setdefault(failure.error, []).append(failure.key)
    for error, failed in sorted(keys.items(), key=lambda pair: -len(pair[1])):
        more = [f"and {len(failed) - 5} more"] if len(failed) > 5 else []
        notes.print("\n      ".join([f"  {len(failed)} × {escape(error)}", *failed[:5], *more]))


def _conclude(done: Summary, directory: str, notes: Console) -> None:
    """Print how many runs were made, and how to look at them."""
    if done.before == done.runs:
        notes.print(f"All {plural(done.runs, 'run')} are in {escape(directory)} already: there was nothing to do.")
    else:
        before = f"; {plural(done.before, 'run')} had been there before" if done.before else ""
        notes.print(
            f"[green]{plural(done.made, 'run')} made[/] in {duration(done.seconds)}, in {escape(directory)}{before}."
        )
    notes.print(f"[dim]To look at them: gradline results {escape(shlex.quote(directory))}[/]")
