"""The line searches, one algorithm per file, each a frozen dataclass. None needs torch."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from gradline.searches.angle import Angle, AngleMemory
from gradline.searches.armijo import Armijo
from gradline.searches.fixed import Fixed
from gradline.searches.golden_section import GoldenSection
from gradline.searches.gols_b import GolsB
from gradline.searches.gols_back import GolsBack
from gradline.searches.gols_i import GolsI
from gradline.searches.gols_max import GolsMax
from gradline.searches.prls import Prls, PrlsMemory
from gradline.searches.strong_wolfe import StrongWolfe

__all__ = [
    "Angle",
    "AngleMemory",
    "Armijo",
    "Fixed",
    "GoldenSection",
    "GolsB",
    "GolsBack",
    "GolsI",
    "GolsMax",
    "Prls",
    "PrlsMemory",
    "StrongWolfe",
    "search_classes",
]


@cache
def search_classes() -> dict[str, Any]:
    """Return the classes of all searches in the modules of this package by their names.

    A new search is one file: studies and the command line find it here, and its import above is a convenience.

    ```python
    from gradline.searches import GolsI, search_classes

    assert search_classes()["GolsI"] is GolsI
    ```
    """
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if is_dataclass(kind) and hasattr(kind, "search") and kind.__module__ == module.__name__
    }
