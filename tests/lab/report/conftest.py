"""Pages of a small store, and a browser to look at them with."""

import shutil

import pytest

from gradline.lab import report


@pytest.fixture(scope="session")
def page_file(store, tmp_path_factory):
    """The page of the small store, without illustrations."""
    return report.write(store, tmp_path_factory.mktemp("page") / "report.html", illustrations=False)


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
        browser = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        yield browser
        browser.close()
