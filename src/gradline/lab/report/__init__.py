"""The results of a study as one HTML page that needs nothing else: tables, claims and charts that can be explored.

```python
import tempfile
import gradline.lab.report

with tempfile.TemporaryDirectory() as directory:
    try:
        gradline.lab.report.write(directory, f"{directory}/report.html")
    except gradline.lab.report.NoResults as error:
        assert "has no results" in str(error)
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradline.installing import not_installed

if TYPE_CHECKING:
    from gradline.lab.report.page import NoResults, write

__all__ = ["NoResults", "write"]


def __getattr__(name: str) -> Any:
    """Import what needs jinja2, plotly and pandas when it is asked for, and say how to install them."""
    if name not in __all__:
        raise AttributeError(f"module 'gradline.lab.report' has no attribute {name!r}")
    try:
        return getattr(import_module("gradline.lab.report.page"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "gradline":
            raise
        raise not_installed("gradline.lab.report", error.name, "study") from error


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
