"""Import optional packages, and objects that a user names by a text; versions of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from typing import Any

from gradline.installing import needs

version = cache(metadata.version)
"""Returns the version of an installed package; the standard library parses a file at each call."""


def import_extra(module: str, purpose: str, extra: str = "study") -> Any:
    """Import `module`, or raise a `ModuleNotFoundError` that names the extra of gradline that installs it.

    `purpose` is what needs it, the subject of the error's sentence.
    """
    with needs(purpose, extra):
        return import_module(module)


def import_named(argument: str, name: str, kind: str, reason: str) -> Any:
    """Import and return the object that "package.module:attribute" names.

    The error says which `argument` has the name, of what `kind` the attribute is ("function", "Class"), and the
    `reason`, what it is for.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: an empty module name
        raise ValueError(
            f"{argument} must be 'package.module:{kind}' that can be imported ({reason}), got {name!r}: {error}"
        ) from error
