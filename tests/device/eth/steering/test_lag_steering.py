"""Frames that come by a LAG's second port: the master's tables first, up to where ports differ."""

from struct import pack

import pytest
from helpers.device.boards import Bonded

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_table, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.sniffer import Sniffer
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction

USER, OTHER, IPV4, CONTROL = 0x88B5, 0x88B6, 0x0800, 0x8808
"""EtherTypes: what the user's rule is for, and what it is not for."""
TCP = 6


class Receiver:
    """A receive queue behind an entry."""

    def __init__(self, node):
        self.node = node
        self.rq = ReceiveQueue(node)
        self.buffers = Buffers(self.rq)
        self.to = to_tir(create_direct_tir(node.driver, alloc_td(node.driver), self.rq.rqn))

    def count(self):
        return len(self.buffers.drain())


class Ends:
    """Both functions have a table that takes all; the master has a user's rule before it."""

    def __init__(self, clock):
        self.bonded = Bonded(clock)
        self.bonded.make_lag()
        self.receivers = []
        for node in (self.bonded.master, self.bonded.second):
            flows, receiver = Flows(node.driver), Receiver(node)
            table = flows.table(9)
            flows.entry(table, 0, flows.group(table, 0, 0), receiver.to)
            flows.set_root(table)
            self.receivers.append(receiver)
            if node is self.bonded.master:
                self.flows, self.last = flows, table
        self.user = Receiver(self.bonded.master)
        self.receivers.append(self.user)

    def demux(self):
        context = {"level": 8, "lag_master_next_table_id": self.last}
        return self.bonded.master.driver.must(
            Op.CREATE_FLOW_TABLE, op_mod=1, table_type=FlowTableType.NIC_RX,
            flow_table_context=context,
        ).table_id  # fmt: skip

    def rule(self, miss, *to, kind=USER, **options):
        """The user's rule, and where other frames go."""
        self.table = self.flows.table(1, miss=miss)
        group = self.flows.group(self.table, 0, 0, ethertype=0xFFFF)
        self.flows.entry(self.table, 0, group, *to, ethertype=kind, **options)
        self.flows.set_root(self.table)

    def arrives(self, frame, port=2):
        """How many frames come to the master's own queue, the second's, and the user's."""
        self.bonded.functions[port - 1].hca.switch.receive(frame)
        for node in (self.bonded.master, self.bonded.second):
            node.settle()
        return [receiver.count() for receiver in self.receivers]


def frame(kind):
    return Frame(b"\xff" * 6 + b"\x02" + bytes(5) + kind.to_bytes(2, "big") + bytes(50))


@pytest.fixture
def ends(clock):
    found = Ends(clock)
    found.rule(found.demux(), found.user.to)
    return found


def test_a_rule_holds_for_both_ports(ends):
    assert ends.arrives(frame(USER), 1) == [0, 0, 1]
    assert ends.arrives(frame(USER), 2) == [0, 0, 1]
    counted = [function.adapter.port_traffic()[1].packets for function in ends.bonded.functions[:2]]
    assert counted == [1, 1]


def test_others_go_to_the_ports_own_function(ends):
    assert ends.arrives(frame(OTHER), 1) == [1, 0, 0]
    assert ends.arrives(frame(OTHER), 2) == [0, 1, 0]
    assert ends.bonded.passed() == [(0, 0), (0, 0)]


@pytest.mark.parametrize(("kind", "wanted"), [(IPV4, [0, 0, 3]), (USER, [0, 3, 0])])
def test_a_super_frame_too(clock, kind, wanted):
    ends = Ends(clock)
    ends.rule(ends.demux(), ends.user.to, kind=kind)
    large = Frame(EthPacket(payload=bytes(3000), protocol=TCP).frame(), gso_size=1000, checked=True)
    assert ends.arrives(large) == wanted
    assert ends.bonded.functions[1].adapter.port_traffic()[1].packets == 3


@pytest.mark.parametrize("port", [1, 2])
def test_the_masters_parser_finds_the_tunnel(clock, port):
    """The rule is for packets in VXLAN, on a port that only the master's driver has added."""
    ends = Ends(clock)
    ends.bonded.master.driver.must(Op.ADD_VXLAN_UDP_DPORT, vxlan_udp_port=8472)
    table = ends.flows.table(1, miss=ends.demux())
    group = ends.flows.group(table, 0, 0, inner={"ip_version": 0xF})
    ends.flows.entry(table, 0, group, ends.user.to, inner={"ip_version": 4})
    ends.flows.set_root(table)
    inner = EthPacket(payload=bytes(50)).frame()
    outer = EthPacket(
        protocol=UDP, ports=pack(">HH", 50000, 8472), payload=pack(">II", 8 << 24, 0) + inner
    )
    assert ends.arrives(Frame(outer.frame()), port) == [0, 0, 1]
    assert ends.arrives(Frame(inner), port) == ([1, 0, 0] if port == 1 else [0, 1, 0])


