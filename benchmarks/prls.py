"""What a PrLS step costs beyond its evaluations, what its arithmetic costs, and variances beside per-sample gradients.

Three tables:

* *Steps*: the time of PrLS's steps, divided by their closure calls times the time of one `torch.optim.SGD` step on the
  same batches (with the mean loss), over training runs from a common start. Measured as `overhead.py` does: short
  interleaved blocks, ratios within a repetition, CPU time of one thread. A step finds variances too, for which SGD has
  no counterpart.
* *Arithmetic*: the search alone, without torch: searches recorded in those runs are replayed. Time per probe, divided
  by one forward and backward pass of the logistic regression.
* *Variances*: an evaluation with the variance of its slope along the gradient, divided by a plain forward and backward
  pass: ours (exact, and the diagonal approximation), and by per-sample gradients through `torch.func` (vmap of grad),
  which is what one would write.

Run `python benchmarks/prls.py --help`; needs gradline[study].
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import header, keep_memory, machine, quartiles, report_progress, write
from overhead import Block, Method, Trainer, per_evaluation
from problems import SEED, Problem, load
from torch import Tensor, nn

import gradline
from gradline.protocol import Pending, Record
from gradline.torch.moments import Evaluated, mean_and_variance

RATIO = "ratio: time per evaluation, relative to a step of torch.optim.SGD on the same batches"
TARGETS = {"logreg": 2.2, "mlp": 1.7}
ARITHMETIC_TARGET = 0.35
REFERENCE = "SGD"
JUDGED = "PrLS"
METHODS = (
    Method(REFERENCE, partial(torch.optim.SGD, lr=0.05)),
    Method("SGD, a second copy", partial(torch.optim.SGD, lr=0.05)),
    Method(JUDGED, gradline.PrLS),
    Method("PrLS, diagonal", partial(gradline.PrLS, diagonal=True)),
    Method("GOLSI", gradline.GOLSI),
)


class SampledTrainer(Trainer):
    """A method that may want the losses of all samples. Keeps the searches it made."""

    def __init__(self, problem: Problem, method: Method) -> None:
        self.records: list[Record[Any, Any]] = []
        super().__init__(problem, method)

    def closure(self) -> Tensor:
        """Per-sample losses, or an ordinary closure."""
        if not getattr(self.optimizer, "per_sample", False):
            return super().closure()
        self.optimizer.zero_grad()
        return per_sample(self.forward(reduction="none"))

    def run(self, evaluations: int, closure: Callable[[], Tensor] | None = None) -> Block:
        """Whole steps with at least so many evaluations; the last one's search is kept."""
        block = super().run(evaluations, closure)
        if isinstance(self.optimizer, gradline.PrLS) and self.optimizer.last is not None:
            self.records.append(self.optimizer.last)
        return block


def per_sample(losses: Tensor) -> Tensor:
    return losses.flatten() if losses.numel() == len(losses) else losses.flatten(1).mean(dim=1)


def steps(problem: Problem, quick: bool) -> Iterator[tuple[str, list[dict[str, Block]], list[Record[Any, Any]]]]:
    """Interleaved blocks of all methods; yields what there is after each repetition."""
    trainers = [SampledTrainer(problem, method) for method in METHODS]
    shuffler = random.Random(SEED)
    repetitions: list[dict[str, Block]] = []
    gc.freeze()
    for repetition in range(problem.repetitions):
        blocks = {}
        for trainer in shuffler.sample(trainers, len(trainers)):
            trainer.ready(6 if quick else trainer.method.warm_up)
            block = trainer.run(problem.block)
            if trainer.finite():
                blocks[trainer.method.name] = block
        repetitions.append(blocks)
        records = next(trainer.records for trainer in trainers if trainer.method.name == JUDGED)
        yield f"repetition {repetition + 1} of {problem.repetitions}", repetitions, records
    gc.unfreeze()


