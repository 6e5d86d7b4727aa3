"""The paper's experiments: problems, plans, engines and a store of results.

```python
import gradline.study

study = gradline.study.studies.load("bcwd")
assert len(gradline.study.plan(study)) == 240
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradline.study.query import results, summary
    from gradline.study.runner import run_study
    from gradline.study.store import Store
    from gradline.study.studies import Study, plan

__all__ = ["Store", "Study", "plan", "results", "run_study", "summary"]

_WHERE = {
    "Store": "store",
    "Study": "studies",
    "plan": "studies",
    "results": "query",
    "run_study": "runner",
    "summary": "query",
}
_MODULES = {"data", "engines", "methods", "problems", "query", "result", "runner", "runs", "store", "studies"}


def __getattr__(name: str) -> Any:
    """Import what needs pandas, pyarrow and others when it is asked for, and say how to install them."""
    if name in _MODULES:
        return import_module(f"gradline.study.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'gradline.study' has no attribute {name!r}")
    try:
        value = getattr(import_module(f"gradline.study.{_WHERE[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "gradline":
            raise
        raise ModuleNotFoundError(
            f"gradline.study.{name} needs {error.name}, which is not installed: pip install 'gradline[study]'",
            name=error.name,
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__) | _MODULES)
