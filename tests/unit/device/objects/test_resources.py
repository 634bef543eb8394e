"""Tables of objects: handles, bounds, references."""

import pytest
from helpers.pure import pure_only
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.errors import CmdError
from emu.device.objects import table as table_module
from emu.device.objects.ledger import Ledger
from emu.device.objects.object import DRIVER_UID, SHARED_UID, CommandIssuer, Object, holding
from emu.device.objects.table import MAX_QUEUED, Numbers, Table
from layouts.enums.cmd import Status

pure_only("its objects are of a class of its own")

PLENTY = 1 << 30


class Thing(Object):
    """Holds whatever it is given."""

    __slots__ = ("_held", "size")
    kind = "thing"

    @property
    def host_bytes(self):
        return self.size

    def __init__(self, *held):
        super().__init__()
        self._held = held
        self.size = 100

    def holds(self):
        return self._held


def refused(status, call, *arguments):
    with pytest.raises(CmdError) as caught:
        call(*arguments)
    assert caught.value.status == status
    return str(caught.value)


@pytest.fixture
def table():
    return Table(Thing, 3, 6, Ledger(PLENTY))


class TestLedger:
    def test_takes_up_to_the_last_byte(self):
        ledger = Ledger(10)
        ledger.take("room", 7)
        said = refused(Status.LIM_ERR, ledger.take, "hall", 4)
        assert said == "no host memory left for this function (hall: 4 bytes wanted, 3 left)"
        assert ledger.accounts == {"room": 7}
        ledger.take("hall", 3)
        ledger.give_back("room", 7)
        assert (ledger.used, ledger.accounts) == (3, {"hall": 3})
        ledger.close("hall")
        assert (ledger.used, ledger.accounts) == (0, {})

    def test_what_cannot_be_refused_counts_for_all_others(self):
        ledger = Ledger(10)
        with ledger.at_work(11):
            refused(Status.LIM_ERR, ledger.take, "room", 0)
        ledger.take("room", 10)

    def test_an_object_costs_from_add_to_remove(self):
        ledger = Ledger(250)
        table = Table(Thing, 1, 10, ledger)
        handles = [table.add(Thing()) for _ in range(2)]
        left_out = Thing(table.get(handles[0]))
        refused(Status.LIM_ERR, table.add, left_out)
        assert (len(table), ledger.accounts) == (2, {"thing": 200})
        assert table.get(handles[0]).refs == 0
        table.remove(handles[0])
        assert ledger.used == 100

    def test_an_object_that_changes(self):
        ledger = Ledger(250)
        table = Table(Thing, 1, 10, ledger)
        thing = Thing()
        handle = table.add(thing)
        thing.size = 30
        table.recharge(thing)
        assert ledger.used == 30
        table.remove(handle)
        assert ledger.used == 0


def test_what_is_being_used_stays(table):
    thing = Thing()
    handle = table.add(thing)
    with holding(thing, None):
        refused(Status.BAD_RES_STATE_ERR, table.remove, handle)
    table.remove(handle)


def test_handles_count_up_from_the_first(table):
    things = [Thing() for _ in range(3)]
    assert [table.add(thing) for thing in things] == [3, 4, 5]
    assert [thing.handle for thing in things] == [3, 4, 5]
    assert list(table) == things
    assert len(table) == 3


def test_empty_table_is_false(table):
    assert not table
    table.add(Thing())
    assert table


def test_full_table(table):
    for _ in range(3):
        table.check_space()
        table.add(Thing())
    assert refused(Status.LIM_ERR, table.check_space) == "out of thing handles (3 live)"
    refused(Status.LIM_ERR, table.add, Thing())
    assert len(table) == 3


@pytest.mark.parametrize(("first", "limit"), [(3, 3), (3, 0)])
def test_table_without_room(first, limit):
    refused(Status.LIM_ERR, Table(Thing, first, limit, Ledger(PLENTY)).add, Thing())


class TestSharedNumbers:
    """Tables of several kinds have one supply of handles, and each a limit of its own."""

    def test_the_tables_own_limit(self):
        table = Table(Thing, 2, 4, Ledger(PLENTY), numbers=Numbers(2, 100))
        for _ in range(2):
            table.check_space()
            table.add(Thing())
        assert refused(Status.LIM_ERR, table.check_space) == "out of thing handles (2 live)"

    def test_handles_that_others_have_taken(self):
        numbers = Numbers(2, 4)
        other, table = (Table(Thing, 2, 4, Ledger(PLENTY), numbers=numbers) for _ in range(2))
        for _ in range(2):
            other.add(Thing())
        assert refused(Status.LIM_ERR, table.check_space) == "out of thing handles (0 live)"


def test_lookup(table):
    thing = Thing()
    handle = table.add(thing)
    assert table.get(handle) is thing
    assert table.need(handle) is thing
    assert table.get(handle + 1) is None
    assert refused(Status.BAD_RES_ERR, table.need, 0x77) == "no such thing (0x77)"


