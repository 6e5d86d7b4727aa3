"""What may import what: all but `gradline.torch` and `gradline.landscape` works without torch; the core is alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gradline

PACKAGE = Path(gradline.__file__).parent
ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(("gradline", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def run(program):
    """Run a program in an interpreter of its own; whatever it raises fails the test."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


ALONE = """
import importlib.abc, sys

class Installed(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"gradline", "numpy", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Installed())
"""
"""Has gradline find nothing but the standard library and numpy."""


def test_it_works_with_numpy_alone():
    said = run(
        f"""{ALONE}
import gradline, gradline.searches, gradline.protocol, gradline.testing, gradline.plot
from gradline.lab.cli import main
from gradline.searches import GolsI

assert gradline.solve(GolsI(), lambda step: step - 0.5).step
gradline.testing.check_line_search(GolsI())
assert gradline.plot.search_data(gradline.solve(GolsI(), lambda step: step - 0.5)).accepted
assert "GOLSI" in dir(gradline)
assert main(["--version"]) == 0
for name in ("GOLSI", "LineSearchOptimizer", "batches", "landscape"):
    try:
        getattr(gradline, name)
    except ModuleNotFoundError as error:
        print(error, error.name)
"""
    )
    version, *missing = said.splitlines()
    assert version == f"gradline {gradline.__version__}"
    assert missing == [
        f"gradline.{name} needs PyTorch, which is not installed: pip install '.[torch]' in a clone of gradline torch"
        for name in ("GOLSI", "LineSearchOptimizer", "batches", "landscape")
    ]


def test_packages_are_imported_only_when_they_are_needed():
    run(
        """
import sys
import gradline
assert not {"numpy", "scipy", "torch", "matplotlib", "gradline.plot"} & sys.modules.keys()
gradline.solve(gradline.searches.GolsI(), lambda step: step - 0.5)
import gradline.testing, gradline.plot
assert not {"scipy", "torch", "matplotlib"} & sys.modules.keys()
import gradline.lab.figures
assert not {"torch", "matplotlib"} & sys.modules.keys()
assert len(gradline.lab.figures.FIGURES) >= 7
"""
    )
    run(
        """
import sys
import gradline
gradline.Angle
gradline.landscape.line, gradline.testing.check_line_search, gradline.plot.search, gradline.searches.GolsI
assert not {"scipy", "pandas", "sklearn", "matplotlib"} & sys.modules.keys()
"""
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gradline' has no attribute 'nothing'"):
        _ = gradline.nothing


def imports(path, module, *, everywhere=False):
    """The modules a file imports when it is imported (or ever), without what is only for the type checker."""

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                yield from visit(child)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, (base, node.module)))
            # `from gradline import searches` imports gradline.searches
            yield from (
                f"{origin}.{alias.name}" if f"{origin}.{alias.name}" in MODULES else origin for alias in node.names
            )
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for child in ast.iter_child_nodes(node):
                yield from visit(child)

    return set(visit(ast.parse(path.read_text(encoding="utf-8"))))


def within(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_the_reader_of_imports_sees_them():
    seen = imports(MODULES["gradline.searches.gols_i"], "gradline.searches.gols_i")
    assert {"math", "gradline.protocol", "gradline.searches.ladder"} <= seen
    strong_wolfe = MODULES["gradline.searches.strong_wolfe"]
    assert "scipy.optimize._dcsrch" not in imports(strong_wolfe, "gradline.searches.strong_wolfe")
    assert "scipy.optimize._dcsrch" in imports(strong_wolfe, "gradline.searches.strong_wolfe", everywhere=True)


def test_the_directions_of_dependence():
    """The contracts of pyproject.toml: which package stands on which, and whose modules are private."""
    pytest.importorskip(
        "importlinter", reason="import-linter is not installed: pip install '.[dev]' in a clone of gradline"
    )
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


CORE = ("gradline.protocol", "gradline.function", "gradline.searches", "gradline.testing", "gradline.plot")


def test_the_protocol_needs_the_standard_library_only():
    names = imports(MODULES["gradline.protocol"], "gradline.protocol", everywhere=True)
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("module", [module for module in MODULES if within(module, *CORE)])
def test_the_core_never_imports_torch(module):
    assert not {name for name in imports(MODULES[module], module, everywhere=True) if within(name, "torch")}


NEEDS_TORCH = (
    "gradline.torch",
    "gradline.landscape",
    "gradline.sklearn",
    "gradline.lab.engines.lockstep",
    "gradline.lab.engines.ordinary",
    "gradline.lab.findings.memory",
    "gradline.lab.problems.digits",
    "gradline.lab.problems.images",
    "gradline.lab.problems.networks",
    "gradline.lab.problems.paper",
    "gradline.lab.problems.physics",
    "gradline.lab.problems.supervised",
    "gradline.lab.problems.synthetic",
    "gradline.lab.problems.tabular",
    "gradline.lab.problems.vision",
    "gradline.lab.problems.text",
)


@pytest.mark.parametrize("module", [module for module in MODULES if not within(module, *NEEDS_TORCH)])
def test_only_the_torch_parts_import_torch_at_once(module):
    names = imports(MODULES[module], module)
    assert not {name for name in names if within(name, "torch", *NEEDS_TORCH)}
