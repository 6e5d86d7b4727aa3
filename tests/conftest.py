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
    """Spare the garbage collector the modules and tests themselves, which live to the end and are most objects.

    It also looks for garbage less often than by default: its work was a tenth of some modules' time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(autouse=True, scope="module")
def nothing_lives_on():
    """A data loader that lives on keeps its worker processes, and these hold the browser's pipe open.

    What is alive after a module lives to the end, as a rule: later collections are spared it, too.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Make a file or directory once for all of xdist's workers."""
    from filelock import FileLock

    alone = "PYTEST_XDIST_WORKER" not in os.environ
    folder = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent

    def maker(name, make):
        whole, part = folder / name, folder / "unfinished" / name
        part.parent.mkdir(exist_ok=True)
        with FileLock(folder / f"{name}.lock"):
            if not whole.exists():
                make(part)
                part.rename(whole)
        return whole

    return maker


@pytest.fixture(scope="session")
def store(made_once):
    """A directory with a few short runs of every study."""
    from lab import small_store

    return made_once("study", small_store.make)


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
