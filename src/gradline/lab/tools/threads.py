"""The number of threads that torch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def threads(count: int = 1) -> Iterator[None]:
    """Context manager, also a decorator `@threads()`, in which torch computes with `count` threads.

    The lab computes with small tensors on one thread: dividing so little work costs more than it saves, and an
    operation would wait for a thread whose core another program uses. Sums also have the same order on every machine.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
