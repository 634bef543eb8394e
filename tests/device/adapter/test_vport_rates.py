"""Rates of vPorts: the scheduling elements of an embedded switch, as core/esw/qos.c makes them."""

import pytest
from helpers.device.adapters import Member, made_with_switch
from helpers.device.snapshot import snapshot

from emu.device.models import LINKS
from emu.device.models.switching import with_switch
from emu.driver.ethernet.flow_fields import match_beside, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.world.tap_wire import TapWire
from firmware_cmds.objects.scheduling import E_SWITCH, NIC, QUEUE_GROUP, TSAR, VPORT
from layouts.enums import Op, PortType, Status
from layouts.eth_enums import FlowTableType

MODEL = with_switch(LINKS["connectx6dx"][PortType.ETH])
FIRST, SECOND, UPLINK = 5, 6, 0xFFFF
MISC = 1 << 1
MS = 1_000_000
SIZE = 1250
"""Bytes of a frame: 10,000 bits."""


class Switch:
    """Two vPorts whose frames go to the cable, with a byte of each that tells whose it is."""

    def __init__(self, clock):
        self.wire, self.clock = TapWire(), clock
        adapter = made_with_switch(self.wire, MODEL)
        self.manager = Member(adapter.manager, clock)
        self.driver = self.manager.driver
        self.members = {number: Member(adapter.add(number), clock) for number in (FIRST, SECOND)}
        fdb = Flows(self.driver, FlowTableType.FDB)
        table = fdb.table(0)
        criteria = match_beside(source_port=0xFFFF)
        group = fdb.group(table, 0, 15, enable=MISC, match_criteria=criteria)
        for number in self.members:
            value = match_beside(source_port=number)
            fdb.entry(table, number, group, to_vport(UPLINK), value=value)
        fdb.set_root(table)

    def queue(self, number, frames):
        """A queue of a vPort with so many frames to send."""
        member = self.members[number]
        region = member.node.region(4096)
        region.write(b"\x02\0\0\0\0\x09" * 2 + b"\x88\xb5" + bytes((number,)))
        tisn = create_tis(member.driver, alloc_td(member.driver))
        cq = CompletionQueue(member.node, log_size=10)
        sq = SendQueue(member.node, tisn=tisn, log_size=10, cq=cq)
        for _ in range(frames):
            sq.send((SIZE, region.key, region.va), ring=False)
        sq.ring_doorbell()
        return sq

    def passed(self, ns):
        """How many frames of each vPort leave within some time."""
        for _ in range(ns // MS):
            for member in self.members.values():
                member.node.settle()
            self.clock.advance(MS)
        numbers = [frame.data[14] for frame in self.wire.sent()]
        return [numbers.count(number) for number in self.members]

    def element(self, element_type=TSAR, parent=0, **ctx):
        fields = {"element_type": element_type, "parent_element_id": parent, **ctx}
        return self.driver.must(
            Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH, scheduling_context=fields
        ).scheduling_element_id

    def vport(self, number, parent, mbps=0, share=0):
        return self.element(
            VPORT, parent, element_attributes=number, max_average_bw=mbps, bw_share=share
        )

    def modify(self, element, mbps):
        self.driver.must(
            Op.MODIFY_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
            scheduling_element_id=element, modify_bitmask=2,
            scheduling_context={"max_average_bw": mbps},
        )  # fmt: skip

    def destroy(self, element):
        self.driver.must(
            Op.DESTROY_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
            scheduling_element_id=element,
        )  # fmt: skip


@pytest.fixture
def switch(clock):
    return Switch(clock)


@pytest.fixture
def root(switch):
    return switch.element()


@pytest.fixture
def refused(switch):
    def check(status, op, **fields):
        before = snapshot(switch.manager.hca)
        assert switch.driver.command(op, **fields).status == status
        assert snapshot(switch.manager.hca) == before

    return check


def test_a_vports_queues_share_its_rate(switch, root):
    switch.vport(FIRST, root, mbps=10)
    for _ in range(2):
        switch.queue(FIRST, 200)
    switch.queue(SECOND, 300)
    first, second = switch.passed(100 * MS)
    assert 98 <= first <= 104
    assert second == 300


def test_queues_that_were_there_before(switch, root):
    element = switch.vport(FIRST, root)
    switch.queue(FIRST, 600)
    switch.modify(element, 10)
    assert 98 <= switch.passed(100 * MS)[0] <= 104
    switch.modify(element, 20)
    assert 198 <= switch.passed(100 * MS)[0] <= 204
    switch.destroy(element)
    assert switch.passed(10 * MS)[0] >= 250


def test_a_group_shares_its_rate_by_weight(switch, root):
    group = switch.element(parent=root, max_average_bw=20)
    for number, share in ((FIRST, 30), (SECOND, 10)):
        switch.vport(number, group, share=share)
        switch.queue(number, 900)
    first, second = switch.passed(400 * MS)
    assert 795 <= first + second <= 805
    assert 2 < first / second < 4


def test_the_managers_own_queues_are_not_of_these(switch, root):
    switch.vport(FIRST, root, mbps=1)
    assert SendQueue(switch.manager.node).object.pacing is None


def test_what_is_below_goes_first(switch, root, refused):
    vport = switch.vport(FIRST, root)
    held = {"scheduling_hierarchy": E_SWITCH, "scheduling_element_id": root}
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_SCHEDULING_ELEMENT, **held)
    switch.destroy(vport)
    switch.destroy(root)
    assert not len(switch.manager.hca.scheduling_elements)


