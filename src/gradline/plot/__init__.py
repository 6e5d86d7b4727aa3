"""Pictures from which a person understands why a step was taken.

[`search_data`][gradline.plot.search_data] computes the numbers and needs no matplotlib;
[`search`][gradline.plot.search] draws them and does: `pip install 'gradline[plot]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradline.plot.beliefs import Beliefs
from gradline.plot.data import Point, Rule, SearchData, search_data
from gradline.protocol import Origin, Pending, Record, Search, Transcript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["Beliefs", "Point", "Rule", "SearchData", "search", "search_data"]


def search(
    transcript: Record[Any, Any] | Pending[Any, Any] | Transcript[Any],
    *,
    search: Search[Any, Any] | None = None,
    origin: Origin[Any] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure | SubFigure:
    """Draw one search: its probes in their order, what it knew, and what it accepted and why.

    * Of a gradient-only search it draws the slopes. Triangles point down where the way led downhill, and up where it
      led uphill; the shaded range is where the sign changed.
    * Of a search that compares values, the values with a piece of the tangent at each, and the slopes below.
    * Of [`Prls`][gradline.searches.Prls], what its surrogate believes of values and slopes after all the probes (the
      mean, and bands of one and two standard deviations), what was seen, with the noise that the surrogate reckons
      with, and below these the probability of the Wolfe conditions.

    Where the steps span more than a decade their axis is logarithmic, and linear between 0 and the smallest step, so
    that the origin can be seen. What is not finite is marked at the edge, as is what is far off the scale.

    ```python
    import gradline
    from gradline.searches import GolsI

    record = gradline.solve(GolsI(), lambda step: step - 0.3)
    figure = gradline.plot.search(record)  # or gradline.plot.search(optimizer.last)
    # figure.savefig("search.png")
    assert [axis.get_ylabel() for axis in figure.axes] == ["slope F'(α)"]
    ```

    Args:
        transcript: a [`Record`][gradline.protocol.Record], which is what [`gradline.solve`][gradline.solve] returns and
            what `optimizer.last` is; a [`Pending`][gradline.protocol.Pending] search, of which it shows where it would
            probe next; or a list of (step, seen).
        search: whose transcript it is, where that is a plain list: it says what to draw. (Of `Prls` the outcome too is
            drawn, if the origin is given.)
        origin: what was seen at step 0, where the transcript is a plain list.
        axes: where to draw, from the top panel down; one for gradient-only searches, two where values are compared,
            three for PrLS. With fewer, the lower panels are left out. Without, a new figure is made.

    Returns:
        The figure. A new one belongs to no window: a notebook (after `%matplotlib inline`) shows it, else save it; or
            give axes of `plt.subplots`.
    """
    data = search_data(transcript, search=search, origin=origin)
    try:
        from gradline.plot.drawing import draw
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "gradline.plot.search needs matplotlib, which is not installed: pip install 'gradline[plot]'",
            name="matplotlib",
        ) from error
    return draw(data, axes)
