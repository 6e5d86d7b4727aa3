"""What a release needs: the sdist and the wheel, their metadata, and versions that agree."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is made from it."""
    pytest.importorskip("hatch_fancy_pypi_readme")
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, "sdist", folder)
    sdist = next(folder.glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    build(folder / sdist.name.removesuffix(".tar.gz"), "wheel", folder)
    return sdist, next(folder.glob("*.whl"))


def build(source, target, folder):
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_every_file_of_the_package(built):
    here = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    here = {name for name in here if "__pycache__" not in name}
    with zipfile.ZipFile(built[1]) as archive:
        assert here <= set(archive.namelist())


def test_the_sdist_can_be_tested(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/conftest.py", "docs/index.md", "examples/training_loop.py", "Makefile", "CITATION.cff"} <= names
    assert {"constraints.txt", "results/compare.json.gz", ".github/workflows/test.yml", "LICENSE"} <= names


def test_readme_on_an_index_has_no_relative_links(built):
    with zipfile.ZipFile(built[1]) as archive:
        name = next(name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    page = metadata.get_payload()
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) > 10
    assert all(link.startswith(("https://", "#")) for link in links)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert any("https://github.com/gradline/gradline" in url for url in metadata.get_all("Project-URL"))


def test_an_index_would_take_them(built):
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in citation
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"version      = {{{PROJECT['version']}}}" in readme


def test_every_extra_that_is_named_exists():
    """Messages and pages name extras of this project only, and say where they are installed from."""
    extras = PROJECT["optional-dependencies"]
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    files += [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    named = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"pip install ['\"]?gradline", text), f"{file}: from where?"
        for names in re.findall(r"pip install (?:-e )?'\.\[([\w,]+)\]'", text):
            named += 1
            assert set(names.split(",")) <= extras.keys(), file
        for name in re.findall(
            r"(?:not_installed|needs)\([^)]*?['\"](\w+)['\"]\)|how_to_install\(['\"](\w+)['\"]\)", text
        ):
            assert "".join(name) in extras, file
    assert named > 5


def test_workflows_can_be_read():
    yaml = pytest.importorskip("yaml")
    for path in (ROOT / ".github").rglob("*.yml"):
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict), path
    tests = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    pythons = tests["jobs"]["platforms"]["strategy"]["matrix"]["python"]
    assert [f"Programming Language :: Python :: {one}" in PROJECT["classifiers"] for one in pythons] == [True] * 4
    oldest = tests["jobs"]["torch"]["strategy"]["matrix"]["include"][0]["torch"].removeprefix("==").removesuffix(".*")
    assert PROJECT["optional-dependencies"]["torch"] == [f"torch>={oldest},<3"]
    for one in tests["jobs"]["torch"]["strategy"]["matrix"]["include"]:
        assert Requirement(f"torch{one['torch']}").specifier


def test_searches_that_need_scipy_say_so():
    program = """
import sys
sys.modules["scipy"] = None
import gradline
from gradline.protocol import Value
from gradline.searches import StrongWolfe
from gradline.searches.normal import upper_quadrant

calls = {
    "Prls": lambda: upper_quadrant(0.1, 0.2, 0.3),
    "StrongWolfe": lambda: gradline.solve(StrongWolfe(), lambda a: Value((a - 1) ** 2, 2 * (a - 1))),
}
for call in calls.values():
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        f"the search {search} needs SciPy, which is not installed: pip install '.[scipy]' in a clone of gradline"
        for search in ("Prls", "StrongWolfe")
    ], done.stderr
