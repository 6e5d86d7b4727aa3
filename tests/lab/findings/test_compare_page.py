"""The page that compares gradline with other optimizers is in step with the runs beside the code."""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from lab.compare_cases import trace

from gradline.lab import studies
from gradline.lab.findings.cases import MethodRuns
from gradline.lab.findings.comparison import DRAWN, LIMIT, compare
from gradline.lab.findings.packed import pack
from gradline.lab.findings.training import trained
from gradline.lab.jobs.result import Status
from gradline.lab.methods import METHODS

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("gradline_docs_compare", DOCS / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(program):
    return program.read()


@pytest.fixture(scope="module")
def training(program):
    return program.read_training()


@pytest.fixture(scope="module")
def page():
    return (DOCS / "compare.md").read_text(encoding="utf-8")


def test_the_page_is_in_step_with_the_runs(program, found, page):
    assert program.filled(page, *found) == page, "`python docs/compare.py` brings the page in step"


def test_the_page_follows_the_runs(program, found, page):
    packed, known = found
    failed = replace(known.runs[0], status=Status.FAILED, reason="ValueError: a|b " + "very " * 30)
    other = replace(known, runs=(failed, *known.runs[1:]))
    changed = program.filled(page, packed, other)
    line = next(line for line in changed.splitlines() if "ValueError: a\\|b" in line)
    assert line.startswith(f"| {program.name_of(failed.method)} | 1 of ")
    assert "…" in line
    assert f"`{failed.setting}`" in line
    assert changed != page


def test_every_method_and_setting_is_on_the_page(found, page):
    _, known = found
    for run in known.runs:
        assert f"`{run.problem}`" in page
        assert re.search(rf"\| (\*\*)?{re.escape(run.method)}(\*\*)? \|", page)
    assert all(f"`{setting.name}`" in page for setting in known.settings)


def test_the_scores_of_the_page_are_those_of_the_runs(program, found, page):
    _, known = found
    tabs = dict(re.findall(r'^=== "(.*?)"\n\n(.*?)(?=^===|^<!--)', page, flags=re.MULTILINE | re.DOTALL))
    sizes = {f"{size.capitalize()} batches": program.names_of(known, size=size) for size in program.SIZES}
    names = {"All": None, **sizes}
    assert set(names) <= set(tabs)
    for title, settings in names.items():
        lines = [line.split("|") for line in tabs[title].splitlines() if line.startswith("    | ")][2:]
        scores = known.scores(settings)
        assert [line[1].strip(" *") for line in lines] == [score.method for score in scores]
        assert [line[6].strip() for line in lines] == [f"{score.reached:.0%}" for score in scores]


def test_settings_are_found_by_batch_size_and_use(program, found):
    _, known = found
    names = set(program.names_of(known))
    assert {"regression/10", "pinn/16"} <= set(program.names_of(known, size="small"))
    assert "regression/1000" in program.names_of(known, size="large")
    assert program.names_of(known, held_out=False, size="medium") == tuple(
        name for name in program.names_of(known, size="medium") if name not in program.names_of(known, held_out=True)
    )
    assert {*program.names_of(known, held_out=True), *program.names_of(known, held_out=False)} == names


def ending(run, losses, status=Status.DONE):
    """A run of a study with a loss at its start and at its end, by seed."""
    return replace(trace("x", [9.0, losses[run.seed]], status=status), run=run)


@pytest.mark.parametrize(("others", "by"), [((0.05, 0.2), ""), ((0.05, 0.09), "prodigy 0.09")])
def test_a_method_is_beaten_where_every_seed_of_another_ends_lower(program, others, by):
    study = studies.load(
        "compare", problems=["regression/10"], methods=["angle", "angle-adam", "prodigy", "sgd"], seeds=2
    )
    ends = {"angle": (0.1, 0.3), "angle-adam": (0.01, 0.01), "prodigy": others}
    known = compare([ending(run, ends.get(run.method.name, (1e-3, 1e-3))) for run in studies.plan(study)], study)
    (line,) = [line for line in program.beaten(None, known).splitlines() if "regression/10" in line]
    assert [cell.strip() for cell in line.split("|")][4] == by  # sgd, whose learning rate was chosen, does not count


def test_failures_are_told_by_method_and_reason_those_that_failed_most_first(program):
    study = studies.load("compare", problems=["regression"], methods=["gols-i", "prodigy", "sgd"], seeds=1)
    bad = {("prodigy", "regression/10"), *(("sgd-100", f"regression/{size}") for size in (10, 100, 1000))}
    runs = studies.plan(study)
    made = [
        ending(run, [1.0], Status.DIVERGED if (run.method.name, run.setting) in bad else Status.DONE) for run in runs
    ]
    known = compare(made, study)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in program.failures(None, known).splitlines()[2:]]
    assert [row[:3] for row in rows] == [["sgd-100", "3 of 3", "diverged"], ["prodigy", "1 of 3", "diverged"]]
    assert rows[1][3] == "`regression/10`"
    costs = program.costs(SimpleNamespace(memory={}), known)
    assert "| **gols-i** | - | 1.0 |" in costs


