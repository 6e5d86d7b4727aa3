"""The paper's figures and those of our own studies: `data(...)` returns numbers or runs, `draw(data)` draws them.

```python
from gradline.lab.figures import FIGURES, save

figure_4 = FIGURES["figure_4"]
figure = figure_4.draw(figure_4.data())
# save(figure, "figures/figure_4")  # writes figure_4.pdf and figure_4.png
assert figure_4.title and figure_4.caption
```

Every module called `figure_*`, `table_*`, `study_*`, `compare_*` or `train_*` is in `FIGURES`: a new figure is one
file. It has `ENTRIES`, or the names that `Entry.of_module` (in `gradline.lab.figures.catalogue`) reads.

The modules import neither torch nor matplotlib until they are asked to compute or to draw.
"""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module

from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.style import save

__all__ = ["FIGURES", "Entry", "save"]


def _found() -> dict[str, Entry]:
    kinds = ("figure", "table", "study", "compare", "train")
    names = [name for _, name, _ in pkgutil.iter_modules(__path__) if name.split("_")[0].removesuffix("s") in kinds]
    modules = [import_module(f"{__name__}.{name}") for name in names]
    entries = [entry for module in modules for entry in getattr(module, "ENTRIES", None) or [Entry.of_module(module)]]

    def order(entry: Entry) -> tuple[object, ...]:
        return (kinds.index(entry.name.split("_")[0]), *map(int, re.findall(r"\d+$", entry.name)), entry.name)

    return {entry.name: entry for entry in sorted(entries, key=order)}


FIGURES: dict[str, Entry] = _found()
"""Every figure by its name: the paper's, in its order, and then those of our own studies."""
