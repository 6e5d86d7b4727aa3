"""How many threads torch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def threads(count: int = 1) -> Iterator[None]:
    """Let torch compute with so many threads, and then, also after an error, with as many as before.

    Everything of ours that computes with small tensors does so on one thread: sharing out so little work costs more
    than it saves, and where another program holds a core, each operation waits for the thread on it. Sums also have
    the same order on every machine then.

    As a decorator, `@threads()`, it does so for each call of a function.

    Args:
        count: of threads.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
