"""The paper's figures, one a file: `data(...)` computes its numbers, `draw(data)` makes a matplotlib figure of them.

```python
from gradline.lab.figures import FIGURES, save

figure_4 = FIGURES["figure_4"]
figure = figure_4.draw(figure_4.data())
# save(figure, "figures/figure_4")  # writes figure_4.pdf and figure_4.png
assert figure_4.TITLE and figure_4.CAPTION
```

Every module here that is called `figure_*`, `table_*` or `study_*` is in `FIGURES`: a new one is one file. It has

* `TITLE`, one line; and `CAPTION`, what to see, in two sentences;
* `NEEDS`, the names of the studies whose stored results its `data` takes; none for the illustrations (Figures 1 to 7),
  which compute theirs on the spot;
* `data(...)`, which returns a frozen dataclass of arrays and has a seed for everything random;
* `draw(data)`, which returns a figure that belongs to no window. It computes nothing.

The modules import neither torch nor matplotlib until they are asked to compute or to draw.
"""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from gradline.lab.figures.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Illustration", "save"]


class Illustration(Protocol):
    """What a module of this package has."""

    TITLE: str
    CAPTION: str
    NEEDS: tuple[str, ...]

    def data(self, *arguments: Any, **options: Any) -> Any:
        """The numbers of the figure."""
        ...

    def draw(self, data: Any, /) -> Figure:
        """A drawing of the numbers."""
        ...


def _found() -> dict[str, Illustration]:
    names = [name for _, name, _ in pkgutil.iter_modules(__path__) if re.match(r"(figure|table)_\d|study_", name)]
    kinds = ("figure", "table", "study")
    names.sort(key=lambda name: (kinds.index(name.split("_")[0]), *map(int, re.findall(r"\d+$", name)), name))
    return {name: cast(Illustration, import_module(f"{__name__}.{name}")) for name in names}


FIGURES: dict[str, Illustration] = _found()
"""Every figure by the name of its module: the paper's, in its order, and then one for each study of our own."""
