"""The format of state_dicts: torch's own, with everything but tensors as JSON in the first parameter group.

They consist of tensors, numbers, lists, dicts and strings, which `torch.load(weights_only=True)` accepts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from gradline.codec import CodecError, Plain
from gradline.driver import Driver

SEARCH = "line_search"
"""Key of a state_dict's first parameter group: the packed search."""


def written(state_dict: dict[str, Any], state: dict[int, Any], packed: dict[str, Plain]) -> dict[str, Any]:
    """Return torch's state_dict with another state of the parameters and a packed search."""
    first, *others = state_dict["param_groups"]
    return {**state_dict, "state": state, "param_groups": [{**first, SEARCH: json.dumps(packed)}, *others]}


def read(state_dict: Any) -> dict[str, Plain]:
    """Return the packed search of a state_dict."""
    groups = state_dict.get("param_groups") if isinstance(state_dict, dict) else None
    first = groups[0] if isinstance(groups, list) and groups else None
    saved = first.get(SEARCH) if isinstance(first, dict) else None
    if saved is None or (isinstance(saved, str) and not saved.startswith("{")):
        raise ValueError("state_dict must be one of a gradline optimizer (it has no line search in it)")
    try:
        packed = json.loads(saved) if isinstance(saved, str) else saved
    except (ValueError, RecursionError) as error:
        raise damaged(error) from error
    if not isinstance(packed, dict):
        raise damaged(f"its line search is a {type(packed).__name__}")
    check_fields(packed)
    return packed


def damaged(defect: object) -> ValueError:
    """Return the error for a damaged state_dict."""
    told = f"{type(defect).__name__}: {defect}" if isinstance(defect, Exception) else str(defect)
    return ValueError(
        f"state_dict must be as it was saved (training goes on exactly from it), got a damaged one: {told}"
    )


@contextmanager
def reporting_damage(*more: type[Exception]) -> Iterator[None]:
    """Context manager of reading: a value that is missing or of another type raises the error of `damaged`."""
    try:
        yield
    except CodecError as error:
        raise damaged(str(error)) from error
    except Exception as error:
        if isinstance(error, (LookupError, TypeError, AttributeError, *more)):
            raise damaged(error) from error
        raise


def with_fields(packed: dict[str, Plain], driver: Driver) -> dict[str, Plain]:
    """Return a packed optimizer with the names of all its fields, which are the version of the format."""
    parts = {**packed, "memory": dict.fromkeys(getattr(driver.search.start(), "_fields", ()))}
    names = [*packed, *(f"{part}.{name}" for part, held in parts.items() if isinstance(held, dict) for name in held)]
    return {**packed, "fields": sorted(names)}


def check_fields(packed: dict[str, Plain], present: dict[str, Plain] | None = None) -> None:
    """Check that a packed optimizer names its fields, and that they are those of the `present` one, if given."""
    told = packed.get("fields")
    found = set(told) if isinstance(told, list) and all(isinstance(name, str) for name in told) else None
    expected = found if present is None else set(present["fields"])
    if found is None or found != expected:
        lists = {"without": (expected or set()) - (found or set()), "with": (found or set()) - (expected or set())}
        told = " and ".join(f"{how} {', '.join(sorted(names))}" for how, names in lists.items() if names)
        raise ValueError(
            f"state_dict must be one with the fields that this gradline reads (training goes on from them), got one "
            f"{told or 'that does not name them'}: it was saved by another version; the model's own state_dict can be "
            f"loaded, and training begins anew from it"
        )


def saved_tensors(
    state_dict: dict[str, Any], parameters: Sequence[Tensor], shaped: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Return the saved state of each parameter; raise an error where tensors of `shaped` names have another shape."""
    places = [place for group in state_dict["param_groups"] for place in group["params"]]
    if len(places) != len(parameters):
        raise ValueError(
            f"state_dict must be of as many parameters (each has its own state), got {len(places)} for the "
            f"{len(parameters)} of this optimizer"
        )
    saved = [state_dict["state"].get(place, {}) for place in places]
    for place, parameter, held in zip(places, parameters, saved, strict=True):
        for name, value in held.items():
            if shaped(name) and value.shape != parameter.shape:
                raise ValueError(
                    f"state_dict must be of parameters of the same shapes (training goes on from their tensors), "
                    f"but parameter {place} has {tuple(parameter.shape)} and its saved {name} {tuple(value.shape)}"
                )
    return saved
