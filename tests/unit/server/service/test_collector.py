"""Python's collector looks at what is new, and seldom at everything."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from emu.server.service.collector import FEW, short_collections

ENOUGH = 20_000
"""New objects after which each generation that may be collected has been."""


class Node:
    """Refers to itself."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def function():
    return SimpleNamespace(deferred_free=[], restarts=0, hca=SimpleNamespace(tables=[[]]))


@pytest.fixture
def generations():
    """The generations that have been collected."""
    found = []

    def called(phase, info):
        if phase == "stop":
            found.append(info["generation"])

    gc.callbacks.append(called)
    yield found
    gc.callbacks.remove(called)


@pytest.fixture(autouse=True)
def frozen_before():
    """The suite has set everything aside that it has found at its start."""
    yield
    gc.collect()
    gc.freeze()


def made(count=ENOUGH):
    """New objects that stay."""
    return [[] for _ in range(count)]


def test_only_what_is_new_is_looked_at(function, generations):
    with short_collections([function]):
        generations.clear()
        kept = [made() for _ in range(10)]
        assert {*generations} == {0, 1}
    assert kept


def test_new_garbage_is_found(function):
    with short_collections([function]):
        node = weakref.ref(Node())
        kept = made()
        assert node() is None
    assert kept


@pytest.mark.parametrize(("live", "is_found"), [(FEW, True), (FEW + 1, False)])
def test_old_garbage_is_found_once_after_a_reset(function, generations, live, is_found):
    function.hca.tables = [range(live)]
    before = Node()
    with short_collections([function]):
        old = Node()
        kept = [made()]
        node = weakref.ref(old)
        del old
        kept.append(made())
        assert node() is not None
        generations.clear()
        function.restarts += 1
        kept += [made() for _ in range(5)]
        assert (node() is None) == is_found
        assert generations.count(2) == is_found
        is_seen = any(one is before for one in gc.get_objects())
        assert not is_seen, "the modules' objects are not looked at"
    assert kept


def test_a_reset_with_many_objects_is_looked_at_later(function):
    function.deferred_free = range(FEW + 1)
    with short_collections([function]):
        old = Node()
        kept = [made()]
        node = weakref.ref(old)
        del old
        function.restarts += 1
        kept.append(made())
        assert node() is not None
        function.deferred_free = []
        kept.append(made())
        assert node() is None
    assert kept


def test_everything_is_as_before_in_the_end(function):
    before = len(gc.callbacks), gc.get_threshold()
    with short_collections([function]):
        pass
    assert (len(gc.callbacks), gc.get_threshold()) == before
    assert gc.get_freeze_count() == 0