def test_removed_object_is_gone(table):
    thing = Thing()
    handle = table.add(thing)
    assert table.remove(handle) is thing
    assert table.get(handle) is None
    refused(Status.BAD_RES_STATE_ERR, table.remove, handle)


def test_freed_handle_comes_back_last(table):
    """A stale handle stays invalid for as long as possible."""
    for _ in range(2):
        table.add(Thing())
    for handle in (4, 3):
        table.remove(handle)
    assert [table.add(Thing()) for _ in range(3)] == [5, 4, 3]


class TestManyNumbers:
    """What is known of freed numbers does not grow with how many there have ever been."""

    LIMIT = 1 << 18

    @pytest.fixture
    def numbers(self):
        """All have been in use, and all are free."""
        made = Numbers(1, self.LIMIT)
        for _ in range(1, self.LIMIT):
            made.give_back(made.take(None))
        return made

    def test_the_queue_is_bounded(self, numbers):
        assert len(numbers._freed) == MAX_QUEUED

    def test_each_is_given_out_once(self, numbers):
        kept = [numbers.take(None) for _ in range(1000)]
        taken = {numbers.take(None) for _ in range(1, self.LIMIT - 1000)}
        assert taken | set(kept) == set(range(1, self.LIMIT))
        assert not numbers.free
        numbers.give_back(77)
        assert numbers.free
        assert numbers.take(None) == 77

    @settings(max_examples=examples(20), deadline=None)
    @given(st.data())
    def test_no_number_has_two_holders(self, data):
        """With small bounds, so that the queue is full and the numbers run out often."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table_module, "MAX_QUEUED", 3)
            patch.setattr(table_module, "MAX_SEARCHED_NUMBERS", 2)
            numbers, held = Numbers(5, 25), []
            for _ in range(200):
                if held and (not numbers.free or data.draw(st.booleans())):
                    numbers.give_back(held.pop(data.draw(st.integers(0, len(held) - 1))))
                else:
                    number = numbers.take(None)
                    assert number not in held
                    assert 5 <= number < 25
                    held.append(number)
                assert numbers.free == 20 - len(held)


def test_object_that_is_referred_to_stays(table):
    thing = Thing()
    handle = table.add(thing)
    others = Table(Thing, 1, 10, Ledger(PLENTY))
    first, second = Thing(thing), Thing(thing)
    others.add(first)
    others.add(second)
    assert thing.refs == 2
    said = refused(Status.BAD_RES_STATE_ERR, table.remove, handle)
    assert said == "thing is still in use (thing 0x3: 2 references)"
    assert table.get(handle) is thing
    others.remove(first.handle)
    others.remove(second.handle)
    assert thing.refs == 0
    table.remove(handle)


def test_refused_add_counts_no_reference():
    held, full = Thing(), Table(Thing, 1, 1, Ledger(PLENTY))
    refused(Status.LIM_ERR, full.add, Thing(held))
    assert held.refs == 0


def test_object_holds_nothing_and_says_what_it_is():
    thing = Object()
    assert thing.holds() == ()
    thing.handle = 0x12
    assert repr(thing) == "object 0x12"


@given(steps=st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60))
@settings(deadline=None)
def test_any_sequence(steps):
    """None adds, a number removes; a plain dictionary says what has to come out."""
    table, model = Table(Thing, 2, 8, Ledger(PLENTY)), {}
    for step in steps:
        if step is None and len(model) < 6:
            thing = Thing()
            handle = table.add(thing)
            assert handle not in model
            assert 2 <= handle < 8
            model[handle] = thing
        elif step is None:
            refused(Status.LIM_ERR, table.add, Thing())
        elif step in model:
            assert table.remove(step) is model.pop(step)
        else:
            refused(Status.BAD_RES_STATE_ERR, table.remove, step)
        assert {item.handle: item for item in table} == model


class TestOwners:
    """Objects belong to the user context whose command makes them."""

    @pytest.fixture
    def caller(self):
        return CommandIssuer()

    @pytest.fixture
    def table(self, caller):
        return Table(Object, 1, 10, Ledger(PLENTY), caller)

    @pytest.mark.parametrize(
        ("owner", "user", "may_use", "owns"),
        [
            (5, 5, True, True),
            (5, 6, False, False),
            (5, DRIVER_UID, True, True),
            (DRIVER_UID, 5, False, False),
            (SHARED_UID, 5, True, False),
            (SHARED_UID, DRIVER_UID, True, True),
            (DRIVER_UID, SHARED_UID, True, True),
        ],
    )
    def test_who_may_do_what(self, caller, table, owner, user, may_use, owns):
        caller.uid = owner
        handle = table.add(Object())
        caller.uid = user
        for action, allowed, status in (
            (table.need, may_use, Status.BAD_RES_ERR),
            (table.subject, may_use, Status.BAD_RES_STATE_ERR),
            (table.remove, owns, Status.BAD_RES_STATE_ERR),
        ):
            if allowed:
                action(handle)
            else:
                refused(status, action, handle)
