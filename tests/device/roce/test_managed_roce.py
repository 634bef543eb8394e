"""RoCE and pause frames of virtual functions, whose vPorts the switch's manager sets."""

import pytest
from helpers.device.adapters import Member, made_with_switch

from emu.driver.ethernet.flow_fields import match_misc, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.nodes.roce import RoceNode
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import set_link
from emu.driver.world.tap_wire import TapWire
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpType
from layouts.enums.vport import VportAdminState, VportStateOpMod

UPLINK = 0xFFFF
PAUSE = bytes.fromhex("0180c2000001 020000000001 8808 0001 ffff").ljust(60, b"\0")


class Pair:
    """Two virtual functions whose frames go to each other, but those of ``to`` elsewhere."""

    def __init__(self, clock):
        self.wire = TapWire()
        adapter = made_with_switch(self.wire)
        places = (adapter.manager, adapter.add(1), adapter.add(2))
        self.manager, *self.members = (Member(place, clock) for place in places)
        self.nodes = [RoceNode(one.function, one.driver) for one in self.members]
        self.lead(2, 1)

    def lead(self, *to):
        """Let frames of vPorts 1 and 2 go to these vPorts."""
        fdb = Flows(self.manager.driver, FlowTableType.FDB)
        table = fdb.table(0)
        group = fdb.group(table, 0, 3, enable=2, match_criteria=match_misc(source_port=0xFFFF))
        for number, vport in enumerate(to):
            value = match_misc(source_port=1 + number)
            fdb.entry(table, number, group, to_vport(vport), value=value)
        fdb.set_root(table)

    def set_state(self, state, number):
        fields = {"other_vport": 1, "vport_number": number, "admin_state": state}
        self.manager.driver.must(Op.MODIFY_VPORT_STATE, op_mod=VportStateOpMod.ESW_VPORT, **fields)


@pytest.fixture
def pair(clock):
    return Pair(clock)


def test_a_vport_that_is_down_sends_and_receives_no_roce(pair):
    channel = Channel(QpType.UC, *pair.nodes)
    source, target = channel.left.region(5), channel.right.region(5)
    for number, (state, vport) in enumerate(
        [("AUTO", 1), ("DOWN", 1), ("AUTO", 1), ("DOWN", 2), ("UP", 2)]
    ):
        pair.set_state(VportAdminState[state], vport)
        source.write(text := b"data%d" % number)
        channel.write((target.key, target.va), source.sge())
        channel.settle()
        assert (target.read() == text) == (state != "DOWN")


def test_vports_that_are_up_reach_each_other_without_the_cable(pair):
    set_link(pair.manager.hca, up=False)
    assert not any(member.hca.link.is_up for member in pair.members)
    for number in (1, 2):
        pair.set_state(VportAdminState.UP, number)
    channel = Channel(QpType.RC, *pair.nodes)
    source, target = channel.left.region(5), channel.right.region(5)
    source.write(b"hello")
    channel.write((target.key, target.va), source.sge())
    channel.settle()
    assert target.read() == b"hello"


@pytest.mark.hostile
@pytest.mark.parametrize("to", [2, UPLINK])
def test_pause_frames_of_a_function_are_not_those_of_the_cable(pair, to):
    pair.lead(to)
    member = pair.members[0]
    sq = SendQueue(member.node, tisn=create_tis(member.driver, alloc_td(member.driver)))
    sq.send(PAUSE)
    member.node.settle()
    flow = pair.manager.hca.eth.flow
    assert (flow.received.control, flow.received.global_) == (0, 0)
    assert flow.sent.control == len(pair.wire.sent()) == (to == UPLINK)
