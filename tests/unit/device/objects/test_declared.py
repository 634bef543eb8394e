"""A class of objects declares itself: its kind, its numbers, and so its table in every function."""

import gc

import pytest
from helpers.pure import pure_only

from emu.device.engine import lifecycle
from emu.device.models import MODELS
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from emu.device.objects.queues.queue import Queue
from emu.device.state.polls import POLLS
from emu.device.state.tables import ObjectTables, kinds, numberings

pure_only("it declares classes of objects")


@pytest.fixture(autouse=True)
def as_before():
    """What a test declares is forgotten: a class refers to itself until it is collected."""
    numberings.cache_clear()
    yield
    numberings.cache_clear()
    gc.collect()


def made():
    return ObjectTables(MODELS["connectx6dx"])


def test_a_declared_kind_has_a_table():
    class Widget(Object):
        kind = "widget"
        numbering = Numbering(lambda made: 3 + made.caps.general.max_num_eqs, first=3)

    tables = made()
    table = tables.objects[Widget]
    assert (table.kind, table.first) == ("widget", 3)
    assert table.limit == 3 + tables.caps.general.max_num_eqs
    assert table in tables.tables
    assert [of.kind for of in kinds()] == [table.kind for table in tables.tables]


def test_a_kind_is_one_class():
    class Pd(Object):
        kind = "pd"
        numbering = Numbering(lambda _made: 9)

    with pytest.raises(ValueError, match="two classes have the kind 'pd'"):
        kinds()
    assert Pd.kind == "pd"


@pytest.mark.parametrize("body", [{"kind": "part"}, {"numbering": Numbering(lambda _made: 9)}])
def test_what_has_no_kind_or_no_numbers_has_no_table(body):
    part = type("Part", (Object,), body)
    assert part not in kinds()


def test_kinds_with_one_numbering_share_their_numbers():
    shared = Numbering(lambda _made: 7, first=3)

    class Left(Object):
        kind, numbering = "left", shared

    class Right(Object):
        kind, numbering = "right", shared.at_most(lambda _made: 4)

    tables = made()
    left, right = tables.objects[Left], tables.objects[Right]
    assert [left.add(Left()), right.add(Right()), left.add(Left())] == [3, 4, 5]
    assert left.numbers is right.numbers
    assert (right.limit, right.numbers.limit) == (4, 7)


def test_kinds_with_numberings_of_their_own_do_not():
    tables = made()
    numbers = [table.numbers for table in tables.tables if table.numbers is not tables.queues]
    assert len({id(one) for one in numbers}) == len(numbers)
    queues = [table.kind for table in tables.tables if table.numbers is tables.queues]
    assert queues == ["dct", "qp", "reserved qpn", "rq", "sq"]


def test_every_kind_of_queue_has_a_turn():
    """Or, where it is but what several classes have in common, each of these has."""
    assert lifecycle  # it makes the modules register their turns
    queues = [of for of in kinds() if issubclass(of, Queue)]
    with_turns = [[of] if of in POLLS else of.__subclasses__() for of in queues]
    assert set(POLLS) == {one for several in with_turns for one in several}
