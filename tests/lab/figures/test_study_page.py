"""The page on the paper's study has the figures of the runs that are kept, and what the paper says beside each."""

import importlib.util
import re
from pathlib import Path

import pytest

from gradline.lab import summary
from gradline.lab.figures import FIGURES
from gradline.lab.findings.claims import spread
from gradline.lab.findings.reading import pack_runs

DOCS = Path(__file__).parents[3] / "docs"


def load(name):
    spec = importlib.util.spec_from_file_location(f"gradline_docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def program():
    return load("study")


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


def test_both_scales_of_netii_are_shown_once_there_are_runs(store, tmp_path, monkeypatch):
    pack_runs(store, tmp_path / "paper.json.gz")
    study, claims = load("study"), load("claims")
    monkeypatch.setattr(study, "RUNS", tmp_path)
    text = study.section().partition("### NetII from initial weights of two scales")[2].partition("###")[0]
    assert "MNIST, NetII: Training error and step of NetII" in text
    assert "pictures/study_net2_scales_cifar10_netii-dark.png" in text
    assert "study_net2_scales_mnist_netii.png" in set(study.names())
    runs = summary(store)
    table = claims.scales(runs)
    for method in ("gols-i", "prls"):
        row = next(line for line in table.splitlines() if line.startswith(f"| mnist-net2 | 50 | {method} | 2, 60 |"))
        for problem, place in (("mnist-net2", 5), ("mnist-net2-as-published", 7)):
            some = runs[(runs["problem"] == problem) & (runs["method"] == method) & (runs["batch_size"] == 50)]
            assert row.split(" | ")[place - 1] == spread(some["final_train_error"])
    without = runs[~runs["problem"].astype(str).str.endswith("-as-published")]
    assert claims.scales(without).startswith("No runs with the programs' scale")
