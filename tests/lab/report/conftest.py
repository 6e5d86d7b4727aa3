"""Pages of a small store, and a browser to look at them with."""

import shutil
from dataclasses import replace

import pytest

from gradline.lab import report, run_study, studies


@pytest.fixture(scope="session")
def page_file(store, made_once):
    """The page of the small store, without illustrations."""
    return made_once("report.html", lambda file: report.write(store, file, illustrations=False))


@pytest.fixture(scope="session")
def one_run(tmp_path_factory):
    """A directory with a single short run, whose page is quickly made."""
    directory = tmp_path_factory.mktemp("one_run")
    study = studies.load("bcwd", problems=["bcwd-logr"], methods=["gols-i"], batch_sizes=[10], seeds=1)
    run_study(replace(study, budget=30), directory, backend="inline")
    return directory


@pytest.fixture(scope="package")
def chromium():
    """A real browser, without a window."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install '.[dev]' in a clone of gradline"
    )
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        pytest.skip("no Chromium is installed (Debian and Ubuntu: apt install chromium)")
    with api.sync_playwright() as playwright:
        quick = "--js-flags=--max-lazy --no-opt --single-threaded"  # no page runs long enough for compiled code
        browser = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox", quick])
        yield browser
        browser.close()
