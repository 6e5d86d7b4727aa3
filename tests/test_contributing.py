"""CONTRIBUTING.md is true: the files and the names of code on it exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gradline"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8") if (ROOT / "CONTRIBUTING.md").exists() else ""
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))


def names_in(tree):
    """Yield functions, classes, and methods as Class.method."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{name}" for name in names_in(node))
        elif isinstance(node, ast.FunctionDef):
            yield node.name


NAMES = {name for path in PACKAGE.rglob("*.py") for name in names_in(ast.parse(path.read_text(encoding="utf-8")))}


@pytest.mark.parametrize("path", [quoted for quoted in QUOTED if re.fullmatch(r"[\w/]+\.py|[\w/]+/", quoted)])
def test_a_file_on_the_page_exists(path):
    assert (ROOT / path).exists() or any(PACKAGE.rglob(path.removesuffix("/")))


@pytest.mark.parametrize("name", [quoted for quoted in QUOTED if re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.\w+)?", quoted)])
def test_a_name_on_the_page_exists(name):
    outside = {"TerminatedWorkerError"}
    assert name in NAMES | outside


@pytest.mark.parametrize(("name", "path"), re.findall(r"`([\w.]+)` \(`([\w/]+\.py)`", " ".join(PAGE.split())))
def test_a_name_is_in_the_file_beside_it(name, path):
    assert name in set(names_in(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))))
