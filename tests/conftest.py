"""Settings for all tests."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny tensors are faster on one thread, and two test processes do not fight for the cores."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def little_to_look_through():
    """Optimizers look through what Python may collect for the modules around their parameters: here, not much."""
    gc.freeze()
    yield
    gc.collect()  # or a loader's worker processes would live on with it, and hold the browser's pipe open


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A directory with a few short runs of every study."""
    import small_store

    directory = tmp_path_factory.mktemp("study")
    small_store.make(directory)
    return directory


@pytest.fixture(scope="session")
def two():
    """Two processes that run functions as ranks of one group."""
    from ranks.processes import World

    world = World(2)
    yield world
    world.close()


@pytest.fixture(scope="session")
def three():
    """Three of them."""
    from ranks.processes import World

    world = World(3)
    yield world
    world.close()
