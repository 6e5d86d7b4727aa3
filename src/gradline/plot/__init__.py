"""Plot a search: its probes, and why its step was accepted.

[`search_data`][gradline.plot.search_data] computes the numbers, without matplotlib; [`search`][gradline.plot.search]
draws them and needs matplotlib: `pip install '.[plot]'` in a clone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradline.installing import needs
from gradline.plot.data import Beliefs, Point, Rule, SearchData, search_data
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
    """Plot one search: its probes in order, the accepted step and the stop reason.

    * For gradient-only searches the slopes are plotted. Triangles point down for negative slopes and up for others; the
      shaded range contains the sign change.
    * For searches on values, the values with a piece of the tangent at each, and below them the slopes.
    * For [`Prls`][gradline.searches.Prls], the surrogate's values and slopes after all probes (mean, and bands of one
      and two standard deviations), the observations with their noise, and below them the probability of the Wolfe
      conditions.

    If the steps span more than a decade their axis is logarithmic, and linear between 0 and the smallest step, to
    include the origin. Non-finite and very large numbers are marked at the edge.

    ```python
    import gradline
    from gradline.searches import GolsI

    record = gradline.solve(GolsI(), lambda step: step - 0.3)
    figure = gradline.plot.search(record)  # or gradline.plot.search(optimizer.last)
    # figure.savefig("search.png")
    assert [axis.get_ylabel() for axis in figure.axes] == ["slope F'(α)"]
    ```

    Args:
        transcript: a [`Record`][gradline.protocol.Record], as [`gradline.solve`][gradline.solve] returns and
            `optimizer.last` is; a [`Pending`][gradline.protocol.Pending] search, whose next probe is shown too; or a
            list of (step, observation).
        search: the search, if the transcript is a list. For `Prls` the outcome is plotted too if the origin is given.
        origin: the origin, if the transcript is a list.
        axes: the axes to draw on, from the top panel down: one for gradient-only searches, two for searches on values,
            three for PrLS. With fewer, the lower panels are left out. `None`: make a new figure.

    Returns:
        The figure. A new one is not managed by pyplot: notebooks display it without a magic command, otherwise save
            it, or pass axes of `plt.subplots`.
    """
    data = search_data(transcript, search=search, origin=origin)
    with needs("gradline.plot.search", "plot"):
        from gradline.plot.drawing import draw
    return draw(data, axes)
