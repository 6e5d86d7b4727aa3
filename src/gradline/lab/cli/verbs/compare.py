"""`gradline compare`: train a model of your own with several methods."""

from __future__ import annotations

from typing import Any

import click

from gradline.lab.cli.options import positive, threads_option, whole, workers_option
from gradline.lab.cli.terminal import console, escape


@click.command(
    short_help="Compare optimizers on a model of your own.",
    epilog="\b\nA file that can be compared:\n"
    "  def build():\n"
    "      model = torch.nn.Sequential(...)\n"
    "      return model, torch.nn.functional.mse_loss, train_set, test_set\n\n"
    "\b\nExamples:\n"
    "  gradline compare my_model.py\n"
    "  gradline compare my_model.py --minutes 20 --seeds 3\n"
    "  gradline compare my_model.py --method angle --method adam-0.001\n\n"
    "In Python: gradline.lab.compare(build).",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
@click.option("--function", default="build", metavar="NAME", help="Name of the function in FILE.")
@click.option("--minutes", type=positive, metavar="M", help="Minutes that it takes in all, about (default: 5).")
@click.option("--budget", type=whole, metavar="EVALUATIONS", help="Evaluations of each run, in place of --minutes.")
@click.option("--seeds", type=whole, default=1, metavar="N", help="Runs of each method.")
@click.option("--batch-size", type=whole, metavar="B", help="Samples in a batch (default: the data loader's, or 32).")
@click.option(
    "--method", multiple=True, metavar="NAME", help="Method to compare (see `gradline list methods`). Repeatable."
)
@click.option(
    "--out", metavar="DIR", type=click.Path(file_okay=False), help="Directory of the results (default: results/FILE)."
)
@workers_option
@threads_option
def verb(file: str, out: str | None, method: tuple[str, ...], **options: Any) -> None:
    """Train the model of FILE with Angle, Adam, and other optimizers; show which is best and what it costs.

    FILE has a function without arguments that returns model, loss, training data and validation data. The loss is
    called with outputs and targets. Data are tuples of tensors, data sets or data loaders; without validation data, a
    fifth of the training data is held out.

    Every method has the same batches and initial weights. The same command resumes a comparison that was stopped; an
    edited FILE begins a new one.
    """
    from gradline.lab import comparing
    from gradline.lab.cli.display import observing

    notes = console(stderr=True)
    with observing(notes, quiet=False) as observer:
        found = comparing.compare(
            file, out, **options, methods=method, observer=observer, notice=lambda text: notes.print(text, markup=False)
        )
    click.echo(str(found))
    notes.print(f"[dim]{escape(str(found.directory / 'report.html'))} has the curves[/]")
