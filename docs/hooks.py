"""What mkdocs does before a build: draw the pictures, if they are missing or older than the code that draws them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def on_pre_build(config: Any) -> None:
    """Called by mkdocs."""
    source = HERE / "pictures.py"
    spec = importlib.util.spec_from_file_location("gradline_docs_pictures", source)
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    folder = HERE / "pictures"
    files = [folder / name for name in pictures.names()]
    parts = (HERE.parent / "src/gradline" / part for part in ("plot", "landscape"))
    changed = max(code.stat().st_mtime for code in (source, *(code for part in parts for code in part.glob("*.py"))))
    if any(not file.exists() or file.stat().st_mtime < changed for file in files):
        pictures.make(folder)
