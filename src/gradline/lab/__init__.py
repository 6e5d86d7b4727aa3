"""Experiments: problems, methods, studies, engines and a store of results; `compare` is for a model of your own.

```python
from gradline.lab import plan, studies

assert len(plan(studies.load("bcwd"))) == 240
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradline.installing import needs

if TYPE_CHECKING:
    from gradline.lab.comparing import compare
    from gradline.lab.findings.query import results, summary
    from gradline.lab.jobs.store import Store
    from gradline.lab.problems.script import Training
    from gradline.lab.studies import Study, plan
    from gradline.lab.studies.running import run_study

__all__ = ["Store", "Study", "Training", "compare", "plan", "results", "run_study", "summary"]

_WHERE = {
    "Store": "jobs.store",
    "Study": "studies",
    "Training": "problems.script",
    "compare": "comparing",
    "plan": "studies",
    "results": "findings.query",
    "run_study": "studies.running",
    "summary": "findings.query",
}


def __getattr__(name: str) -> Any:
    """Import what needs pandas, pyarrow and others when it is asked for, and say how to install them."""
    if name not in _WHERE:
        raise AttributeError(f"module 'gradline.lab' has no attribute {name!r}")
    with needs(f"gradline.lab.{name}", "study"):
        value = getattr(import_module(f"gradline.lab.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
