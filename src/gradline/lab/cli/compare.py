"""`gradline compare`: train a model of your own with several methods."""

from __future__ import annotations

import shlex

import click

from gradline.lab.cli.options import Count, Positive, threads_option, workers_option


@click.command(
    short_help="Compare optimizers on a model of your own.",
    epilog="\b\nA file that can be compared:\n"
    "  def build():\n"
    "      model = torch.nn.Sequential(...)\n"
    "      return model, torch.nn.functional.mse_loss, train_set, test_set\n\n"
    "\b\nExamples:\n"
    "  gradline compare my_model.py\n"
    "  gradline compare my_model.py --minutes 20 --seeds 3\n"
    "  gradline compare my_model.py --budget 2000 --method angle --method adam-1\n\n"
    "In Python: gradline.lab.compare(build).",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
@click.option("--function", default="build", show_default=True, metavar="NAME", help="The function in FILE.")
@click.option("--minutes", type=Positive(), metavar="M", help="For all runs (default: 5).")
@click.option("--budget", type=Count(1), metavar="EVALUATIONS", help="Of each run, in place of --minutes.")
@click.option("--seeds", type=Count(1), default=1, show_default=True, metavar="N", help="Runs of each method.")
@click.option("--batch-size", type=Count(1), metavar="B", help="Samples (default: as the data loader has it, or 32).")
@click.option("--method", multiple=True, metavar="NAME", help="Method (see `gradline list methods`). Repeatable.")
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False), help="Directory (default: results/FILE).")
@workers_option
@threads_option
def compare(
    file: str,
    function: str,
    minutes: float | None,
    budget: int | None,
    seeds: int,
    batch_size: int | None,
    method: tuple[str, ...],
    out: str | None,
    workers: int | None,
    threads: int,
) -> int:
    """Train the model of FILE with Angle, Adam, and other optimizers; show which is best and what it costs.

    FILE has a function without arguments that returns model, loss, training data and validation data. The loss is
    called with outputs and targets. Data are tuples of tensors, data sets or data loaders; without validation data, a
    fifth of the training data is held out.

    Every method has the same batches and initial weights. A comparison that was stopped goes on from there when the
    same command is given again. An edited FILE is compared anew.
    """
    from rich.markup import escape

    from gradline.lab import comparing
    from gradline.lab.cli.display import observing
    from gradline.lab.cli.terminal import console, print_table, table
    from gradline.lab.jobs.runner import Interrupted

    notes = console(stderr=True)
    command = shlex.join(["gradline", *(click.get_current_context().obj or ())])
    try:
        with observing(notes, quiet=False) as observer:
            found = comparing.compare(
                file,
                out,
                function=function,
                minutes=minutes,
                budget=budget,
                seeds=seeds,
                batch_size=batch_size,
                methods=method,
                workers=workers,
                threads=threads,
                observer=observer,
                notice=lambda text: notes.print(text, markup=False),
            )
    except Interrupted:
        notes.print("Stopped. What is finished is stored, the rest has checkpoints. To go on:")
        notes.print(f"  [bold]{escape(command)}[/]", soft_wrap=True)
        return 130
    header, rows = found.cells()
    shown = table(f"!{header[0]}", *(f">{name}" for name in header[1:]))
    for row in rows:
        shown.add_row(*(escape(cell) for cell in row))
    show = console()
    print_table(show, shown, ("× Adam", "train loss", "lowest"))
    show.print()
    for sentence in found.sentences:
        show.print(sentence, markup=False, soft_wrap=True)
    show.print()
    show.print("To paste:")
    for line in found.best.code.splitlines():
        show.print(f"    {line}", markup=False, soft_wrap=True)
    notes.print(f"[dim]{escape(str(found.directory / 'report.html'))} has the curves[/]")
    return 0
