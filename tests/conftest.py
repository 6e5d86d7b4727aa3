"""Settings for all tests."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny tensors are faster on one thread, and two test processes do not fight for the cores."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # optimizers look through what may be collected for the modules around their parameters


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A directory with a few short runs of every study."""
    import small_store

    directory = tmp_path_factory.mktemp("study")
    small_store.make(directory)
    return directory
