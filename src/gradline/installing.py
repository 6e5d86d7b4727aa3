"""Messages for optional packages that are not installed."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra. It names a clone, since gradline is on no package index yet."""
    return f"pip install '.[{extra}]' in a clone of gradline"


def not_installed(what: str, needed: str, extra: str, *, name: str | None = None) -> ModuleNotFoundError:
    """Return the error to raise where an optional package is missing.

    Args:
        what: the name of gradline, or the feature, that needs the package.
        needed: the name of the package in the message, for example "PyTorch".
        extra: the extra of gradline that installs the package.
        name: `name` of the error, the module that could not be imported. `None`: `needed`.
    """
    text = f"{what} needs {needed}, which is not installed: {how_to_install(extra)}"
    return ModuleNotFoundError(text, name=name or needed)
