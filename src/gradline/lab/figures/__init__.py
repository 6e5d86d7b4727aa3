"""The paper's figures and those of our own studies: `data(...)` computes the numbers, `draw(data)` draws them.

```python
from gradline.lab.figures import FIGURES, save

figure_4 = FIGURES["figure_4"]
figure = figure_4.draw(figure_4.data())
# save(figure, "figures/figure_4")  # writes figure_4.pdf and figure_4.png
assert figure_4.title and figure_4.caption
```

Every module here that is called `figure_*`, `table_*` or `study_*` is in `FIGURES`, with `TITLE`, `CAPTION`, `NEEDS`,
`data` and `draw` as in [`Entry`][gradline.lab.figures.catalogue.Entry]: a new figure is one file. Figures 8 to 14,
which are alike, are values in `gradline.lab.figures.paper`.

The modules import neither torch nor matplotlib until they are asked to compute or to draw.
"""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module

from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.paper import ENTRIES
from gradline.lab.figures.style import save

__all__ = ["FIGURES", "Entry", "save"]


def _found() -> dict[str, Entry]:
    names = [name for _, name, _ in pkgutil.iter_modules(__path__) if re.match(r"(figure|table)_\d|study_", name)]
    entries = [*ENTRIES, *(Entry.of_module(import_module(f"{__name__}.{name}")) for name in names)]
    kinds = ("figure", "table", "study")

    def order(entry: Entry) -> tuple[object, ...]:
        return (kinds.index(entry.name.split("_")[0]), *map(int, re.findall(r"\d+$", entry.name)), entry.name)

    return {entry.name: entry for entry in sorted(entries, key=order)}


FIGURES: dict[str, Entry] = _found()
"""Every figure by its name: the paper's, in its order, and then those of our own studies."""
