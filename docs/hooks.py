"""What mkdocs does before a build: draw the pictures, if they are missing or older than what they are made of."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCES = {
    "pictures": ("src/gradline/plot/*.py", "src/gradline/landscape/*.py"),
    "study": ("src/gradline/plot/*.py", "src/gradline/lab/**/*.py", "results/*.json.gz"),
    "compare": ("src/gradline/plot/*.py", "src/gradline/lab/**/*.py", "results/compare.json.gz"),
}
"""The programs that draw, and what else their pictures are made of."""


def on_pre_build(config: Any) -> None:
    """Called by mkdocs."""
    folder = HERE / "pictures"
    for name, patterns in SOURCES.items():
        program = _load(HERE / f"{name}.py")
        files = [folder / picture for picture in program.names()]
        sources = [HERE / f"{name}.py", *(source for pattern in patterns for source in ROOT.glob(pattern))]
        changed = max(source.stat().st_mtime for source in sources)
        if any(not file.exists() or file.stat().st_mtime < changed for file in files):
            program.make(folder)


def _load(source: Path) -> Any:
    sys.path.insert(0, str(HERE))  # as when it is run: the programs share modules
    spec = importlib.util.spec_from_file_location(f"gradline_docs_{source.stem}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
