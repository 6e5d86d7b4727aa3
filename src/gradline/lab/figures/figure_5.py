"""Figure 5: the Iris loss and its directional derivative over two weights, with all samples and with mini-batches."""

from __future__ import annotations

import numpy as np

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks

TITLE = "Values and slopes over two weights"
CAPTION = (
    "With a new mini-batch of 10 at each point the shape of the loss is lost in the jumps from one mini-batch to the "
    "next. The directional derivative can still be recognised, and is least noisy towards the edges."
)

WEIGHTS = {8: (1, 3), 9: (2, 0)}
"""Two parameters, by their numbers as torch lists them, counted from 1; and where they are in the first layer."""
REACH = 10.0
"""The largest value of either weight."""


@threads()
def data(
    *, reach: float = REACH, points: int = 51, batch_size: int = 10, repetition: bool = True
) -> gradline.landscape.Plane:
    """Evaluate the loss over two weights around 0, the other weights being those of the random start.

    Slopes are along (1, 1)/√2. A sample may be drawn twice for one mini-batch, as the paper says.
    """
    model, loss, samples = iris()
    first, second = (gradline.landscape.weight("0.weight", *place) for place in WEIGHTS.values())
    weights = model.get_parameter("0.weight").detach().numpy()
    x, y = (np.linspace(-reach, reach, points) - weights[place] for place in WEIGHTS.values())
    return gradline.landscape.plane(
        *(model, loss, samples),
        directions=(first, second),
        x=x,
        y=y,
        batch_size=batch_size,
        dynamic=1,
        repetition=repetition,
        seed=0,
    )


def draw(data: gradline.landscape.Plane, inks: Inks = LIGHT) -> style.Figure:
    """Draw values left and slopes right; all samples above, mini-batches below, each column on one scale."""
    full, dynamic, center = data.full, data.dynamic, data.center
    assert full is not None
    assert dynamic is not None
    assert center is not None
    with style.settings(inks):
        figure, axes = style.panels(2, 2, height=6.2, subplot_kw={"projection": "3d"})
        x, y = np.meshgrid(data.x + center[0], data.y + center[1])
        for column, (name, words) in enumerate((("values", "value F"), ("slopes", "slope F' along (1, 1)/√2"))):
            whole, drawn = getattr(full, name), getattr(dynamic, name)[0]
            low, high = min(whole.min(), drawn.min()), max(whole.max(), drawn.max())
            like = np.corrcoef(whole.ravel(), drawn.ravel())[0, 1]
            batch = f"a new mini-batch of {data.batch_size} a point\n(correlation with {'ab'[column]}: {like:.2f})"
            for row, (heights, about) in enumerate(((whole, "all 150 samples"), (drawn, batch))):
                axis = axes[row, column]
                style.surface(axis, x, y, heights, vmin=low, vmax=high)
                axis.set_zlim(low, high)
                for number, set_label, set_ticks in zip(
                    WEIGHTS, (axis.set_xlabel, axis.set_ylabel), (axis.set_xticks, axis.set_yticks), strict=True
                ):
                    set_label(f"weight $x_{{{number}}}$", labelpad=-4)
                    set_ticks([x.min(), 0.0, x.max()])
                axis.set_zlabel(words.split(" along")[0], labelpad=-3)
                axis.tick_params(pad=-2)
                axis.set_box_aspect(None, zoom=1.1)
                axis.locator_params(axis="z", nbins=5)
                axis.view_init(elev=28, azim=-125)
                style.letter(axis, "abcd"[2 * row + column], f"{words},\n{about}")
    return figure
