"""The public scans: a line, a plane, the optima along a line, and the slopes around a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gradline.landscape.directions import Direction, Point, center_of, norm, random_unit
from gradline.landscape.results import Curves, Found, Line, Optima, Plane, Projections, Surfaces
from gradline.landscape.scan import Losses, Scan, check_asked, steps_of
from gradline.landscape.source import require_count
from gradline.searches.arguments import require


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
    """Evaluate value F(α) and slope F'(α) at many steps α along a direction.

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
        model: the module, or its parameters.
        loss: called with the parts of a mini-batch; returns the mean over its samples, or the per-sample losses, which
            make many mini-batches cheap.
        data: a tensor, a tuple of tensors of equal length, a `DataLoader`, or `gradline.batches`, whose data and batch
            size are used.
        steps: steps α in ascending order. The parameters are set to x + α·d.
        direction: the direction d, a [`Direction`][gradline.landscape.Direction]. `None`: the negative gradient of the
            loss of all data.
        batch_size: samples per mini-batch; a loader has its own.
        full: whether to evaluate all data at each step.
        static: number of mini-batches to evaluate at all steps; or a list of them, each a list of sample indices.
        dynamic: number of walks along the line with a new mini-batch at each step.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: seed of the mini-batches and of the model's random numbers. `None`: draw one from torch's generator.
        chunk: largest number of samples to evaluate at once, to limit memory.
        progress: show a progress bar.
    """
    check_asked(full, static, dynamic)
    at = steps_of(steps)
    scan = Scan(model, loss, data, batch_size, repetition, seed=seed, chunk=chunk, progress=progress)
    with scan.begun():
        way = scan.direction(direction)
        points = ([(step, way)] for step in at.tolist())
        seen, batches = scan.sampled(points, way, at.shape, full=full, static=static, dynamic=dynamic)
        length = norm(way)
    everything, fixed, walks = (part and Curves(at, *part) for part in seen)
    return Line(at, everything, fixed, walks, batches, scan.batch_size, length)


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
    """Evaluate value, and slope along one direction, on a grid over two directions.

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
        model: the module, or its parameters.
        loss: as for [`line`][gradline.landscape.line].
        data: as for [`line`][gradline.landscape.line].
        directions: two directions, often [single weights][gradline.landscape.weight] or
            [random directions][gradline.landscape.random_directions].
        x: steps along the first direction, in ascending order.
        y: steps along the second direction, in ascending order.
        along: the direction of the slopes. `None`: the bisector of the two directions, of length 1.
        batch_size: samples per mini-batch.
        full: whether to evaluate all data at each point.
        static: number of mini-batches to evaluate at all points; or a list of them, each a list of sample indices.
        dynamic: number of surfaces with a new mini-batch at each point.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: as for [`line`][gradline.landscape.line].
        chunk: largest number of samples to evaluate at once.
        progress: show a progress bar.
    """
    check_asked(full, static, dynamic)
    across, up = steps_of(x, "x"), steps_of(y, "y")
    require(len(directions) == 2, "directions", "two", "a plane has two axes", len(directions))
    scan = Scan(model, loss, data, batch_size, repetition, seed=seed, chunk=chunk, progress=progress)
    centers = [center_of(direction, scan.place) for direction in directions]
    with scan.begun():
        first, second = (
            scan.direction(direction, f"directions[{place}]") for place, direction in enumerate(directions)
        )
        slope = _halfway(first, second) if along is None else scan.direction(along, "along")
        points = ([(a, first), (b, second)] for b in up.tolist() for a in across.tolist())
        shape = len(up), len(across)
        seen, batches = scan.sampled(points, slope, shape, full=full, static=static, dynamic=dynamic)
    everything, fixed, walks = (part and Surfaces(*part) for part in seen)
    center = None if centers[0] is None or centers[1] is None else (centers[0], centers[1])
    return Plane(across, up, everything, fixed, walks, batches, scan.batch_size, center)


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
    """Find local minima of the value and sign changes of the slope along a line, in many walks.

    With per-sample losses, all batch sizes and repeats together need one pass over the data per step. With a scalar
    loss each of them needs its own forward and backward pass.

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
        model: the module, or its parameters.
        loss: as for [`line`][gradline.landscape.line].
        data: as for [`line`][gradline.landscape.line]; a `DataLoader` needs per-sample losses.
        steps: steps in ascending order. The first and the last cannot be minima.
        batch_sizes: numbers of samples per mini-batch. The walks of one size do not depend on the other sizes.
        repeats: number of walks for each size.
        dynamic: draw a new mini-batch at each step. `False`: one for each walk.
        direction: as for [`line`][gradline.landscape.line].
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: as for [`line`][gradline.landscape.line].
        chunk: largest number of samples to evaluate at once.
        progress: show a progress bar.
    """
    at, sizes = steps_of(steps), list(batch_sizes)
    require_count("repeats", repeats, 1, "it counts walks")
    if not sizes or len(set(sizes)) != len(sizes):
        raise ValueError(f"batch_sizes must be one or more different sizes, got {sizes}")
    require(len(at) >= 3, "steps", "at least 3", "a minimum is lower than both its neighbours", len(at))
    scan = Scan(model, loss, data, None, repetition, seed=seed, chunk=chunk, progress=progress)
    with scan.begun():
        if scan.samples is None:
            raise ValueError(
                "loss must return per-sample losses with a DataLoader (mini-batches of many sizes are drawn), got one "
                "that returns their mean"
            )
        way = scan.direction(direction)
        draws = [scan.draws(size) for size in sizes]
        fixed = [] if dynamic else [batch for one in draws for batch in one.static(repeats)]
        points = (([(step, way)], way) for step in at.tolist())
        seen = scan.walk(points, len(at), lambda: fixed or [batch for one in draws for batch in one.draw(repeats)])
        values, slopes = seen.reshape(2, len(sizes), repeats, len(at))
        found = {size: Found.of(at, values[place], slopes[place]) for place, size in enumerate(sizes)}
        return Optima(at, found, repeats, scan.samples, norm(way))


def projections(
    model: nn.Module | Iterable[Tensor],
    loss: Losses,
    data: Any,
    *,
    distances: ArrayLike | Tensor,
    directions: int = 50,
    batch_size: int | None = None,
    batches: int = 20,
    repetition: bool = False,
    seed: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
) -> Projections:
    """Evaluate slopes around a point, along random unit vectors away from it.

    A negative slope disproves that the point is one of the paper's optima; that none was found is evidence that it is
    one, the stronger the more directions and mini-batches were drawn.

    ```python
    import torch
    from gradline import landscape

    weights = torch.zeros(20, requires_grad=True)
    targets = torch.randn(200, 20, generator=torch.Generator().manual_seed(0))

    def loss(target):
        return (weights - target).square().sum(dim=1) / 2

    def around(distances):
        return landscape.projections([weights], loss, targets, distances=distances, batch_size=20, seed=0)

    assert around([0.2]).is_snn_gpp  # inside the ball: some mini-batches have their optimum behind the point
    with torch.no_grad():
        weights += 3.0
    far = around([0.2])
    assert not far.is_nn_gpp and not far.is_snn_gpp  # every mini-batch leads back
    ```

    Args:
        model: the module, or its parameters; the point is where they are.
        loss: as for [`line`][gradline.landscape.line].
        data: as for [`line`][gradline.landscape.line].
        distances: distances λ above 0 in ascending order, the last one r.
        directions: number of random unit vectors; the opposite of each is used too.
        batch_size: samples per mini-batch.
        batches: number of mini-batches for each direction and distance.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: as for [`line`][gradline.landscape.line].
        chunk: largest number of samples to evaluate at once.
        progress: show a progress bar.
    """
    at = steps_of(distances, "distances")
    if at[0] <= 0.0:
        raise ValueError(f"distances must be above 0 (a point has no slope away from itself), got {at[0]:g}")
    require_count("directions", directions, 1, "it counts unit vectors")
    require_count("batches", batches, 1, "it counts mini-batches")
    scan = Scan(model, loss, data, batch_size, repetition, seed=seed, chunk=chunk, progress=progress)
    with scan.begun():
        draws = scan.draws(scan.batch_size)
        units = _units(scan.place, directions, scan.seed)
        points = (([(distance, unit)], unit) for unit in units for distance in at.tolist())
        count = 2 * directions * len(at)
        slopes = scan.walk(points, count, lambda: draws.draw(batches), full=True)[1]
    found = slopes.reshape(1 + batches, 2 * directions, len(at))
    return Projections(at, found[0], found[1:])


def _units(place: Point, count: int, seed: int) -> Iterator[list[Tensor]]:
    """Yield random vectors of length 1, uniform over all directions, and the opposite of each."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        unit = random_unit(place, generator)
        yield unit
        yield [-part for part in unit]


def _halfway(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    lengths = norm(first), norm(second)
    between = [a / lengths[0] + b / lengths[1] for a, b in zip(first, second, strict=True)]
    length = norm(between)
    if length < 1e-6:
        raise ValueError("along must be given where the two directions are opposite (there is nothing between them)")
    return [part / length for part in between]
