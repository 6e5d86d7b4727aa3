"""Optional packages: messages where they are not installed, and progress bars of tqdm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = {"pytorch_lightning": "Lightning", "scipy": "SciPy", "sklearn": "scikit-learn", "torch": "PyTorch"}
"""Names of packages in messages, where they are not those of their modules."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra. It names a clone, since gradline is on no package index yet."""
    return f"pip install '.[{extra}]' in a clone of gradline"


def not_installed(what: str, module: str, extra: str) -> ModuleNotFoundError:
    """Return the error to raise where an optional package is missing.

    Args:
        what: the name of gradline, or the feature, that needs the package.
        module: the module that could not be imported.
        extra: the extra of gradline that installs the package.
    """
    text = f"{what} needs {NAMES.get(module, module)}, which is not installed: {how_to_install(extra)}"
    return ModuleNotFoundError(text, name=module)


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Context manager of imports: where another package is missing, the error is that of `not_installed`."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "gradline").partition(".")[0]
        if package == "gradline":
            raise
        raise not_installed(what, package, extra) from error


def progress_bar(show: bool | None, **options: Any) -> Any:
    """Return a bar of tqdm with these options, or `None` if it must not be shown.

    If `show` is `None` it is shown only if tqdm is installed; if `True`, a missing tqdm raises an error.
    """
    if show is False:
        return None
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError as error:
        if show is None:
            return None
        text = "progress=True needs tqdm, which is not installed: pip install tqdm"
        raise ModuleNotFoundError(text, name="tqdm") from error
    return tqdm(**options)
