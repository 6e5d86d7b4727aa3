"""Settings for all tests."""

import gc
import os

import hypothesis
import pytest

# Before torch is imported, and for all processes that tests start: tiny tensors are faster on one thread, and on a busy
# machine two threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("busy", deadline=None)  # no test may need a quiet machine
hypothesis.settings.load_profile("busy")


@pytest.fixture(autouse=True, scope="session")
def quick_collections():
    """Spare the garbage collector the modules and tests themselves, which live to the end and are most objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def nothing_lives_on():
    """A data loader that lives on keeps its worker processes, and these hold the browser's pipe open.

    What is alive after a module lives to the end, as a rule: later collections are spared it, too.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A directory with a few short runs of every study."""
    from lab import small_store

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
