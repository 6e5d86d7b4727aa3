"""Optional dependencies of the study, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradline.installing import not_installed


def study_extra(module: str, purpose: str) -> Any:
    """Import a module of the `study` extra, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != missing:
            raise
        raise not_installed(purpose, missing, "study") from error
