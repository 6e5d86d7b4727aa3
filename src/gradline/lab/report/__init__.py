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

from gradline.installing import needs

with needs("gradline.lab.report", "study"):
    from gradline.lab.report.page import NoResults, write

__all__ = ["NoResults", "write"]
