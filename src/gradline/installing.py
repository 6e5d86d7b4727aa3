"""Messages for optional packages that are not installed."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra, and where it works: gradline is on no package index yet."""
    return f"pip install '.[{extra}]' in a clone of gradline"


def not_installed(what: str, needed: str, extra: str, *, name: str | None = None) -> ModuleNotFoundError:
    """Return the error to raise where an optional package is missing.

    Args:
        what: what needs it.
        needed: the package, as people call it.
        extra: the extra of gradline that installs it.
        name: the module that could not be imported; `None`: `needed`.
    """
    text = f"{what} needs {needed}, which is not installed: {how_to_install(extra)}"
    return ModuleNotFoundError(text, name=name or needed)
