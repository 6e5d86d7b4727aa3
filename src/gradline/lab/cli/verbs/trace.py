"""`gradline trace`: one search, probe by probe."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import click

from gradline.lab.cli.options import SAMPLING, data_option, whole
from gradline.lab.cli.terminal import console, escape, print_table
from gradline.lab.tools.formatting import number, plural

if TYPE_CHECKING:
    from gradline.lab.jobs.runs import Run
    from gradline.protocol import Record

HALF = 12
"""Characters of the longest bar."""


@click.command(
    short_help="Show one search, probe by probe.",
    epilog="\b\nExamples:\n"
    "  gradline trace\n"
    "  gradline trace --problem bcwd-logr --method prls --batch-size 100 --seed 3\n"
    "  gradline trace --iteration 20 --iteration 21\n"
    "  gradline trace --study mine.toml --problem wide --method eager",
)
@click.option("--problem", default="bcwd-netpi", metavar="NAME", help="Problem to train.")
@click.option("--method", default="gols-i", metavar="NAME", help="Method that trains it.")
@click.option("--batch-size", type=whole, default=50, metavar="B", help="Samples in a batch.")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed of the run.")
@click.option(
    "--iteration",
    type=whole,
    multiple=True,
    default=(1,),
    metavar="N",
    help="Which search of the run. Repeatable.",
)
@click.option(
    "--sampling",
    type=SAMPLING,
    default="dynamic",
    help="A new batch for each evaluation, one for each search, or all samples.",
)
@click.option("--study", metavar="FILE", help="A study that defines the problem or the method.")
@data_option
def verb(
    problem: str, method: str, batch_size: int, seed: int, iteration: tuple[int, ...], sampling: str, study: str | None
) -> None:
    """Show a search probe by probe: each step, what was observed there, and why the search ended.

    The run is repeated up to that search, on the same mini-batches as in a study.
    """
    from gradline.lab import studies
    from gradline.lab.engines.recorder import watch
    from gradline.lab.jobs.runs import Run, Sampling

    chosen = studies.load(study or "bcwd", problems=[problem], methods=[method])
    trained = chosen.problems[0]
    mode = Sampling(sampling)
    run = Run(
        problem=trained,
        method=chosen.methods[0],
        batch_size=trained.samples if mode is Sampling.FULL else batch_size,
        seed=seed,
        budget=max(trained.budget, 100 * max(iteration)),
        sampling=mode,
        record_every=10**9,
    )
    studies.validate([run])
    out = console()
    wanted, seen = set(iteration), 0
    for seen, record in enumerate(itertools.islice(watch(run), max(wanted)), start=1):
        if seen in wanted:
            if seen != min(wanted):
                out.print()
            show(out, run, record, seen)
    if seen < max(wanted):
        raise click.ClickException(f"the run ended at iteration {seen}, so it has no iteration {max(wanted)}")


def show(out: Any, run: Run, record: Record[Any, Any], iteration: int) -> None:
    """Print one search."""
    from gradline.protocol import Value

    at_zero, accepted = record.origin.at_zero, record.outcome.probe
    out.print(
        f"[bold]{escape(run.problem.name)}[/], [bold]{escape(run.method.name)}[/], batch size {run.batch_size}, "
        f"{run.sampling.value} sampling, seed {run.seed}, iteration [bold]{iteration}[/]"
    )
    out.print(f"[dim]{escape(repr(record.search))}; direction of length {number(record.origin.norm)}[/]")
    out.print()
    observed = [at_zero, *(seen for _, seen in record.transcript)]
    with_values = any(isinstance(seen, Value) for seen in observed)
    largest = max((abs(seen.slope) for seen in observed if math.isfinite(seen.slope)), default=0.0)
    rows = []
    for probe, (step, seen) in enumerate([(0.0, at_zero), *record.transcript]):
        value = [number(seen.value, 4) if hasattr(seen, "value") else ""] if with_values else []
        chosen = "[bold]accepted[/]" if accepted is not None and probe == accepted + 1 else ""
        place = "start" if probe == 0 else str(probe)
        rows.append([place, number(step, 4), number(seen.slope, 4), *value, bar(seen.slope, largest), chosen])
    header = (">probe", ">step", ">slope", *([">value"] if with_values else []), "uphill or downhill", "")
    print_table(out, header, rows)
    out.print()
    out.print(f"[bold]step {number(record.step, 6)}[/] after {plural(record.evaluations, 'probe')}: {record.stop}")


def bar(slope: float, largest: float) -> str:
    """Return a bar whose length is that of the slope: to the left if it is negative, else to the right."""
    if not math.isfinite(slope):
        return f"{'':{HALF}}[red]│ not finite[/]"
    cells = max(round(HALF * abs(slope) / largest), 1) if slope else 0
    if slope < 0:
        return f"{'':{HALF - cells}}[green]{'█' * cells}[/][dim]│[/]"
    return f"{'':{HALF}}[dim]│[/][red]{'█' * cells}[/]"
