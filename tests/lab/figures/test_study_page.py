"""The page on the paper's study has the figures of the runs that are kept, and what the paper says beside each."""

import importlib.util
import re
from pathlib import Path

import pytest

from gradline.lab.figures import FIGURES

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("gradline_docs_study", DOCS / "study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_in_step_with_the_runs(program):
    page = program.PAGE.read_text(encoding="utf-8")
    assert program.filled(page) == page, "python docs/study.py brings it in step"


def test_every_figure_is_named_with_the_words_of_the_paper(program):
    page = program.section()
    for name in program.SHOWN:
        assert f"### {FIGURES[name].heading}" in page
        assert FIGURES[name].paper in page
        assert (name in program.found()) or f"`gradline run {FIGURES[name].needs[0]}` makes them" in page


def test_the_pictures_are_those_that_the_page_shows(program):
    shown = set(re.findall(r"pictures/([a-z0-9_-]+\.png)", program.section()))
    assert shown == set(program.names())
    assert {"figure_8_netpi.png", "figure_9-dark.png", "figure_14.png", "table_3.png"} <= shown