def summarise_steps(repetitions: list[dict[str, Block]], target: float) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for method in METHODS:
        both = [blocks for blocks in repetitions if method.name in blocks and REFERENCE in blocks]
        ratio = quartiles([per_evaluation(b[method.name]) / per_evaluation(b[REFERENCE]) for b in both])
        made, evaluations = (sum(getattr(b[method.name], name) for b in both) for name in ("steps", "evaluations"))
        judged = target if method.name == JUDGED else None
        summary[method.name] = {
            "ratio": ratio,
            "evaluations_per_step": evaluations / made if made else None,
            "target": judged,
            "met": None if judged is None or ratio is None else ratio["median"] <= judged,
        }
    return summary


def timed(act: Callable[[], object], times: int) -> float:
    """Seconds of CPU time of one call."""
    begin = time.thread_time()
    for _ in range(times):
        act()
    return (time.thread_time() - begin) / times


def arithmetic(problem: Problem, records: Sequence[Record[Any, Any]], repetitions: int) -> dict[str, Any]:
    """Replayed searches against forward and backward passes of the model they come from."""
    model, batch = problem.model, slice(0, problem.batch_size)

    def forward_backward() -> None:
        model.zero_grad()
        problem.loss(model(problem.inputs[batch]), problem.targets[batch]).backward()  # type: ignore[no-untyped-call]

    def replay() -> None:
        for record in records:
            Pending.replay(record.search, record.origin, record.memory, record.transcript)

    probes = sum(record.evaluations for record in records)
    ratios, microseconds = [], []
    for _ in range(repetitions):
        per_probe = timed(replay, 1) / probes
        ratios.append(per_probe / timed(forward_backward, 20))
        microseconds.append(1e6 * per_probe)
    ratio = quartiles(ratios)
    return {
        "searches": len(records),
        "probes_per_search": probes / len(records),
        "microseconds_per_probe": quartiles(microseconds),
        "ratio": ratio,
        "target": ARITHMETIC_TARGET,
        "met": ratio is not None and ratio["median"] <= ARITHMETIC_TARGET,
    }


class Variances:
    """The ways to the variance of a slope, on one batch of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model = problem.model
        self.parameters = list(self.model.parameters())
        batch = slice(0, problem.batch_size)
        self.inputs, self.targets = problem.inputs[batch], problem.targets[batch]

    def ways(self) -> dict[str, Callable[[], object]]:
        """All of them by name; each makes the whole evaluation."""
        return {
            "a plain forward and backward pass": self.plain,
            "exact": self.exact,
            "diagonal": self.diagonal,
            "exact, vmap of grad": self.vmap_exact,
            "diagonal, vmap of grad": self.vmap_diagonal,
        }

    def plain(self) -> None:
        """No variance."""
        self.model.zero_grad()
        self.problem.loss(self.model(self.inputs), self.targets).backward()  # type: ignore[no-untyped-call]

    def exact(self) -> Tensor:
        """From the slopes of all samples."""
        return mean_and_variance(self.evaluated().own_slopes())[1]

    def diagonal(self) -> Tensor:
        """From the variances of the gradient's components."""
        evaluated = self.evaluated(variances=True)
        return evaluated.diagonal([gradient_of(p) for p in self.parameters])

    def evaluated(self, *, variances: bool = False) -> Evaluated:
        """Forward, and backward as PrLS does it."""
        self.model.zero_grad()
        losses = per_sample(self.problem.loss(self.model(self.inputs), self.targets, reduction="none"))
        evaluated = Evaluated(losses, self.parameters)
        evaluated.backward(variances=variances)
        return evaluated

    def vmap_exact(self) -> Tensor:
        """The same as `exact`, from per-sample gradients."""
        rows = self.per_sample_gradients()
        means = [row.mean(dim=0) for row in rows]
        slopes = torch.stack([row.flatten(1) @ mean.flatten() for row, mean in zip(rows, means, strict=True)]).sum(
            dim=0
        )
        return slopes.var() / len(slopes)

    def vmap_diagonal(self) -> Tensor:
        """The same as `diagonal`, from per-sample gradients."""
        rows = self.per_sample_gradients()
        parts = [(row.mean(dim=0).square() * row.var(dim=0)).sum() for row in rows]
        return torch.stack(parts).sum() / len(rows[0])

    def per_sample_gradients(self) -> list[Tensor]:
        """All gradients of all samples, as `torch.func` gives them."""
        named = {name: parameter.detach() for name, parameter in self.model.named_parameters()}

        def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            outputs = torch.func.functional_call(self.model, parameters, (x.unsqueeze(0),))
            return self.problem.loss(outputs, y.unsqueeze(0))

        return list(
            torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(named, self.inputs, self.targets).values()
        )