@pytest.mark.parametrize("port", [1, 2])
def test_a_sniffer_of_the_master_sees_what_it_takes(clock, port):
    ends = Ends(clock)
    ends.rule(ends.demux(), ends.user.to, kind=IPV4)
    sniffer = Sniffer(ends.bonded.master)
    large = Frame(EthPacket(payload=bytes(3000), protocol=TCP).frame(), gso_size=1000, checked=True)
    ends.arrives(large, port)
    assert len(sniffer.frames()) == 3
    small = EthPacket().frame()
    ends.arrives(Frame(small), port)
    assert sniffer.frames() == [small]


@pytest.mark.hostile
def test_a_super_frame_that_cannot_be_cut(ends):
    large = Frame(
        EthPacket(payload=bytes(3000), protocol=0x77).frame(), gso_size=1000, checked=True
    )
    assert ends.arrives(large) == [0, 0, 0]
    assert ends.bonded.second.hca.nic_vport.received.errors == 1


@pytest.mark.hostile
def test_a_super_frame_beyond_the_ports_mtu(clock):
    ends = Ends(clock)
    ends.rule(ends.demux(), ends.user.to, kind=IPV4)
    ends.bonded.second.hca.eth.admin_mtu = 900
    large = Frame(EthPacket(payload=bytes(3000), protocol=TCP).frame(), gso_size=1000, checked=True)
    assert ends.arrives(large) == [0, 0, 0]
    assert ends.bonded.second.hca.nic_vport.received.too_long == 3


@pytest.mark.hostile
def test_no_rule_takes_pause_frames(clock):
    ends = Ends(clock)
    ends.rule(ends.demux(), ends.user.to, kind=CONTROL)
    pause = Frame(bytes.fromhex("0180c2000001") + bytes(6) + b"\x88\x08\x00\x01" + bytes(50))
    assert ends.arrives(pause) == [0, 0, 0]


def test_a_rule_that_leads_on_as_well(clock):
    """What the master takes does not come to the port's own function."""
    ends = Ends(clock)
    demux = ends.demux()
    ends.rule(demux, ends.user.to, to_table(demux))
    assert ends.arrives(frame(USER)) == [0, 0, 1]


def test_a_rule_may_drop(clock):
    ends = Ends(clock)
    ends.rule(ends.demux(), action=FlowAction.DROP)
    assert ends.arrives(frame(USER)) == [0, 0, 0]
    assert ends.arrives(frame(OTHER)) == [0, 1, 0]


@pytest.mark.parametrize("how", ["no demux", "no LAG of vPorts", "demux gone"])
def test_without_the_table_or_the_lag_each_has_its_own(clock, how):
    ends = Ends(clock)
    if how == "no demux":
        ends.rule(ends.last, ends.user.to)
    else:
        demux = ends.demux()
        ends.rule(demux, ends.user.to)
        if how == "demux gone":
            fields = {"table_type": FlowTableType.NIC_RX, "table_id": demux}
            ends.flows.set_miss(ends.table, ends.last)
            ends.bonded.master.driver.must(Op.DESTROY_FLOW_TABLE, **fields)
        else:
            ends.bonded.master.driver.must(Op.DESTROY_VPORT_LAG)
    assert ends.arrives(frame(USER)) == [0, 1, 0]


def test_a_root_that_tells_the_ports_apart_leaves_all(clock):
    ends = Ends(clock)
    ends.flows.set_root(ends.demux())
    assert ends.arrives(frame(USER), 1) == [1, 0, 0]
    assert ends.arrives(frame(USER), 2) == [0, 1, 0]


@pytest.mark.hostile
@pytest.mark.parametrize("what", ["too long", "port down", "too short", "pause"])
def test_what_no_table_sees(ends, what):
    one, hca = frame(USER), ends.bonded.second.hca
    if what == "too long":
        hca.eth.admin_mtu = 60
    elif what == "port down":
        set_link(hca, up=False)
    elif what == "too short":
        one = Frame(one.data[:5])
    else:
        one = Frame(bytes.fromhex("0180c2000001") + bytes(6) + b"\x88\x08\x00\x01" + bytes(50))
    assert ends.arrives(one) == [0, 0, 0]


@pytest.mark.hostile
def test_frames_that_wait_end_with_the_master(ends):
    ends.bonded.functions[1].hca.switch.receive(frame(USER))
    assert len(ends.bonded.master.hca.backlogs.rx) == 1
    ends.bonded.functions[0].reset()
    ends.bonded.second.settle()
    assert ends.bonded.functions[0].hca.nic_vport.received.packets == 0
