"""Log step sizes, slopes, evaluations and stop reasons of searches as scalars.

Scalars are passed to a function of the caller; no logging library is imported here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from torch.utils.hooks import RemovableHandle

from gradline.protocol import Record
from gradline.torch.base import GradlineOptimizer, require_gradline

PREFIX = "gradline"
"""First part of the names of scalars, everywhere: TensorBoard and other trackers, Lightning, Hugging Face's Trainer."""


def log_scalars(
    optimizer: GradlineOptimizer,
    add_scalar: Any,
    *,
    prefix: str = PREFIX,
    every: int = 1,
    at: Literal["evaluations", "searches"] = "evaluations",
    as_dict: bool = False,
) -> RemovableHandle:
    """Log the scalars of every search to TensorBoard, or to any other function that takes scalars.

    ```python
    import torch, gradline

    optimizer = gradline.GOLSI(torch.nn.Linear(3, 1).parameters())
    handle = gradline.log_scalars(optimizer, lambda tag, value, step: print(step, tag, value))  # or a SummaryWriter
    handle.remove()  # ends it
    ```

    The tags, each preceded by `prefix`:

    | tag | value |
    |---|---|
    | `step` | the accepted step; 0 if none was accepted |
    | `slope/start` | the slope along the direction at the start of the search |
    | `slope/accepted` | the slope at the accepted probe, if there is one |
    | `cosine` | cosine between the gradient at the start and the displacement, for searches on `Heading` |
    | `averaged_from` | the step since which the average has 90 % of its weight, for `gradline.Angle` with an average |
    | `evaluations` | number of probes of this search |
    | `total/evaluations`, `total/searches` | number of all gradient evaluations, and of finished searches |
    | `stops/sign_change`, ... | number of searches that ended for this reason since logging began |

    Non-finite values are omitted.

    Args:
        optimizer: a gradline optimizer.
        add_scalar: a `SummaryWriter` (of torch or tensorboardX), or any function of (tag, value, step). A writer also
            gets an explanation of each stop reason, as text, when it first occurs.
        prefix: first part of the tags; TensorBoard groups by it.
        every: log every `every`-th search. The counts include all searches.
        at: unit of the logged step: gradient evaluations (iterations of a loop without a closure) or searches (calls of
            `step(closure)`).
        as_dict: call `add_scalar` once per search with a dict of all its scalars and `step=`, as `wandb.log` and
            `mlflow.log_metrics` expect.

    Returns:
        A handle; `handle.remove()` ends the logging.
    """
    _check(optimizer, every, at)
    writer = add_scalar if hasattr(add_scalar, "add_scalar") else None
    put = add_scalar if writer is None else writer.add_scalar
    if not callable(put):
        raise TypeError(
            f"add_scalar must be a SummaryWriter or a function of (tag, value, step) (it is given the scalars), "
            f"got {add_scalar!r}"
        )
    if writer is not None and as_dict:
        raise ValueError(
            f"as_dict must be False for a {type(writer).__name__} (its add_scalar takes one scalar), got {as_dict!r}"
        )
    add_text = getattr(writer, "add_text", None)
    stops: Counter[str] = Counter()

    def log(record: Record[Any, Any]) -> None:
        name = record.stop.name
        stops[name] += 1
        place = optimizer.evaluations if at == "evaluations" else optimizer.iterations
        if add_text is not None and stops[name] == 1:
            add_text(_tag(prefix, f"stops/{name.lower()}"), str(record.stop), place)
        if stops.total() % every:
            return
        scalars = scalars_of(optimizer, record, stops, prefix=prefix)
        if as_dict:
            put(scalars, step=place)
        else:
            for tag, value in scalars.items():
                put(tag, value, place)

    return optimizer.register_search_hook(log)


def scalars_of(
    optimizer: GradlineOptimizer, record: Record[Any, Any], stops: Counter[str], *, prefix: str = PREFIX
) -> dict[str, float]:
    """Return the finite scalars of a search under the names that [`log_scalars`][gradline.log_scalars] explains.

    `stops` has the number of searches so far that ended for each reason, by the names of `Stop`.
    """
    scalars = record.scalars()
    if getattr(optimizer, "average", False):
        scalars["averaged_from"] = optimizer.averaged_from  # type: ignore[attr-defined]
    scalars["total/evaluations"] = optimizer.evaluations
    scalars["total/searches"] = optimizer.iterations
    scalars |= {f"stops/{name.lower()}": count for name, count in stops.items()}
    return {_tag(prefix, name): float(value) for name, value in scalars.items()}


def count_stops(optimizer: GradlineOptimizer, stops: Counter[str]) -> RemovableHandle:
    """Count the reasons why the optimizer's searches end, by their names; return the handle of the hook."""
    return optimizer.register_search_hook(lambda record: stops.update((record.stop.name,)))


def _tag(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name


def _check(optimizer: Any, every: Any, at: Any) -> None:
    require_gradline(optimizer, "logged")
    if type(every) is not int or every < 1:
        raise ValueError(f"every must be a whole number above 0 (every so many searches are logged), got {every!r}")
    if at not in ("evaluations", "searches"):
        raise ValueError(f"at must be 'evaluations' or 'searches' (the curves are drawn over it), got {at!r}")
