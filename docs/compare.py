"""The numbers and pictures of the page that compares gradline with other optimizers, from packed runs of the study.

`python docs/compare.py` writes the tables into `compare.md`, between its marks; the text around them is written by
hand. mkdocs draws the pictures before a build. A test holds the page against the runs.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from marks import fill
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from gradline.lab.figures import FIGURES, style
from gradline.lab.figures.compare_losses import draw_losses
from gradline.lab.figures.train_questions import compute_data
from gradline.lab.findings import reading
from gradline.lab.findings.cases import OURS, Case, MethodRuns
from gradline.lab.findings.comparison import FLOOR, OWN, Comparison, compare
from gradline.lab.findings.packed import Packed
from gradline.lab.findings.training import CLOSE, UNTOUCHED, TrainingCases, trained
from gradline.lab.jobs.result import Status
from gradline.lab.methods import METHODS
from gradline.lab.report.tables import Table, scores_table, times, versus_table
from gradline.lab.report.tables import markdown as table
from gradline.lab.studies import load, plan, plan_tuned
from gradline.lab.tools.formatting import count, duration, number, plural
from gradline.plot.inks import DARK, LIGHT, Inks, stroke

HERE = Path(__file__).parent
RUNS = HERE.parent / "results" / "compare.json.gz"
TRAINING = HERE.parent / "results" / "train.json.gz"
PAGE = HERE / "compare.md"
POINTS = 60
"""Of a curve in a picture: the packed ones have fewer."""
SIZES = ("small", "medium", "large")
"""What the batch sizes of a problem are called, in their order."""
REASON = 90
"""Characters of a reason that are shown."""


def read(path: Path = RUNS) -> tuple[Packed, Comparison]:
    """The runs, and what is read from them. Raises `ValueError` if the code does not know some of them any more."""
    study = load("compare")
    packed = reading.read(path, study)
    known = compare(packed.runs, study)
    lost = {run.key for run in packed.runs} - {run.key for run in known.runs}
    if lost:
        raise ValueError(f"{path} must have runs of today's problems and methods only, but it has {min(lost)}")
    return packed, known


def read_training(path: Path = TRAINING) -> tuple[Packed, TrainingCases]:
    """The runs of the study `train`, and what is read from them."""
    study = load("train")
    packed = reading.read(path, study)
    return packed, trained(packed.runs, study)


# ---- Tables ----


def name_of(method: str) -> str:
    """Methods of gradline are in bold."""
    return f"**{method}**" if method in OWN else method


def facts(packed: Packed, known: Comparison) -> str:
    """How much was run."""
    runs = known.runs
    seeds = len({run.seed for run in runs})
    evaluations = sum(run.last("evaluations") for run in runs)
    seconds = sum(run.last("seconds") for run in runs)
    torch = sorted({run.versions["torch"] for run in runs if "torch" in run.versions})
    problems = len({run.problem for run in runs})
    solved = [case for case in known.cases if any(math.isfinite(one) for one in _to_target(case).values())]
    return (
        f"{plural(len(runs), 'run')}, {count(evaluations)} evaluations, {duration(seconds)} of training: "
        f"{plural(problems, 'problem')} in {plural(len(known.settings), 'setting')} of problem and batch size, "
        f"{plural(len({run.method for run in runs}), 'method')} with learning rates counted one by one, "
        f"{plural(seeds, 'seed')} each, torch {', '.join(torch)}. Of the settings, "
        f"{len(known.settings) - len(solved)} have a target that no method reaches in the median seed."
    )


def commands(packed: Packed, known: Comparison) -> str:
    """What made the runs."""
    lines = [
        *packed.commands,
        "gradline results results/compare --memory --pack results/compare.json.gz",
        "python docs/compare.py",
    ]
    return "\n".join(["```sh", *lines, "```"])


def problems(packed: Packed, known: Comparison) -> str:
    """What is trained."""
    found = dict.fromkeys((setting.held_out, setting.problem) for setting in known.settings)
    rows = []
    for held_out, problem in sorted(found, key=lambda pair: pair[0]):
        own = [setting for setting in known.settings if setting.problem is problem]
        rows.append(
            [
                f"`{problem.name}`",
                "held out" if held_out else "tuning",
                problem.described,
                ", ".join(str(setting.batch_size) for setting in own),
                ", ".join(count(setting.budget) for setting in own),
                ", ".join(f"{setting.target:g}" for setting in own),
            ]
        )
    return table(
        ["problem", "for", "what is trained", "batch sizes", "evaluations", "target loss"], rows, words=range(3)
    )


def methods(packed: Packed, known: Comparison) -> str:
    """Who takes part."""
    rows = []
    for name in dict.fromkeys(run.method for run in known.runs):
        method = METHODS[name]
        versions = sorted({r.versions.get(method.package, "?") for r in known.runs if r.method == name})
        rows.append(
            (list(METHODS).index(name), [name_of(name), f"`{method.described}`", method.package, ", ".join(versions)])
        )
    return table(["method", "what it is", "package", "version"], [row for _, row in sorted(rows)], words=range(4))


def scores(packed: Packed, known: Comparison) -> str:
    """Everybody's score: over all settings, over those held out, and by batch size; a tab each."""
    parts = [
        ("All", names_of(known)),
        ("Held-out problems", names_of(known, held_out=True)),
        ("Problems for tuning", names_of(known, held_out=False)),
        *((f"{size.capitalize()} batches", names_of(known, size=size)) for size in SIZES),
    ]
    made = {
        title: f"{plural(len(known.shared(settings)), 'setting')}.\n\n{_marked(scores_table(known, settings))}"
        for title, settings in parts
        if known.shared(settings)
    }
    return tabs(made)


