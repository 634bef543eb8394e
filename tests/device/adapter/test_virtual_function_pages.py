"""Firmware pages of virtual functions, which the physical function's driver gives and takes back
(core/pagealloc.c: req_pages_handler)."""

import pytest
from helpers.device.adapters import Member, made
from helpers.device.snapshot import snapshot

from emu.device.port.eth.no_wire import NoWire
from emu.device.state.hca import HcaState
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.command.words import pack64
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType
from layouts.enums.hca import BootPages, PageOp
from layouts.rings.eqe import eqe_page_req

VF, WANTED = 2, 3
INITIALIZING = 0x1FC


class Pages:
    """A physical function whose driver handles the requests for a virtual one."""

    def __init__(self, clock):
        adapter = made(NoWire())
        self.pf = Member(adapter.manager, clock)
        self.driver = self.pf.driver
        self.eqn = self.driver.create_eq(events=[EventType.PAGE_REQUEST])
        adapter.add(1)
        self.vf = Member(adapter.add(VF), clock, boot_pages=WANTED)

    def requests(self):
        """The function and the number of pages of each new event."""
        events = [
            eqe_page_req.view(bytearray(entry.data)) for entry in self.driver.eqs[self.eqn].drain()
        ]
        return [(event.func_id, (event.num_pages ^ 1 << 31) - (1 << 31)) for event in events]

    def give(self, pages, function_id=VF):
        return self.driver.command(
            Op.MANAGE_PAGES, op_mod=PageOp.GIVE, function_id=function_id,
            input_num_entries=len(pages), extra=pack64(pages),
        )  # fmt: skip

    def take(self, count=8, function_id=VF):
        answer = self.driver.must(
            Op.MANAGE_PAGES, op_mod=PageOp.TAKE, function_id=function_id,
            input_num_entries=count, out_extra=8 * count,
        )  # fmt: skip
        return sorted([*answer.pas][: answer.output_num_entries])

    def new(self, count=WANTED):
        return [self.driver.memory.alloc(4096) for _ in range(count)]

    @property
    def is_initializing(self):
        return bool(self.vf.function.bar_read(0, INITIALIZING, 4)[0] >> 7)


@pytest.fixture
def pages(clock):
    return Pages(clock)


def test_pages_are_requested_and_given_before_the_driver_starts(pages):
    assert pages.requests() == [(VF, WANTED)]
    assert pages.is_initializing
    first, *rest = given = pages.new()
    assert pages.give([first]).status == Status.OK
    assert pages.is_initializing
    assert pages.give(rest).status == Status.OK
    assert not pages.is_initializing
    pages.vf.probe()
    assert pages.vf.driver.must(Op.QUERY_PAGES, op_mod=BootPages.BOOT).num_pages == 0
    assert pages.take() == [], "they are in use"
    pages.driver.must(Op.DISABLE_HCA, function_id=VF)
    assert pages.requests() == [(VF, -WANTED)]
    assert pages.take() == sorted(given)
    assert pages.take() == []


def test_a_driver_that_does_not_wait_is_refused(pages):
    pages.driver.must(Op.DISABLE_HCA, function_id=VF)
    pages.vf.driver.set_queue()
    pages.driver.must(Op.ENABLE_HCA, function_id=VF)
    assert pages.vf.driver.command(Op.ENABLE_HCA).status == Status.BAD_SYS_STATE_ERR
    pages.give(pages.new())
    pages.vf.driver.must(Op.ENABLE_HCA)


def test_a_physical_function_that_has_none_to_give(pages):
    cant = {"op_mod": PageOp.CANT_GIVE, "function_id": VF}
    for _ in range(2):
        pages.driver.must(Op.MANAGE_PAGES, **cant)
        assert not pages.is_initializing
        pages.vf.driver.attach()
        assert pages.vf.driver.command(Op.ENABLE_HCA).status == Status.NO_RES_ERR
    pages.driver.must(Op.DISABLE_HCA, function_id=VF)
    pages.driver.must(Op.ENABLE_HCA, function_id=VF)
    assert pages.requests() == [(VF, WANTED)] * 2
    pages.driver.must(Op.MANAGE_PAGES, **cant)
    assert pages.give(pages.new()).status == Status.OK, "after all"
    pages.vf.probe()


