"""`python -m gradline` is `gradline`."""

from __future__ import annotations

import sys

from gradline.lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