def sizes_of(known: Comparison) -> dict[str, str]:
    """For each setting of the study, whether its batches are small, medium or large for its problem."""
    settings, found = load("compare").settings, {}
    for setting in settings:
        of_problem = sorted({other.batch_size for other in settings if other.problem == setting.problem})
        found[setting.name] = SIZES[min(of_problem.index(setting.batch_size), len(SIZES) - 1)]
    return found


def names_of(known: Comparison, *, size: str | None = None, held_out: bool | None = None) -> tuple[str, ...]:
    """The names of settings, perhaps only of one of `SIZES`, or of problems that are held out or are not."""
    sizes = sizes_of(known)
    return tuple(
        setting.name
        for setting in known.settings
        if (size is None or sizes[setting.name] == size) and (held_out is None or setting.held_out == held_out)
    )


def _marked(found: Table) -> str:
    return table(found.header, [[name_of(row[0].text), *(cell.text for cell in row[1:])] for row in found.rows])


def tabs(parts: Mapping[str, str]) -> str:
    """Return several texts as tabs, by their titles."""
    return "\n\n".join(f'=== "{title}"\n\n' + _indented(text) for title, text in parts.items())


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def winners(packed: Packed, known: Comparison) -> str:
    """Who ends lowest in each setting, and how far gradline's best is behind; and who reaches the target first."""
    rows, sizes = [], sizes_of(known)
    for case in sorted(known.cases, key=lambda case: case.setting.held_out):
        losses = {entry.method: number(entry.at_budget("train_loss").median) for entry in case.ranked}
        lowest = next(iter(losses))
        own = next((name for name in losses if name in OWN), None)
        needed = _to_target(case)
        first = min(needed, key=lambda name: needed[name])
        solved = math.isfinite(needed[first])
        rows.append(
            [
                f"`{case.setting.name}`",
                sizes[case.setting.name],
                *(name_of(lowest), losses[lowest]),
                *((name_of(own), losses[own]) if own else ("-", "-")),
                *((name_of(first), count(needed[first])) if solved else ("nobody", "-")),
            ]
        )
    head = ["setting", "batches", "lowest loss", "", "gradline's lowest", "", "first at the target", "evaluations"]
    return table(head, rows, words=(0, 1, 2, 4, 6))


def _to_target(case: Case) -> dict[str, float]:
    """Evaluations of the median seed to the target, by method, the lowest loss first."""
    return {entry.method: case.to_target(entry).median for entry in case.ranked}


