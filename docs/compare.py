"""The numbers and pictures of the page that compares gradline with other optimizers, from packed runs of the study.

`python docs/compare.py` writes the tables into `compare.md`, between its marks; the text around them is written by
hand. mkdocs draws the pictures before a build. A test holds the page against the runs.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from gradline.lab.figures.compare_heat import draw_heat, heat_data
from gradline.lab.figures.compare_lines import draw_losses, draw_profile, losses_data, profile_data
from gradline.lab.findings import reading
from gradline.lab.findings.comparison import SIZES, Comparison, Score
from gradline.lab.findings.comparison import own as own_methods
from gradline.lab.findings.packed import Packed
from gradline.lab.methods import METHODS
from gradline.lab.tools.formatting import count, duration, number, plural
from gradline.plot.inks import DARK, LIGHT, Inks

OWN = own_methods()
HERE = Path(__file__).parent
RUNS = HERE.parent / "results" / "compare.json.gz"
PAGE = HERE / "compare.md"
POINTS = 60
"""Of a curve in a picture: the packed ones have fewer."""
REASON = 90
"""Characters of a reason that are shown."""


def read(path: Path = RUNS) -> tuple[Packed, Comparison]:
    """The runs, and what is read from them. Raises `ValueError` if the code does not know some of them any more."""
    packed, known = reading.read(path)
    lost = {record.name for record in packed.records} - {record.name for record in known.records}
    if lost:
        raise ValueError(f"{path} must have runs of today's problems and methods only, but it has {min(lost)}")
    return packed, known


# ---- Tables ----


def table(head: list[str], rows: list[list[str]], words: Container[int] = (0,)) -> str:
    """A table in Markdown. Some columns are words, the others numbers, which are aligned to the right."""
    marks = ["---" if place in words else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, marks, *rows))


def name_of(method: str) -> str:
    """Methods of gradline are in bold."""
    return f"**{method}**" if method in OWN else method


def facts(packed: Packed, known: Comparison) -> str:
    """How much was run."""
    records = known.records
    seeds = len({record.seed for record in records})
    evaluations = sum(record.points[-1].evaluations for record in records if record.points)
    seconds = sum(record.points[-1].seconds for record in records if record.points)
    torch = sorted({record.versions["torch"] for record in records if "torch" in record.versions})
    problems = len({record.problem for record in records})
    solved = {row.setting for row in known.rows if math.isfinite(row.to_target.median)}
    return (
        f"{plural(len(records), 'run')}, {count(evaluations)} evaluations, {duration(seconds)} of training: "
        f"{plural(problems, 'problem')} in {plural(len(known.settings), 'setting')} of problem and batch size, "
        f"{plural(len({record.method for record in records}), 'method')} with learning rates counted one by one, "
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
    for name in dict.fromkeys(record.method for record in known.records):
        method = METHODS[name]
        versions = sorted({r.versions.get(method.package, "?") for r in known.records if r.method == name})
        rows.append(
            (list(METHODS).index(name), [name_of(name), f"`{method.described}`", method.package, ", ".join(versions)])
        )
    return table(["method", "what it is", "package", "version"], [row for _, row in sorted(rows)], words=range(4))


def scores(packed: Packed, known: Comparison) -> str:
    """Everybody's score: over all settings, over those held out, and by batch size; a tab each."""
    parts = [
        ("All", known.names()),
        ("Held-out problems", known.names(held_out=True)),
        ("Problems for tuning", known.names(held_out=False)),
        *((f"{size.capitalize()} batches", known.names(size=size)) for size in SIZES),
    ]
    made = []
    for title, settings in parts:
        shared = known.shared(settings)
        if shared:
            text = f"{plural(len(shared), 'setting')}.\n\n{_scores(known.scores(settings))}"
            made.append(f'=== "{title}"\n\n' + "\n".join(f"    {line}".rstrip() for line in text.splitlines()))
    return "\n\n".join(made)


def _scores(found: list[Score]) -> str:
    head = [
        "method",
        "loss over the best's",
        "first at the target",
        "within 2×",
        "within 10×",
        "reached",
        "by all seeds",
    ]
    return table(
        head,
        [
            [name_of(score.method), times(score.behind)]
            + [f"{share:.0%}" for share in (score.best, score.near, score.far, score.reached, score.always)]
            for score in found
        ],
    )


def winners(packed: Packed, known: Comparison) -> str:
    """Who ends lowest in each setting, and how far gradline's best is behind; and who reaches the target first."""
    rows = []
    for setting in sorted(known.settings, key=lambda setting: setting.held_out):
        lines = [row for row in known.rows if row.setting == setting.name]
        own = [row for row in lines if row.method in OWN]
        first = min(lines, key=lambda row: row.to_target.median)
        rows.append(
            [
                f"`{setting.name}`",
                known.sizes[setting.name],
                name_of(lines[0].method),
                number(lines[0].train_loss.median),
                *([name_of(own[0].method), number(own[0].train_loss.median)] if own else ["-", "-"]),
                name_of(first.method) if math.isfinite(first.to_target.median) else "nobody",
                count(first.to_target.median) if math.isfinite(first.to_target.median) else "-",
            ]
        )
    head = ["setting", "batches", "lowest loss", "", "gradline's lowest", "", "first at the target", "evaluations"]
    return table(head, rows, words=(0, 1, 2, 4, 6))


