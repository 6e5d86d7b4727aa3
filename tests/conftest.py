"""Settings for all tests."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny tensors are faster on one thread, and two test processes do not fight for the cores."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