def beaten(packed: Packed, known: Comparison) -> str:
    """Where `gradline.Angle` is beaten by methods without a learning rate, by more than what seeds do."""
    rows, sizes = [], sizes_of(known)
    for case in sorted(known.cases, key=lambda case: case.setting.held_out):
        lines = {entry.method: entry.at_budget("train_loss") for entry in case.ranked}
        names = lines.keys() - {"angle", "angle-adam"}
        free = {name for name in names if not name.endswith((" best", " median"))}  # those are of grids
        cells = [f"`{case.setting.name}`", sizes[case.setting.name]]
        for method in ("angle", "angle-adam"):
            losses = lines[method]
            best = max(losses.best, FLOOR)
            by = [name for name, other in lines.items() if name in free and other.worst < best]  # the lowest first
            shown = f"{number(losses.median)} ({number(losses.best)} to {number(losses.worst)})"
            cells += [shown, ", ".join(f"{name_of(name)} {number(lines[name].median)}" for name in by[:3])]
            cells[-1] += f" and {len(by) - 3} more" if len(by) > 3 else ""
        rows.append(cells)
    return table(["setting", "batches", "angle", "beaten by", "angle-adam", "beaten by"], rows, words=range(6))


def failures(packed: Packed, known: Comparison) -> str:
    """What failed, and why, learning rates of a grid each on their own; those that failed most come first."""
    made = Counter(run.method for run in known.runs)
    found: dict[tuple[str, str], list[str]] = {}
    for run in known.runs:
        if run.status is not Status.DONE:
            found.setdefault((run.method, run.reason or "diverged"), []).append(run.setting)
    rows = [
        [
            name_of(method),
            f"{len(settings)} of {made[method]}",
            _short(reason),
            ", ".join(f"`{name}`" for name in dict.fromkeys(settings)),
        ]
        for (method, reason), settings in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    ]
    return table(["method", "runs", "reason", "where"], rows, words=range(4)) if rows else "No run failed."


def _short(reason: str) -> str:
    text = re.sub(r"\s+", " ", reason).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= REASON else f"{text[: REASON - 1]}…"


def costs(packed: Packed, known: Comparison) -> str:
    """Memory, and evaluations of a step (medians over settings)."""
    rows = []
    for score in known.scores():
        of_method = [(case, case.entries[score.method]) for case in known.cases if score.method in case.entries]
        evaluations = _median(
            case.cost(entry, "iterations") / case.cost(entry, "evaluations") for case, entry in of_method
        )
        copies = packed.memory.get(score.method, packed.memory.get(score.method.rsplit(" ", 1)[0], math.nan))
        memory = copies if isinstance(copies, str) else "-" if math.isnan(copies) else f"{copies:.0f}"
        rows.append([name_of(score.method), memory, f"{evaluations:.1f}"])
    return table(["method", "memory in copies of the parameters", "evaluations of a step"], rows)


def _median(values: Iterable[float]) -> float:
    return median([value for value in values if not math.isnan(value)] or [math.nan])


# ---- Tables of the study `train` ----


def train_facts(packed: Packed, training: TrainingCases) -> str:
    """How much was run, and how much of the whole study that is."""
    study = load("train")
    runs = packed.runs
    seconds = sum(run.last("cpu_seconds") for run in runs)
    seeds = sorted({len(entry.runs) for case in training.cases for entry in case.entries.values()})
    whole = len(plan(study)) + len(plan_tuned(study, lambda setting, tuned: tuned.candidates[0]))
    part = f" of the {count(whole)} of the whole study" if len(runs) < whole else ""
    held_out, short = training.part(held_out=True), training.part(short=True)
    problems = {case.setting.problem.name for case in training.cases}
    return (
        f"{plural(len(runs), 'run')}{part}, {duration(seconds)} of processor time: "
        f"{plural(len(problems), 'problem')}, {plural(len(training.cases), 'case')} of problem, batch size and budget "
        f"({len(held_out.cases)} on held-out problems, {len(short.cases)} with a quarter of the evaluations), "
        f"{' to '.join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))} seeds each, and one more for tuning."
    )


def train_quality(packed: Packed, training: TrainingCases) -> str:
    """Every method against what one gets by tuning; a tab for all cases, and for parts of them."""
    parts = [
        ("All cases", training),
        ("Held-out problems", training.part(held_out=True)),
        ("Problems for tuning", training.part(held_out=False)),
        ("To the end", training.part(short=False)),
        ("A quarter of it", training.part(short=True)),
    ]
    return tabs({title: _marked(versus_table(part)) for title, part in parts if part.cases})


def _span(entry: MethodRuns) -> str:
    losses = entry.validation_loss
    return f"{number(losses.median)} ({number(losses.best)} to {number(losses.worst)})"


