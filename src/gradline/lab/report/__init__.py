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

from gradline.installing import not_installed

try:
    from gradline.lab.report.page import NoResults, write
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] == "gradline":
        raise
    raise not_installed("gradline.lab.report", error.name, "study") from error

__all__ = ["NoResults", "write"]
