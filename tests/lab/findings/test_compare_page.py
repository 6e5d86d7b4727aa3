"""The page that compares gradline with other optimizers is in step with the runs beside the code."""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gradline.lab.findings.comparison import DRAWN, LIMIT, SIZES
from gradline.lab.findings.packed import pack
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
def page():
    return (DOCS / "compare.md").read_text(encoding="utf-8")


def test_the_page_is_in_step_with_the_runs(program, found, page):
    assert program.filled(page, *found) == page, "`python docs/compare.py` brings the page in step"


def test_the_page_follows_the_runs(program, found, page):
    packed, known = found
    failed = replace(known.records[0], status=Status.FAILED, reason="ValueError: a|b " + "very " * 30)
    other = replace(known, records=(failed, *known.records[1:]))
    changed = program.filled(page, packed, other)
    line = next(line for line in changed.splitlines() if "ValueError: a\\|b" in line)
    assert line.startswith(f"| {program.name_of(failed.method)} | 1 of ")
    assert "…" in line
    assert f"`{failed.setting}`" in line
    assert changed != page


def test_every_method_and_setting_is_on_the_page(found, page):
    _, known = found
    for record in known.records:
        assert f"`{record.problem}`" in page
        assert re.search(rf"\| (\*\*)?{re.escape(record.method)}(\*\*)? \|", page)
    assert all(f"`{setting.name}`" in page for setting in known.settings)


def test_the_scores_of_the_page_are_those_of_the_runs(program, found, page):
    _, known = found
    tabs = dict(re.findall(r'^=== "(.*?)"\n\n(.*?)(?=^===|^<!--)', page, flags=re.MULTILINE | re.DOTALL))
    names = {"All": None, **{f"{size.capitalize()} batches": known.names(size=size) for size in SIZES}}
    assert set(names) <= set(tabs)
    for title, settings in names.items():
        lines = [line.split("|") for line in tabs[title].splitlines() if line.startswith("    | ")][2:]
        scores = known.scores(settings)
        assert [line[1].strip(" *") for line in lines] == [score.method for score in scores]
        assert [line[6].strip() for line in lines] == [f"{score.reached:.0%}" for score in scores]


def test_a_page_without_a_place_for_a_part_is_refused(program, found, page):
    with pytest.raises(ValueError, match=r"must have <!-- costs: made by docs/compare\.py -->"):
        program.filled(page.replace("<!-- costs: made", "<!-- coasts: made"), *found)


def test_runs_that_the_code_does_not_know_any_more_are_told(program, found, tmp_path):
    packed, known = found
    old = replace(known.records[0], revision=99)
    file = pack(replace(packed, records=(known.records[1], old)), tmp_path / "a.json.gz")
    with pytest.raises(ValueError, match=f"it has {re.escape(old.name)}"):
        program.read(file)


def test_the_pictures_are_those_that_the_page_shows(program, found, page):
    _, known = found
    made = {f"{name}{ending}.svg" for name in program.pictures(known) for ending in ("", "-dark")}
    assert made == set(program.names()) == set(re.findall(r"pictures/(compare-[a-z-]+\.svg)", page))


def test_memory_is_told_of_every_method(found):
    packed, known = found
    labels = {getattr(METHODS[record.method], "family", None) or record.method for record in known.records}
    assert labels <= set(packed.memory)
    assert all(isinstance(copies, float) and not math.isnan(copies) for copies in packed.memory.values())


def test_what_the_text_says_of_limits_is_so(page):
    assert f"No setting counts more than {10**LIMIT:g}×" in page
    assert DRAWN == 10
    assert "Up to ten methods are drawn" in page