def train_cases(packed: Packed, training: TrainingCases) -> str:
    """Losses in each case: ours, what one gets by tuning, and Adam untouched."""
    rows = []
    for case in training.ordered:
        tuned = case.tuned
        cells = [f"`{case.name}`", "held out" if case.setting.held_out else "tuning"]
        for name in (OURS, UNTOUCHED):
            entry = case.entries.get(name)
            cells += ["-", "-"] if entry is None else [_span(entry), number(entry.final("test_loss").median)]
        if tuned is None:
            cells += ["-", "-", "-"]
        else:
            edge = ", at the edge" if at_edge(tuned) else ""
            chosen = f"`{tuned.chosen}` of {len(tuned.candidates)}{edge}"
            cells += [_span(tuned), number(tuned.final("test_loss").median), chosen]
        rows.append(cells)
    head = ["case", "for", OURS, "test", UNTOUCHED, "test", "best tuned", "test", "which"]
    return table(head, rows, words=(0, 1, 8))


def at_edge(entry: MethodRuns) -> bool:
    """Whether the chosen learning rate is the lowest or the highest that was tried with its schedule."""
    schedule, _, rate = (entry.chosen or "").rpartition("-")
    rates = [float(run.method.rpartition("-")[2]) for run in entry.candidates if run.method.startswith(schedule)]
    return float(rate) in (min(rates), max(rates))


