"""Import optional dependencies, with the command that installs them in the error."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradline.installing import not_installed


def import_extra(module: str, purpose: str, extra: str = "study") -> Any:
    """Import `module`, or raise a `ModuleNotFoundError` that names the extra of gradline that installs it.

    Args:
        module: dotted name.
        purpose: what needs it, the subject of the error's sentence.
        extra: the extra of gradline that has it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != missing:
            raise
        raise not_installed(purpose, missing, extra) from error
