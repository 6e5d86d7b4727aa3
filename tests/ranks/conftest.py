"""Processes for the tests of this folder."""

import pytest
from ranks.processes import World


@pytest.fixture(scope="session")
def two():
    world = World(2)
    yield world
    world.close()


@pytest.fixture(scope="session")
def three():
    world = World(3)
    yield world
    world.close()


@pytest.fixture(params=[2, 3])
def world(request):
    return request.getfixturevalue({2: "two", 3: "three"}[request.param])