@pytest.mark.parametrize(
    ("ctx", "status"),
    [
        ({"element_type": QUEUE_GROUP}, Status.BAD_PARAM_ERR),
        ({"element_attributes": 9}, Status.BAD_PARAM_ERR),
        ({"element_attributes": SECOND}, Status.BAD_PARAM_ERR),
        ({"bw_share": 101}, Status.BAD_PARAM_ERR),
        ({"parent_element_id": 99}, Status.BAD_RES_ERR),
    ],
    ids=["type", "no vport", "it has one", "share", "parent"],
)
def test_what_is_refused(switch, root, refused, ctx, status):
    switch.vport(SECOND, root)
    fields = {"element_type": VPORT, "parent_element_id": root, "element_attributes": FIRST} | ctx
    refused(
        status, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context=fields,
    )  # fmt: skip


def test_nothing_is_below_a_vport(switch, root, refused):
    vport = switch.vport(FIRST, root)
    fields = {"element_type": TSAR, "parent_element_id": vport}
    refused(
        Status.BAD_PARAM_ERR, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context=fields,
    )  # fmt: skip


def test_a_tree_is_as_deep_as_advertised(switch, root, refused):
    depth = 1 << switch.manager.hca.caps.qos.log_esw_max_sched_depth
    last = root
    for _ in range(depth - 1):
        last = switch.element(parent=last)
    fields = {"element_type": TSAR, "parent_element_id": last}
    refused(
        Status.LIM_ERR, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context=fields,
    )  # fmt: skip


def test_the_trees_are_apart(switch, root, refused):
    """An element is named with the hierarchy that it is in."""
    about = {"scheduling_hierarchy": NIC, "scheduling_element_id": root}
    for op in (
        Op.MODIFY_SCHEDULING_ELEMENT, Op.QUERY_SCHEDULING_ELEMENT, Op.DESTROY_SCHEDULING_ELEMENT,
    ):  # fmt: skip
        refused(Status.BAD_RES_ERR, op, **about)
    fields = {"element_type": QUEUE_GROUP, "parent_element_id": root}
    refused(
        Status.BAD_RES_ERR, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC,
        scheduling_context=fields,
    )  # fmt: skip


def test_a_function_without_a_switch_has_no_such_tree(switch):
    answer = switch.members[FIRST].driver.command(
        Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context={"element_type": TSAR},
    )  # fmt: skip
    assert answer.status != Status.OK