def test_pages_that_come_too_late_stay_the_drivers(pages):
    pages.driver.must(Op.DISABLE_HCA, function_id=VF)
    given = pages.new()
    assert pages.give(given).status == Status.BAD_RES_STATE_ERR
    assert pages.take() == []
    pages.driver.must(Op.ENABLE_HCA, function_id=VF)
    assert pages.give(given).status == Status.OK


def test_pages_that_come_in_part_are_returned(pages):
    given = pages.new(2)
    pages.give(given)
    pages.driver.must(Op.DISABLE_HCA, function_id=VF)
    assert pages.requests() == [(VF, WANTED), (VF, -2)]
    assert pages.take() == given
    pages.driver.must(Op.DISABLE_HCA, function_id=VF)
    assert pages.requests() == [], "nothing is left"


def test_more_pages_than_are_in_use_can_be_taken_back(pages):
    pages.give(pages.new(WANTED + 2))
    assert len(pages.take()) == 2
    pages.vf.probe()


def test_pages_stay_over_resets_of_the_virtual_function(pages):
    pages.give(pages.new())
    pages.vf.probe()
    pages.vf.function.reset()
    driver = Driver(FunctionBar(pages.vf.function), pages.vf.memory, pages.vf.driver.irqs)
    assert not pages.is_initializing
    driver.probe(is_vf=True)
    pages.driver.must(Op.ENABLE_HCA, function_id=VF)
    assert pages.requests() == [(VF, WANTED)], "it has them"


def test_a_page_is_given_once_for_all_functions(pages):
    page, own = pages.new(2)
    pages.give([page])
    pages.give([own], function_id=0)
    before = snapshot(pages.pf.hca)
    for taken, function_id in ((page, VF), (page, 0), (own, VF)):
        answer = pages.give([*pages.new(1), taken], function_id)
        assert answer.status == Status.BAD_PARAM_ERR
    assert snapshot(pages.pf.hca) == before
    assert pages.take() == []
    assert pages.take(function_id=0) == [own]


def test_teardown_returns_all(pages):
    """The driver takes back the pages of all functions (mlx5_reclaim_startup_pages)."""
    given = pages.new()
    pages.give(given)
    pages.vf.probe()
    pages.driver.must(Op.TEARDOWN_HCA)
    assert pages.vf.hca.state is HcaState.DISABLED
    assert pages.take() == given
    assert not pages.pf.hca.ledger.accounts.get("firmware page")


def test_a_shutdown_forgets_all(pages):
    pages.give(pages.new())
    pages.driver.must(Op.TEARDOWN_HCA, profile=1)
    pages.driver.must(Op.ENABLE_HCA)
    assert pages.take() == []
    assert not pages.pf.hca.ledger.accounts.get("firmware page")


@pytest.mark.hostile
@pytest.mark.parametrize("op_mod", [PageOp.GIVE, PageOp.TAKE, PageOp.CANT_GIVE])
@pytest.mark.parametrize("function_id", [0xFFFF, VF + 1, 1])
def test_functions_without_pages(pages, op_mod, function_id):
    """The first virtual function has no power here."""
    before = snapshot(pages.pf.hca)
    answer = pages.driver.command(
        Op.MANAGE_PAGES, op_mod=op_mod, function_id=function_id, input_num_entries=1,
        extra=pack64(pages.new(1)), out_extra=8,
    )  # fmt: skip
    assert answer.status == Status.BAD_PARAM_ERR
    assert snapshot(pages.pf.hca) == before


@pytest.mark.hostile
def test_a_virtual_function_reaches_no_pages_of_others(pages):
    pages.give(pages.new())
    pages.vf.probe()
    before = snapshot(pages.pf.hca)
    for function_id in (0, 1, VF):
        answer = pages.vf.driver.command(
            Op.MANAGE_PAGES, op_mod=PageOp.TAKE, function_id=function_id, input_num_entries=8,
            out_extra=64,
        )  # fmt: skip
        if function_id:
            assert answer.status == Status.BAD_PARAM_ERR
        else:
            assert answer.output_num_entries == 0
    assert snapshot(pages.pf.hca) == before