def beaten(packed: Packed, known: Comparison) -> str:
    """Where `gradline.Angle` is beaten by methods without a learning rate, by more than what seeds do."""
    free = [name for name in known.free if name not in ("angle", "angle-average")]
    rows = []
    for setting in sorted(known.settings, key=lambda setting: setting.held_out):
        lines = {row.method: row.train_loss for row in known.rows if row.setting == setting.name}
        cells = [f"`{setting.name}`", known.sizes[setting.name]]
        for method in ("angle", "angle-average"):
            by = known.beaten(method, free).get(setting.name, [])
            losses = lines[method]
            shown = f"{number(losses.median)} ({number(losses.best)} to {number(losses.worst)})"
            cells += [shown, ", ".join(f"{name_of(name)} {number(lines[name].median)}" for name in by[:3])]
            cells[-1] += f" and {len(by) - 3} more" if len(by) > 3 else ""
        rows.append(cells)
    return table(["setting", "batches", "angle", "beaten by", "angle-average", "beaten by"], rows, words=range(6))


def failures(packed: Packed, known: Comparison) -> str:
    """What failed, and why."""
    rows = [
        [
            name_of(failure.method),
            f"{failure.runs} of {failure.of}",
            _short(failure.reason),
            ", ".join(f"`{name}`" for name in failure.settings),
        ]
        for failure in known.failures
    ]
    return table(["method", "runs", "reason", "where"], rows, words=range(4)) if rows else "No run failed."


def _short(reason: str) -> str:
    text = re.sub(r"\s+", " ", reason).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= REASON else f"{text[: REASON - 1]}…"


def costs(packed: Packed, known: Comparison) -> str:
    """Memory and time."""
    rows = []
    for score in known.scores():
        cost = known.costs[score.method]
        copies = packed.memory.get(score.method, packed.memory.get(score.method.rsplit(" ", 1)[0], math.nan))
        memory = copies if isinstance(copies, str) else "-" if math.isnan(copies) else f"{copies:.0f}"
        rows.append([name_of(score.method), memory, times(cost.step), times(cost.evaluation)])
    return table(["method", "memory in copies of the parameters", "time of a step", "time of an evaluation"], rows)


def times(value: float) -> str:
    """A ratio."""
    return (
        "-"
        if math.isnan(value)
        else f"{value:.2f}×"
        if value < 1.995
        else f"{value:.1f}×"
        if value < 9.95
        else f"{value:.0f}×"
    )


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
    """The page with all its parts made anew. Raises `ValueError` if a part has no place in it."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name}: made by docs/compare.py -->", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"the page must have {begin} and {end} once each (the numbers go between them)")
        before, rest = text.split(begin)
        inside = before[before.rfind("\n") + 1 :]  # a part of a note is as far in as the note
        made = "\n".join(f"{inside}{line}".rstrip() for line in make(packed, known).splitlines())
        text = f"{before}{begin}\n\n{made}\n\n{inside}{end}{rest.split(end)[1]}"
    return text


# ---- Pictures ----


def pictures(known: Comparison) -> dict[str, Callable[[Inks], Figure]]:
    """What draws each picture, in the inks of a page."""
    lines = known.drawn(OWN)
    profiles = profile_data(known.table, known.targets, lines)
    heat = heat_data(known)
    found: dict[str, Callable[[Inks], Figure]] = {
        "compare-heat": lambda inks: draw_heat(heat, inks),
        "compare-profile": lambda inks: draw_profile(profiles, inks),
    }
    for name, held_out in (("tuning", False), ("held-out", True)):
        settings = known.names(held_out=held_out)
        losses = losses_data(known.table, settings, lines, targets=known.targets, points=POINTS)
        found[f"compare-{name}"] = lambda inks, losses=losses: draw_losses(losses, inks)  # type: ignore[misc]
    return found


def names() -> Iterator[str]:
    """The files that `make` writes."""
    for name in ("heat", "profile", "tuning", "held-out"):
        yield f"compare-{name}.svg"
        yield f"compare-{name}-dark.svg"


def make(folder: Path) -> None:
    """Write all pictures, each whole and then renamed, so that two builds at once do no harm."""
    folder.mkdir(parents=True, exist_ok=True)
    _, known = read()
    for name, draw in pictures(known).items():
        for ending, inks in (("", LIGHT), ("-dark", DARK)):
            with matplotlib.rc_context({"svg.hashsalt": name}):
                target = folder / f"{name}{ending}.svg"
                draft = target.with_name(f".{os.getpid()}-{target.name}")
                options: dict[str, Any] = {"facecolor": "none", "metadata": {"Date": None}}
                draw(inks).savefig(draft, dpi=200, **options)
                draft.replace(target)


if __name__ == "__main__":
    page = filled(PAGE.read_text(encoding="utf-8"), *read())
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