def test_a_page_without_a_place_for_a_part_is_refused(program, found, page):
    with pytest.raises(ValueError, match=r"must have <!-- costs: made by docs/compare\.py -->"):
        program.filled(page.replace("<!-- costs: made", "<!-- coasts: made"), *found)


def test_runs_that_the_code_does_not_know_any_more_are_told(program, found, tmp_path):
    packed, known = found
    run = known.runs[0].run
    old = replace(known.runs[0], run=replace(run, problem=replace(run.problem, revision=99)))
    file = pack(replace(packed, runs=(known.runs[1], old)), tmp_path / "a.json.gz")
    with pytest.raises(ValueError, match=f"it has {re.escape(old.key)}"):
        program.read(file)


def test_the_pictures_are_those_that_the_page_shows(program, found, training, page):
    drawn = program.pictures(*found) | program.training_pictures(training[0])
    made = {f"{name}{ending}.svg" for name in drawn for ending in ("", "-dark")}
    assert made == set(program.names()) == set(re.findall(r"pictures/((?:compare|train)-[a-z-]+\.svg)", page))


def test_the_answers_are_in_step_with_the_runs_of_training(program, training, page):
    assert program.filled_training(page, *training) == page, "`python docs/compare.py` brings the page in step"


def test_the_answers_follow_the_runs_of_training(program, training, page):
    packed, _ = training
    ours = {run.key for run in packed.runs if run.method == "angle"}
    failed = tuple(
        replace(run, status=Status.FAILED, reason="broken") if run.key in ours else run for run in packed.runs
    )
    other = trained(failed, studies.load("train"))
    assert len(ours) > 10
    changed = program.filled_training(page, replace(packed, runs=failed), other)
    for part in ("train-quality", "train-cases", "train-limits"):
        begin, end = f"<!-- {part}: made by docs/compare.py -->", f"<!-- {part}: end -->"
        assert changed.split(begin)[1].split(end)[0] != page.split(begin)[1].split(end)[0]


def test_every_case_of_training_is_on_the_page_with_what_was_chosen(training, page):
    for case in training[1].cases:
        assert f"| `{case.name}` |" in page
        if case.tuned is not None:
            assert f"`{case.tuned.chosen}` of {len(case.tuned.candidates)}" in page


def test_the_edge_of_a_grid_is_told(program):
    rates = ("adamw-cosine-0.001", "adamw-cosine-0.003", "adamw-cosine-0.01", "adamw-constant-0.1")
    entry = MethodRuns("adamw-tuned", (), None, tuple(trace(name, [1.0], seed=1000) for name in rates))
    assert program.at_edge(replace(entry, chosen="adamw-cosine-0.01"))
    assert not program.at_edge(replace(entry, chosen="adamw-cosine-0.003"))


def test_nothing_is_reported_on_the_seed_that_was_tuned_on(training):
    study = studies.load("train")
    for case in training[1].cases:
        for entry in case.entries.values():
            assert study.tuning_seed not in {run.seed for run in entry.runs}
            assert {run.seed for run in entry.candidates} <= {study.tuning_seed}


def test_the_page_asks_its_questions_in_order(page):
    heads = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    assert heads[:4] == [
        "How good is it out of the box against what I would get with tuning?",
        "How much compute does that save?",
        "Where should I not use it?",
        "The whole comparison in one picture",
    ]


def test_memory_is_told_of_every_method(found):
    packed, known = found
    labels = {getattr(METHODS[run.method], "family", None) or run.method for run in known.runs}
    assert labels <= set(packed.memory)
    assert all(isinstance(copies, float) and not math.isnan(copies) for copies in packed.memory.values())


def test_what_the_text_says_of_limits_is_so(page):
    assert f"No setting counts more than {10**LIMIT:g}×" in page
    assert DRAWN == 10
    assert "Up to ten methods are drawn" in page
