"""Python's collector looks at what is new, and seldom at everything."""

import gc
from types import SimpleNamespace

import pytest

from emu.server.service.collector import FEW, short_collections


class Node:
    """Refers to itself."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def function():
    return SimpleNamespace(remains=[], restarts=0, hca=SimpleNamespace(tables=[[]]))


@pytest.fixture(autouse=True)
def frozen_before():
    """The suite has set everything aside that it has found at its start."""
    yield
    gc.collect()
    gc.freeze()


def test_what_survives_is_set_aside(function):
    with short_collections([function]):
        kept = [[] for _ in range(1000)]
        before = gc.get_freeze_count()
        gc.collect()
        assert gc.get_freeze_count() >= before + len(kept)
        assert not any(item is kept for item in gc.get_objects())


def test_new_garbage_is_found(function):
    with short_collections([function]):
        Node()
        assert gc.collect() > 0


@pytest.mark.parametrize(("live", "found"), [(FEW, True), (FEW + 1, False)])
def test_old_garbage_is_found_after_a_reset(function, live, found):
    function.hca.tables = [range(live)]
    with short_collections([function]):
        node = Node()
        gc.collect()
        del node
        assert gc.collect() == 0
        function.restarts += 1
        assert (gc.collect() > 0) == found


def test_everything_is_as_before_in_the_end(function):
    before = len(gc.callbacks)
    with short_collections([function]):
        pass
    assert len(gc.callbacks) == before
    assert gc.get_freeze_count() == 0
