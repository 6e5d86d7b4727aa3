"""Isolate code of other packages: some optimizers reseed generators, print, or warn at every step."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


@contextlib.contextmanager
def isolated(state: Tensor | None = None) -> Iterator[None]:
    """Context manager that restores the generators of torch and NumPy, and hides output and warnings.

    `state` is that of torch's generator at the start; `None`: that of seed 0.
    """
    import torch

    numbers = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.set_rng_state(torch.Generator().manual_seed(0).get_state() if state is None else state)
            yield
    finally:
        np.random.set_state(numbers)
