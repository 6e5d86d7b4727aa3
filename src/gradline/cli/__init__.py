"""The command line: `gradline`, one verb a file. Nothing here imports torch before a verb needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 something failed, 2 not understood, 130 interrupted."""
    try:
        from gradline.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write(
            f"gradline: the command line needs {error.name}, which is not installed: pip install 'gradline[study]'\n"
        )
        return 2
    return run(sys.argv[1:] if arguments is None else list(arguments))
