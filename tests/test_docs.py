"""The documentation: its examples run, its site builds without a warning, and its reference is complete."""

import gc
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

import gradline
import gradline.plot
import gradline.protocol
import gradline.searches
from gradline.lab import plan, studies
from gradline.lab.tools.threads import threads

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
MODULES = sorted((ROOT / "src").rglob("*.py"))
BLOCK = re.compile(r"^([ ]*)```python[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """The python blocks of a page, each with as many empty lines before it that errors name the page's lines."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield "\n" * text.count("\n", 0, match.start(2)) + textwrap.dedent(match[2])


def test_the_pages_have_examples():
    with_examples = {page.stem for page in PAGES if list(blocks(page))}
    assert with_examples >= {"README", "index", "how-it-works", "landscape", "which", "your-own-search"}


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page))], ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_in_order(page):
    # A module, so that pickle finds the classes of the page.
    module = types.ModuleType(f"docs_{page.stem.replace('-', '_')}")
    sys.modules[module.__name__] = module
    try:
        with torch.random.fork_rng():
            for block in blocks(page):
                exec(compile(block, str(page), "exec", dont_inherit=True), module.__dict__)
    finally:
        del sys.modules[module.__name__]
        module.__dict__.clear()
        gc.collect()  # of optimizers that took no step: torch.compile warns of their hook on forward passes


TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in (*PAGES, *MODULES) if TOML.search(page.read_text("utf-8"))])
def test_studies_can_be_pasted(page, tmp_path):
    for place, match in enumerate(TOML.finditer(page.read_text(encoding="utf-8"))):
        file = tmp_path / f"pasted-{place}.toml"
        file.write_text(match[1], encoding="utf-8")
        assert plan(studies.load(file))


@pytest.mark.parametrize(
    "module", [module for module in MODULES if list(blocks(module))], ids=lambda module: module.stem
)
def test_the_examples_of_the_docstrings_run(module):
    with torch.random.fork_rng():
        for block in blocks(module):
            # In no file: the functions of an example are not those of the module.
            exec(compile(block, f"<{module}>", "exec", dont_inherit=True), {"__name__": "__example__"})


def test_the_front_doors_have_examples():
    assert {"optimizer", "batches", "function", "protocol", "conformance"} <= {
        module.stem for module in MODULES if list(blocks(module))
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site):
    for page in sorted(DOCS.rglob("*.md")):
        name = page.relative_to(DOCS).with_suffix("")
        folder = name.parent if name.name == "index" else name
        assert (site / folder / "index.html").exists(), f"{page.name} was not built"


@pytest.mark.slow
def test_the_site_fetches_nothing_from_elsewhere(site):
    fetched = re.compile(
        r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//[^>]*>|<link[^>]*\shref=["']?https?:[^>]*>"""
    )
    for page in site.rglob("*.html"):
        found = [tag for tag in fetched.findall(page.read_text(encoding="utf-8")) if "canonical" not in tag]
        assert not found, f"{page.relative_to(site)} fetches {found}"


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    public = {
        f"{module.__name__}.{name}"
        for module in (
            gradline,
            gradline.landscape,
            gradline.plot,
            gradline.protocol,
            gradline.searches,
            gradline.sklearn,
        )
        for name in module.__all__
    }
    assert not public - documented, f"not in the reference: {sorted(public - documented)}"


def test_no_page_has_the_marks_of_an_unfinished_merge():
    pages = [*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")]
    assert not [
        page for page in pages if re.search(r"^(<{7}|>{7}) |^={7}$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("gradline_docs_pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_text_says_of_minima_and_sign_changes(pictures):
    data = pictures.found_data(repeats=100)
    (optimum,) = set(data[150].steps_of_sign_changes)
    inner = slice(1, -1)  # no minimum can be at an end
    far = np.abs(data.steps[inner] - optimum) > 0.8 * optimum
    for size in (10, 50):
        minima, changes = data[size].minima_per_walk[inner], data[size].sign_changes_per_walk[inner]
        assert minima[far].mean() > 0.8 * minima.mean()  # everywhere
        assert changes[far].mean() < 0.05 * changes.max()  # in a ball
    assert len(set(data[150].steps_of_minima)) == 1


def test_what_the_text_says_of_landscapes(pictures):
    with threads():
        data = pictures.landscape_data()
    widths = [data.optima[size].ball().width for size in (20, 50, 100, 200)]
    assert widths == sorted(widths, reverse=True)
    (optimum,) = data.line.full.found().steps_of_sign_changes
    for one in data.optima.by_size.values():
        assert one.ball().low < optimum < one.ball().high + 1e-9
        assert one.spread_of_minima.range > 0.9 * data.line.steps[-1]


def test_what_the_text_says_of_the_three_searches(pictures):
    grow, shrink, at_once = pictures.searches_data().values()
    assert (grow.evaluations, shrink.evaluations, at_once.evaluations) == (5, 3, 1)
    assert grow.stop is shrink.stop is gradline.protocol.Stop.SIGN_CHANGE
    assert at_once.stop is gradline.protocol.Stop.ACCEPTED_AT_ONCE


def test_what_the_text_says_of_one_search(pictures):
    with threads():
        record = pictures.one_search_data()
    slopes = [seen.slope for _, seen in record.transcript]
    assert len(slopes) == 4
    assert slopes[0] > 0.9 * abs(record.origin.at_zero.slope)
    assert min(slopes[:3]) > 0.0 > slopes[3]
    assert slopes[0] > abs(record.origin.at_zero.slope)  # steeper than the start was
    assert slopes[0] < 1.1 * abs(record.origin.at_zero.slope)  # if only just


def test_what_the_text_says_of_a_training_run_of_angle(pictures):
    with threads():
        data = pictures.angle_data()
    assert all(later == 2 * earlier for earlier, later in zip(data.probes[:-1], data.probes[1:-1], strict=False))
    assert data.steps[0] < 0.1 * data.probes[:-1].max()  # a small part of the step where the slopes changed sign
    assert data.cosines[:8].mean() < -0.1
    assert data.steps[20] > 5.0 * data.steps[0]
    assert abs(data.cosines[50:].mean()) < 0.05
    assert data.steps[50:].max() < 3.0 * data.steps[50:].min()
    late = data.measured > 50
    assert np.abs(np.diff(data.average[late])).mean() < 0.7 * np.abs(np.diff(data.last[late])).mean()


def test_what_the_text_says_of_prls(pictures):
    with threads():
        record = pictures.prls_data()
    first, second, third, last = (seen for _, seen in record.transcript)
    assert max(first.slope, second.slope) < 0.0 < third.slope
    assert last.value > max(first.value, second.value, third.value, record.origin.at_zero.value)
    assert record.outcome.probe == 3
    considered = record.search.considered(record.origin, record.memory, record.transcript[:-1])
    assert considered == [record.step, 16.0]
    data = gradline.plot.search_data(record)
    chances = [data.beliefs[step][2] for step, _ in record.transcript]
    assert max(chances[:3]) < 0.3
    assert chances[3] > 0.9


def test_what_the_text_says_of_the_training_run(pictures):
    with threads():
        small, large, full = pictures.runs_data().values()
    for run in (small, large):
        assert run.steps.max() / run.steps.min() > 1e8
    assert np.percentile(full.steps, 95) / np.percentile(full.steps, 5) <= 2**4
    assert full.losses[-1] < large.losses[-1] < small.losses[-1]
    assert full.evaluations[0] == pytest.approx(26, abs=2)