def gradient_of(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def variances(problem: Problem, repetitions: int) -> dict[str, Any]:
    """All ways interleaved, as ratios to the plain pass, and how ours compare with vmap."""
    ways = Variances(problem).ways()
    times: dict[str, list[float]] = {name: [] for name in ways}
    calls = max(1, problem.block // 4)
    for _ in range(repetitions):
        for name, act in ways.items():
            act()
            times[name].append(timed(act, calls))
    plain = times["a plain forward and backward pass"]
    found: dict[str, Any] = {
        name: {"ratio": quartiles([mine / base for mine, base in zip(times[name], plain, strict=True)])}
        for name in ways
    }
    for name in ("exact", "diagonal"):
        theirs = times[f"{name}, vmap of grad"]
        found[name]["vmap_is_slower_by"] = quartiles([b / a for a, b in zip(times[name], theirs, strict=True)])
    return found


def table(name: str, problem: Problem, summary: dict[str, Any]) -> str:
    lines = [
        f"{problem.title}: {problem.parameters:,} parameters, batch {problem.batch_size}",
        f"  {'':34} {'ratio':>6} {'quartiles':>13} {'target':>7} {'':4} {'evals/step':>10} {'vmap is slower':>14}",
    ]
    for title, row in summary["steps"].items():
        lines.append(line(title, row))
    if "arithmetic" in summary:
        row = summary["arithmetic"]
        each = row["microseconds_per_probe"]["median"]
        lines.append(line(f"PrLS's arithmetic, {each:.0f} µs a probe", row))
    lines.append("  variances, relative to a plain forward and backward pass")
    lines.extend(line(title, row) for title, row in summary["variances"].items())
    return "\n".join(lines)


def line(title: str, row: dict[str, Any]) -> str:
    ratio = row["ratio"]
    target = "" if row.get("target") is None else f"{row['target']:.2f}"
    verdict = {None: "", True: "pass", False: "miss"}[row.get("met")]
    evaluations = row.get("evaluations_per_step")
    slower = row.get("vmap_is_slower_by")
    text = (
        f"  {title:34} {ratio['median']:6.2f} {ratio['lower']:6.2f}-{ratio['upper']:<6.2f} {target:>7} {verdict:4} "
        f"{'' if evaluations is None else f'{evaluations:.2f}':>10} "
        f"{'' if slower is None else '{:.1f} times'.format(slower['median']):>14}"
    )
    return text.rstrip()


def measure(name: str, quick: bool, summaries: dict[str, Any]) -> bool:
    """One problem; false if interrupted, with what there is so far."""
    problem = load(name, quick)
    repetitions: list[dict[str, Block]] = []
    records: list[Record[Any, Any]] = []
    complete = True
    try:
        for done, repetitions, records in steps(problem, quick):  # noqa: B007
            report_progress(f"{name}: {done}")
    except KeyboardInterrupt:
        complete = False
    if repetitions:
        summary: dict[str, Any] = {"steps": summarise_steps(repetitions, TARGETS[name])}
        if name == "logreg":
            summary["arithmetic"] = arithmetic(problem, records, 3 if quick else 50)
        report_progress(f"{name}: variances")
        summary["variances"] = variances(problem, 2 if quick else max(5, problem.repetitions // 4))
        summaries[name] = summary
        report_progress("")
        print(f"\n{table(name, problem, summary)}", flush=True)
    return complete


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problem", choices=TARGETS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds; its numbers mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    keep_memory()
    torch.set_num_threads(1)
    about = machine()
    print(header(about, chosen.quick, RATIO), flush=True)
    summaries: dict[str, Any] = {}
    complete = all(measure(name, chosen.quick, summaries) for name in chosen.problem or TARGETS)
    if chosen.json:
        write(chosen.json, about, quick=chosen.quick, complete=complete, problems=summaries)
    return 0 if complete else 130


if __name__ == "__main__":
    sys.exit(main())
