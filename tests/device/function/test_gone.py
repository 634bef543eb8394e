"""What stops is gone: nothing of it acts later, and nothing that goes on refers to it.

A function is reset or torn down while something of it waits, in every case of
``helpers.device.waiting``. The clock, the wire, the other function and the fault rules are then
walked along their references: an object that they lead to could still act. And what the driver has
got back stays as it is, however much time passes. A process that closes destroys its objects one by
one: the same holds then for each of them.
"""

import helpers.device.waiting_frames
import helpers.device.waiting_messages
import helpers.device.waiting_others  # noqa: F401  # they fill CASES
import pytest
from helpers.device.reachable import owned, still_reached
from helpers.device.waiting import CASES, World

from emu.device.objects.eth.flow.table import FlowEntry, FlowGroup, FlowTable
from emu.device.objects.queues.srq import SrqForm
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import TeardownProfile
from layouts.function.odp import mem_page_fault_info, trans_page_fault_info

LATER = (0, 1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 60_000_000_000)
"""Nanoseconds between looks, after each of which everything has had its turns."""


def teardown(node, profile=TeardownProfile.GRACEFUL_CLOSE):
    node.driver.must(Op.TEARDOWN_HCA, profile=profile)


def forced(node):
    teardown(node, TeardownProfile.FORCE_CLOSE)


def crash_kernel(node):
    node.driver.must(Op.ENABLE_HCA)


def reset(node):
    node.function.reset()


def firmware(node):
    node.function.restart("firmware")


RESETS = (reset, firmware)
SOME = ("absent_far_send_of_a_target", "half_arrived_send_RC", "rule_delays_cqe_1")
"""Cases for the ways that have all their work in common with others."""


@pytest.fixture
def world(case, model, clock):
    world = World(model=model, clock=clock)
    CASES[case](world)
    yield world
    world.close()


BOTH_ENDS = pytest.mark.parametrize("number", [0, 1], ids=["left", "right"])


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_waits_has_no_view_of_memory(world):
    """The guest may take its memory away in the middle: a mapping with a view cannot be closed."""
    for node in world.nodes:
        node.function.forget_views()
        mapping = node.memory.ram.obj
        node.memory.ram.release()
        mapping.close()


@BOTH_ENDS
@pytest.mark.parametrize(
    ("end", "case"),
    [(end, case) for end in (teardown, reset) for case in sorted(CASES)]
    + [(end, case) for end in (forced, crash_kernel, firmware) for case in SOME],
)
def test_nothing_leads_to_it(world, end, number):
    node, other = world.nodes[number], world.nodes[1 - number]
    old = node.hca
    gone = owned(old, other.hca)
    assert gone
    if end in RESETS:
        gone.append(old)
    end(node)
    while node.function.deferred_free:
        node.function.deferred_free.free_some()
    assert still_reached(world.roots, gone) == []
    assert not old.page_faults.open()
    assert not old.ledger.accounts.get("page fault", 0)
    assert not old.ledger.accounts.get("held packets", 0)
    before = node.memory.contents()
    for step in LATER:
        world.clock.advance(step)
        other.settle()
    assert node.memory.contents() == before
    assert not other.hca.health.internal_errors


STEERING = [
    (Op.DELETE_FLOW_TABLE_ENTRY, "flow_index", "flow_entries", None),
    (Op.DESTROY_FLOW_GROUP, "group_id", "flow_groups", None),
    (Op.DESTROY_FLOW_TABLE, "table_id", "flow_tables", None),
    (Op.DESTROY_TIR, "tirn", "tirs", None),
    (Op.DESTROY_RQT, "rqtn", "rqts", None),
]
MKEY = [(Op.DESTROY_MKEY, "mkey_index", "mkeys", None)]
QUEUES = [
    (Op.DESTROY_QP, "qpn", "qps", None),
    (Op.DESTROY_DCT, "dctn", "dcts", None),
    (Op.DESTROY_SQ, "sqn", "sqs", None),
    (Op.DESTROY_RQ, "rqn", "rqs", None),
    (Op.DESTROY_RMP, "rmpn", "srqs", SrqForm.RMP),
    (Op.DESTROY_XRQ, "xrqn", "srqs", SrqForm.XRQ),
    (Op.DESTROY_XRC_SRQ, "xrc_srqn", "srqs", SrqForm.XRC_SRQ),
    (Op.DESTROY_SRQ, "srqn", "srqs", SrqForm.SRQ),
    (Op.DESTROY_CQ, "cqn", "cqs", None),
]
DOMAINS = [
    (Op.DESTROY_TIS, "tisn", "tises", None),
    (Op.DEALLOC_TRANSPORT_DOMAIN, "transport_domain", "tds", None),
    (Op.DEALLOC_XRCD, "xrcd", "xrcds", None),
    (Op.DEALLOC_PD, "pd", "pds", None),
    (Op.DESTROY_EQ, "eq_number", "eqs", None),
]
ORDERS = {
    "keys first": STEERING + MKEY + QUEUES + DOMAINS,
    "keys last": STEERING + QUEUES + MKEY + DOMAINS,
}


def named(item, name):
    """The fields by which a command names an object; in a flow table by the table's, too."""
    if isinstance(item, FlowTable):
        return {name: item.handle, "table_type": item.table_type}
    if isinstance(item, FlowEntry):
        return {name: item.index} | named(item.group.table, "table_id")
    return {name: item.handle} | (
        named(item.table, "table_id") if isinstance(item, FlowGroup) else {}
    )


def resume(node, token, is_memory):
    """PAGE_FAULT_RESUME with an error, long after the page fault."""
    if is_memory:
        info = mem_page_fault_info.new(error=1, fault_token_31_0=token)
    else:
        info = trans_page_fault_info.new(error=1, fault_token=token)
    return node.driver.command(Op.PAGE_FAULT_RESUME, page_fault_info=bytes(info)).status


@BOTH_ENDS
@pytest.mark.parametrize(
    ("order", "case"),
    [("keys last", case) for case in sorted(CASES) if not case.startswith("rule")]
    + [("keys first", case) for case in sorted(CASES) if case.startswith("absent")],
)
def test_objects_of_a_process_that_closes(world, order, number):
    """A rule may hold back what is about an object, and looks for it then.

    A frame that waits in the function's own line may name a queue that is gone; it fills nothing.
    """
    node, other = world.nodes[number], world.nodes[1 - number]
    hca = node.hca
    tokens = [(fault.token, fault.is_memory) for fault in hca.page_faults.open()]
    for op, name, table, form in ORDERS[order]:
        gone = [
            item for item in getattr(hca, table) if form is None or item.form is form
        ]  # fmt: skip
        for item in gone:
            node.driver.must(op, **named(item, name))
        assert still_reached(world.roots, gone, [hca.backlogs.rx]) == []
    assert not hca.page_faults.open()
    for token in tokens:
        assert resume(node, *token) in (Status.OK, Status.BAD_RES_ERR)
    before = node.memory.contents()
    for step in LATER:
        world.clock.advance(step)
        other.settle()
        node.function.run()
    assert node.memory.contents() == before
    assert not hca.ledger.accounts.get("page fault", 0)
    assert not other.hca.health.internal_errors