def train_compute(packed: Packed, training: TrainingCases) -> str:
    """Evaluations to the target, with and without tuning."""
    found = compute_data(training)
    reached = [spent for spent in found if spent.reached]
    savings = sorted(spent.tuned / spent.ours for spent in reached)
    middle = savings[len(savings) // 2] if savings else math.nan
    ends = f"{savings[0]:.0f} to {savings[-1]:.0f}" if savings else "-"
    text = (
        f"{OURS} reaches the target in {len(reached)} of {plural(len(found), 'case')}. There, tuning took "
        f"{middle:.0f} times its evaluations (median; {ends})."
    )
    rows = [
        [
            f"`{spent.case.name}`",
            count(spent.ours) if spent.reached else f"not in {count(spent.ours)}",
            count(spent.tuned),
            str(spent.candidates),
            times(spent.tuned / spent.ours) if spent.reached else "-",
        ]
        for spent in found
    ]
    head = ["case", f"{OURS}, one run", "tuned, with its candidates", "candidates", "saved"]
    return f'{text}\n\n??? note "Case by case"\n\n{_indented(table(head, rows))}'


def train_limits(packed: Packed, training: TrainingCases) -> str:
    """Where another method without tuning ends lower in every seed."""
    rows = []
    for case in training.ordered:
        ours = case.entries.get(OURS)
        if ours is None:
            continue
        by = [entry for entry in case.untuned() if entry.validation_loss.worst < ours.validation_loss.best]
        if by:
            lower = ", ".join(f"{name_of(entry.method)} {number(entry.validation_loss.median)}" for entry in by[:3])
            rows.append([f"`{case.name}`", _span(ours), lower + (f" and {len(by) - 3} more" if by[3:] else "")])
    known = [case for case in training.cases if OURS in case.entries]
    behind = [case for case in known if UNTOUCHED in case.entries and case.ratio(OURS, UNTOUCHED).median > CLOSE]
    text = (
        f"Its median validation loss is more than 2% above that of {UNTOUCHED} in {len(behind)} of "
        f"{plural(len(known), 'case')}. In {len(rows)} another method without tuning ends lower in every seed"
    )
    return f"{text}:\n\n{table(['case', OURS, 'lower in every seed'], rows, words=range(3))}" if rows else f"{text}."


TRAINING_PARTS: dict[str, Callable[[Packed, TrainingCases], str]] = {
    "train-facts": train_facts,
    "train-quality": train_quality,
    "train-cases": train_cases,
    "train-compute": train_compute,
    "train-limits": train_limits,
}
PARTS: dict[str, Callable[[Packed, Comparison], str]] = {
    "facts": facts,
    "commands": commands,
    "problems": problems,
    "methods": methods,
    "scores": scores,
    "winners": winners,
    "beaten": beaten,
    "failures": failures,
    "costs": costs,
}
"""What is between the marks of the page."""


def filled(text: str, packed: Packed, known: Comparison) -> str:
    """The page with the parts of the comparison made anew. Raises `ValueError` if a part has no place in it."""
    return fill(text, "compare.py", {name: make(packed, known) for name, make in PARTS.items()})


def filled_training(text: str, packed: Packed, training: TrainingCases) -> str:
    """The page with the parts of the study `train` made anew. Raises `ValueError` if a part has no place in it."""
    return fill(text, "compare.py", {name: make(packed, training) for name, make in TRAINING_PARTS.items()})


# ---- Pictures ----


def pictures(packed: Packed, known: Comparison) -> dict[str, Callable[[Inks], Figure]]:
    """What draws each picture, in the inks of a page."""
    found = _figures(packed, "compare_heat", "compare_profile")
    for name, held_out in (("tuning", False), ("held-out", True)):
        cases = known.part(names_of(known, held_out=held_out))
        found[f"compare-{name}"] = partial(draw_losses, cases, known.drawn, points=POINTS)
    return found


def training_pictures(packed: Packed) -> dict[str, Callable[[Inks], Figure]]:
    """What draws each picture of the study `train`, in the inks of a page."""
    return _figures(packed, "train_quality", "train_compute", "train_limits")


def _figures(packed: Packed, *names: str) -> dict[str, Callable[[Inks], Figure]]:
    return {name.replace("_", "-"): partial(FIGURES[name].draw, FIGURES[name].data(packed.runs)) for name in names}


def names() -> Iterator[str]:
    """The files that `make` writes."""
    shown = {"compare": ("heat", "profile", "tuning", "held-out"), "train": ("quality", "compute", "limits")}
    for study, pictures in shown.items():
        for name in pictures:
            yield from (f"{study}-{name}.svg", f"{study}-{name}-dark.svg")


def make(folder: Path) -> None:
    """Write all pictures."""
    training, _ = read_training()
    for name, draw in (pictures(*read()) | training_pictures(training)).items():
        for ending, inks in (("", LIGHT), ("-dark", DARK)):
            style.save(draw(inks), folder / f"{name}{ending}", files=(".svg",), transparent=True)


HEADLINE = HERE / "headline.svg"
SHOWN = ("mnist-dropout", "text-transformer", "digits-mlp")
"""Problems in the headline picture: images, text, and a small data set that is trained for too long."""
LETTERS = 11.0
"""Points of all its letters: about 13 pixels where a page shows it 700 pixels wide."""
TEXTS = ("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize", "xtick.labelsize", "ytick.labelsize")


def headline(training: TrainingCases, inks: Inks = LIGHT) -> Figure:
    """Draw validation losses along training for Angle, Adam as it comes, and what tuning chose, on a few problems."""
    cases: dict[str, Case] = {}
    for case in sorted(training.ordered, key=lambda case: case.short):
        if case.tuned is not None and {OURS, UNTOUCHED} <= case.entries.keys():
            cases.setdefault(case.setting.problem.name, case)
    with style.settings(inks), rc_context(dict.fromkeys(TEXTS, LETTERS)):
        shown = [cases[name] for name in SHOWN]
        figure, axes = style.panels(1, len(shown), height=3.5, width=2.7 * len(shown))
        for axis, case in zip(axes.flat, shown, strict=True):
            assert case.tuned is not None
            tuned = f"tuned (best of {len(case.tuned.candidates)}):\n{case.tuned.chosen}"
            for place, (name, label) in enumerate(
                {OURS: "gradline.Angle", UNTOUCHED: "Adam at 1e-3", case.tuned.method: "tuned"}.items()
            ):
                options = stroke(place, inks).options()
                for run in case.entries[name].runs:
                    axis.plot(
                        run.evaluations, run.columns["validation_loss"], **{**options, "linewidth": 1.8}, label=label
                    )
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.xaxis.set_major_locator(MaxNLocator(4, steps=(1, 2, 5, 10)))
            axis.set_title(f"{case.setting.name}\n{tuned}", loc="left")
            axis.set_xlabel("evaluations")
        axes.flat[0].set_ylabel("validation loss")
        style.legend(figure, axes.flat, columns=3, where="outside upper center")
    return figure


if __name__ == "__main__":
    for ink, path in ((LIGHT, HEADLINE), (DARK, HEADLINE.with_stem("headline-dark"))):
        style.save(headline(read_training()[1], ink), path, files=(".svg",), transparent=ink is DARK)
    page = filled_training(filled(PAGE.read_text(encoding="utf-8"), *read()), *read_training())
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
