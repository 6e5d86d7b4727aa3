"""The scans that users ask for: a line, a plane, and the optima found along a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gradline.landscape.directions import Direction, center_of, norm
from gradline.landscape.evaluate import Losses
from gradline.landscape.optima import Array, Found, Optima
from gradline.landscape.results import Curves, Line, Plane, Surfaces
from gradline.landscape.scan import Asked, Options, Scan, numbered, steps_of


def line(
    model: nn.Module | Iterable[Tensor],
    loss: Losses,
    data: Any,
    *,
    steps: ArrayLike | Tensor,
    direction: Direction | None = None,
    batch_size: int | None = None,
    full: bool = True,
    static: int | Sequence[ArrayLike] = 0,
    dynamic: int = 0,
    repetition: bool = False,
    seed: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
) -> Line:
    """Value F(α) and slope F'(α) at many steps α along a direction.

    ```python
    import numpy as np
    import torch
    from gradline import landscape

    weights = torch.zeros(2, requires_grad=True)
    targets = torch.tensor([[1.0, 0.0], [3.0, 0.0]])

    def loss(target):  # of each sample
        return (weights - target).square().sum(dim=1) / 2

    seen = landscape.line([weights], loss, targets, steps=[0.0, 0.4, 0.8, 1.2, 1.6], batch_size=1, static=2, seed=0)
    assert np.allclose(seen.full.slopes, [-4, -2.4, -0.8, 0.8, 2.4])  # towards (2, 0), and past it
    assert seen.static.found().ball() == (0.4, 1.6)  # one sample's optimum is at 0.5, the other's at 1.5
    ```

    Args:
        model: the module; or parameters.
        loss: called with the parts of a batch; returns the mean over its samples, or a vector of one loss for each,
            which makes many mini-batches cheap.
        data: tensors of equal length (a tuple, or one), a `DataLoader`, or the `gradline.batches` you train with, whose
            data and size of mini-batches are taken.
        steps: in ascending order. Parameters are at x + α·d.
        direction: d: `None` for steepest descent of all the data, else what
            [`Direction`][gradline.landscape.Direction] says.
        batch_size: samples in a mini-batch; a loader has its own.
        full: also evaluate all the data at each step.
        static: how many mini-batches to follow along the line; or these, each by the numbers of its samples.
        dynamic: how many times to walk along the line with a new mini-batch at each step.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: of the mini-batches and of what the model draws; without it one number comes from torch's generator.
        chunk: evaluate at most so many samples at a time, where there is no memory for all.
        progress: show a bar.
    """
    asked, at = Asked(full, static, dynamic, repetition), steps_of(steps)
    scan = Scan(model, loss, data, Options(seed, chunk, progress), batch_size)
    with scan.begun():
        way = scan.direction(direction)
        seen, batches = scan.walk([[(step, way)] for step in at.tolist()], way, asked)
        length = norm(way)
    everything, fixed, walks = (
        None if part is None else Curves(at, part[0], part[1]) for part in _apart(seen, asked, len(batches), at.shape)
    )
    return Line(at, everything, fixed, walks, numbered(batches), scan.batch_size, length)


def plane(
    model: nn.Module | Iterable[Tensor],
    loss: Losses,
    data: Any,
    *,
    directions: tuple[Direction, Direction],
    x: ArrayLike | Tensor,
    y: ArrayLike | Tensor,
    along: Direction | None = None,
    batch_size: int | None = None,
    full: bool = True,
    static: int | Sequence[ArrayLike] = 0,
    dynamic: int = 0,
    repetition: bool = False,
    seed: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
) -> Plane:
    """Value, and slope along one direction, at a grid of points over two directions.

    ```python
    import torch
    from gradline import landscape

    model, inputs = torch.nn.Linear(3, 1), torch.randn(50, 3)
    pair = landscape.weight("weight", 0, 0), landscape.weight("weight", 0, 1)
    grid = torch.linspace(-1, 1, 5)

    def loss(x):
        return model(x).square().mean()

    seen = landscape.plane(model, loss, inputs, directions=pair, x=grid, y=grid, batch_size=10, dynamic=1, seed=0)
    assert seen.full.values.shape == (5, 5) and seen.dynamic.slopes.shape == (1, 5, 5)
    ```

    Args:
        model: the module; or parameters.
        loss: as [`line`][gradline.landscape.line] takes it, and so are `data` and all that is not said here.
        data: as above.
        directions: two of them; often two [single weights][gradline.landscape.weight], or
            [random ones][gradline.landscape.random_directions].
        x: steps along the first, in ascending order.
        y: steps along the second.
        along: the direction of the slopes; `None` for the one halfway between the two, with length 1.
        batch_size: samples in a mini-batch.
        full: also evaluate all the data at each point.
        static: how many mini-batches have a surface each; or these, each by the numbers of its samples.
        dynamic: how many surfaces to make with a new mini-batch at each point.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: of the mini-batches and of what the model draws.
        chunk: evaluate at most so many samples at a time.
        progress: show a bar.
    """
    asked, across, up = Asked(full, static, dynamic, repetition), steps_of(x, "x"), steps_of(y, "y")
    if len(directions) != 2:
        raise ValueError(f"directions must be two (a plane has two axes), got {len(directions)}")
    scan = Scan(model, loss, data, Options(seed, chunk, progress), batch_size)
    centers = [center_of(direction, scan.place) for direction in directions]
    with scan.begun():
        first, second = (
            scan.direction(direction, f"directions[{place}]") for place, direction in enumerate(directions)
        )
        slope = _halfway(first, second) if along is None else scan.direction(along, "along")
        points = [[(a, first), (b, second)] for b in up.tolist() for a in across.tolist()]
        seen, batches = scan.walk(points, slope, asked)
    shape = (len(up), len(across))
    everything, fixed, walks = (
        None if part is None else Surfaces(part[0], part[1]) for part in _apart(seen, asked, len(batches), shape)
    )
    center = None if centers[0] is None or centers[1] is None else (centers[0], centers[1])
    return Plane(across, up, everything, fixed, walks, numbered(batches), scan.batch_size, center)


def optima(
    model: nn.Module | Iterable[Tensor],
    loss: Losses,
    data: Any,
    *,
    steps: ArrayLike | Tensor,
    batch_sizes: Sequence[int],
    repeats: int = 100,
    dynamic: bool = True,
    direction: Direction | None = None,
    repetition: bool = False,
    seed: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
) -> Optima:
    """Where local minima of the value and sign changes of the slope are found along a line, walk after walk.

    With per-sample losses all sizes and repeats cost one pass over the data at each step; with a loss that is one
    number, a forward and backward pass for each of them.

    ```python
    import numpy as np
    import torch
    from gradline import landscape

    weight = torch.zeros(1, requires_grad=True)
    targets = torch.linspace(-1.0, 3.0, 40).unsqueeze(1)  # their mean is 1

    def loss(target):
        return (weight - target).square().sum(dim=1) / 2

    found = landscape.optima(
        [weight], loss, targets, steps=np.arange(0, 2, 0.05), batch_sizes=[5, 20, 40], repeats=20, seed=0
    )
    assert found[5].ball().width > found[20].ball().width > found[40].ball().width
    assert found[5].spread_of_minima.range > found[5].spread_of_sign_changes.range
    ```

    Args:
        model: the module; or parameters.
        loss: as [`line`][gradline.landscape.line] takes it, and so are `data` and all that is not said here.
        data: as above, but a `DataLoader` only with a loss that returns per-sample losses.
        steps: in ascending order; a minimum is lower than both neighbours, so the first and the last are none.
        batch_sizes: samples in a mini-batch. The walks of one size do not depend on the other sizes.
        repeats: how many walks for each size.
        dynamic: a new mini-batch at each step; `False`: one for each walk.
        direction: `None` for steepest descent of all the data.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: of the mini-batches and of what the model draws.
        chunk: evaluate at most so many samples at a time.
        progress: show a bar.
    """
    at, sizes = steps_of(steps), list(batch_sizes)
    if type(repeats) is not int or repeats < 1:
        raise ValueError(f"repeats must be a whole number above 0 (it counts walks), got {repeats!r}")
    if not sizes or len(set(sizes)) != len(sizes):
        raise ValueError(f"batch_sizes must be one or more different sizes, got {sizes}")
    if len(at) < 3:
        raise ValueError(f"steps must be at least 3 (a minimum is lower than both its neighbours), got {len(at)}")
    scan = Scan(model, loss, data, Options(seed, chunk, progress), None)
    with scan.begun():
        if scan.samples is None:
            raise ValueError(
                "loss must return per-sample losses with a DataLoader (mini-batches of many sizes are drawn), got one "
                "that returns their mean"
            )
        way = scan.direction(direction)
        draws = [scan.draws(size, repetition=repetition) for size in sizes]
        fixed = [] if dynamic else [batch for draw in draws for batch in draw.static(repeats)]
        seen = []
        for step in scan.bar(at.tolist()):
            scan.place.go([(step, way)])
            batches = [batch for draw in draws for batch in draw.draw(repeats)] if dynamic else fixed
            seen.append(scan.evaluator.at(batches, way, full=False))
        values, slopes = np.stack(seen).transpose(2, 1, 0).reshape(2, len(sizes), repeats, len(at))
        found = {size: Found.of(at, values[place], slopes[place]) for place, size in enumerate(sizes)}
        return Optima(at, found, repeats, scan.samples, norm(way))


def _halfway(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    lengths = norm(first), norm(second)
    between = [a / lengths[0] + b / lengths[1] for a, b in zip(first, second, strict=True)]
    length = norm(between)
    if length < 1e-6:
        raise ValueError("along must be given where the two directions are opposite (there is nothing between them)")
    return [part / length for part in between]


def _apart(seen: Array, asked: Asked, static: int, shape: tuple[int, ...]) -> list[Array | None]:
    """(points, evaluations, 2) → values and slopes of all the data, of static and of dynamic mini-batches."""
    columns = seen.transpose(2, 1, 0).reshape(2, seen.shape[1], *shape)
    first = int(asked.full)
    return [
        columns[:, 0] if asked.full else None,
        columns[:, first : first + static] if static else None,
        columns[:, first + static :] if asked.dynamic else None,
    ]
