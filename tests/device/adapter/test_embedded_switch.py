"""The embedded switch: tables between vPorts and the cable, as its manager's driver makes them."""

import pytest
from helpers.device.adapters import Member, made_with_switch
from helpers.device.snapshot import snapshot

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.models import LINKS
from emu.device.models.switching import with_switch
from emu.device.port.eth.frame import Frame
from emu.device.rounds.backlog import MAX_WAITING
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    group_fields,
    match_misc,
    set_field,
    table_fields,
    to_table,
    to_tir,
    to_vport,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.hairpin import HairpinPair
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.nodes.roce import ipv4, set_address
from emu.driver.world.cable import arrive, set_link
from emu.driver.world.interrupts import IrqList
from emu.driver.world.tap_wire import TapWire
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction, FlowSource
from layouts.enums.modify_header import ModifyField
from layouts.enums.roce import RoceL3Type, RoceVersion
from layouts.enums.vport import VportAdminState

MANAGER, VPORT, UPLINK = 0, 5, 0xFFFF
INITIALIZING = 0x1FC
OTHER = {"other_vport": 1, "vport_number": VPORT}
MISC, MISC_2 = 1 << 1, 1 << 3
FDB, INGRESS, EGRESS = (
    FlowTableType.FDB, FlowTableType.ESW_INGRESS_ACL, FlowTableType.ESW_EGRESS_ACL,
)  # fmt: skip
FRAME = EthPacket(payload=b"through the switch").frame()
PAUSE = bytes.fromhex("0180c2000001 020000000001 8808 0001 ffff".replace(" ", "")).ljust(60, b"\0")


class Receiver:
    """What a function receives at the root of its NIC_RX tables."""

    def __init__(self, member):
        self.rq = ReceiveQueue(member.node)
        self.buffers = Buffers(self.rq)
        tir = create_direct_tir(member.driver, alloc_td(member.driver), self.rq.rqn)
        self.flows = Flows(member.driver)
        self.table = self.flows.table(1)
        self.flows.set_root(self.table)
        self.to = to_tir(tir)


@pytest.fixture
def wire():
    return TapWire()


@pytest.fixture
def adapter(wire):
    return made_with_switch(wire)


@pytest.fixture
def members(adapter, clock):
    return [Member(place, clock) for place in (adapter.manager, adapter.add(VPORT))]


@pytest.fixture
def manager(members):
    return members[0]


@pytest.fixture
def other(members):
    return members[1]


@pytest.fixture
def fdb(manager):
    return Flows(manager.driver, FDB)


def sender(member):
    return SendQueue(member.node, tisn=create_tis(member.driver, alloc_td(member.driver)))


def send(member, sq, frame=FRAME):
    sq.send(frame)
    member.node.settle()


def received(member):
    """Frames that have come to a function's vPort."""
    return member.hca.nic_vport.received.packets


def by_source(fdb, *ways, level=0):
    """An FDB whose entries match the vPort that a packet comes from."""
    table = fdb.table(level)
    criteria = match_misc(source_port=0xFFFF)
    group = fdb.group(table, 0, 15, enable=MISC, match_criteria=criteria)
    for index, (source, *to) in enumerate(ways):
        fdb.entry(table, index, group, *to, value=match_misc(source_port=source))
    fdb.set_root(table)
    return table


def test_without_tables_the_manager_has_the_cable(members, manager, other, wire):
    for member in members:
        send(member, sender(member))
    assert [frame.data for frame in wire.sent()] == [FRAME]
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [1, 0]


def test_a_packet_goes_where_its_source_says(members, manager, other, wire, fdb):
    to_cable = to_vport(UPLINK, vhca=0)
    by_source(fdb, (MANAGER, to_vport(VPORT)), (VPORT, to_cable), (UPLINK, to_vport(VPORT)))
    send(manager, sender(manager))
    assert [received(member) for member in members] == [0, 1]
    send(other, sender(other))
    assert [frame.data for frame in wire.sent()] == [FRAME]
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [0, 2]


def test_what_no_entry_matches_passes_between_vports_and_the_cable(
    members, manager, other, wire, fdb
):
    """What vPorts send leaves by the cable, what comes by it is the manager's (Linux 81848731ff40:
    the FDB of legacy mode has entries for addresses of vPorts only)."""
    by_source(fdb)
    for count, member in enumerate(members):
        send(member, sender(member))
        assert [frame.data for frame in wire.sent()] == [FRAME]
        assert [received(one) for one in members] == [count, 0]
        manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [2, 0]


def test_an_entry_drops_what_no_other_matches(members, manager, other, wire, fdb):
    table = fdb.table(0)
    fdb.entry(table, 0, fdb.group(table, 0, 0), action=FlowAction.DROP)
    fdb.set_root(table)
    for member in members:
        send(member, sender(member))
        manager.hca.switch.receive(Frame(FRAME))
    assert not wire.sent()
    assert [received(member) for member in members] == [0, 0]


def test_a_miss_behind_changes_and_beside_other_destinations(manager, other, wire, fdb):
    """Each path through the tables ends by itself, with the changes that its entries have made."""
    empty, root = fdb.table(1), fdb.table(0)
    group = fdb.group(root, 0, 15)
    beside = {"push_vlan": {"ethtype": 0x8100, "vid": 7}}
    push = {"also": FlowAction.VLAN_PUSH, "beside": beside}
    fdb.entry(root, 0, group, to_table(empty), to_vport(VPORT), **push)
    fdb.set_root(root)
    send(manager, sender(manager))
    tagged = FRAME[:12] + bytes.fromhex("81000007") + FRAME[12:]
    assert [frame.data for frame in wire.sent()] == [tagged]
    assert received(other) == 1


def test_all_destinations_get_a_packet(members, manager, wire, fdb):
    by_source(fdb, (UPLINK, to_vport(MANAGER), to_vport(VPORT)))
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [1, 1]


def test_packets_of_the_cable_may_go_back_to_it(members, manager, wire, fdb):
    """uplink_hairpin_en, which only entries of an FDB have: multicast of a bridge whose port the
    cable is (core/esw/bridge_mcast.c)."""
    table = fdb.table(0)
    group = fdb.group(table, 0, 15)
    hairpin = {"beside": {"uplink_hairpin_en": 1}}
    fdb.entry(table, 0, group, to_vport(UPLINK), to_vport(VPORT), **hairpin)
    fdb.set_root(table)
    manager.hca.switch.receive(Frame(FRAME))
    assert [frame.data for frame in wire.sent()] == [FRAME]
    assert [received(member) for member in members] == [0, 1]
    acl = Flows(manager.driver, INGRESS)
    table = acl.table(0)
    fields = entry_fields(table, 0, acl.group(table, 0, 0), action=FlowAction.ALLOW, **hairpin)
    before = snapshot(manager.hca)
    answer = manager.driver.command(Op.SET_FLOW_TABLE_ENTRY, table_type=INGRESS, **fields)
    assert answer.status == Status.BAD_PARAM_ERR
    assert snapshot(manager.hca) == before


def test_send_to_vport_rules_tell_a_managers_queues(members, manager, wire, fdb):
    """What a representor sends is told from what the others do by its queue alone."""
    table = fdb.table(1)
    criteria = match_misc(source_sqn=0xFFFFFF, source_port=0xFFFF)
    group = fdb.group(table, 0, 15, enable=MISC, match_criteria=criteria)
    queues = sender(manager), sender(manager)
    for index, (sq, to) in enumerate(zip(queues, (UPLINK, VPORT))):
        value = match_misc(source_sqn=sq.sqn, source_port=MANAGER)
        fdb.entry(table, index, group, to_vport(to), value=value)
    fdb.set_root(table)
    send(manager, queues[0])
    assert len(wire.sent()) == 1
    send(manager, queues[1])
    assert not wire.sent()
    assert received(members[1]) == 1


def test_entries_for_packets_of_the_cable_and_for_others(members, manager, wire, fdb):
    """The first entry that matches is found, if it is for packets from there."""
    table = fdb.table(0)
    group = fdb.group(table, 0, 15)
    fdb.set_root(table)
    fdb.entry(table, 1, group, to_vport(UPLINK), source=FlowSource.LOCAL_VPORT)
    fdb.entry(table, 2, group, to_vport(VPORT), source=FlowSource.UPLINK)
    fdb.entry(table, 3, group, to_vport(MANAGER))
    sq = sender(manager)
    for cable, vport in ((0, 1), (1, 1)):
        send(manager, sq)
        assert len(wire.sent()) == 1
        manager.hca.switch.receive(Frame(FRAME))
        assert [received(member) for member in members] == [cable, vport]
        if not cable:
            fdb.delete(table, 2)
    fdb.delete(table, 1)
    fdb.entry(table, 1, group, to_vport(VPORT), source=FlowSource.UPLINK)
    send(manager, sq)
    assert not wire.sent()
    assert received(members[1]) == 1
    ctx = manager.driver.must(
        Op.QUERY_FLOW_TABLE_ENTRY, table_type=FDB, table_id=table, flow_index=1
    ).flow_context
    assert ctx.flow_source == FlowSource.UPLINK


def test_a_managers_frames_to_itself_are_the_tables_matter(manager, wire, fdb):
    """A representor may send to the address of the uplink's interface, to a function behind it."""
    own = manager.hca.nic_vport.permanent_address + FRAME[6:]
    by_source(fdb, (MANAGER, to_vport(UPLINK)))
    send(manager, sender(manager), own)
    assert [frame.data for frame in wire.sent()] == [own]


def mark(manager, vport, value, action=FlowAction.ALLOW):
    """An ingress ACL that writes into the upper half of register C0."""
    acl = Flows(manager.driver, INGRESS, vport)
    table = acl.table(0, log_size=0)
    group = acl.group(table, 0, 0)
    context = acl.context(set_field(ModifyField.METADATA_REG_C_0, value, 16, offset=16))
    acl.entry(table, 0, group, action=action, modify=context)
    acl.set_root(table)
    return acl, table


def test_registers_go_along(members, manager, other, wire, fdb):
    """From an ACL of the sender through the FDB to the manager's own tables, as in switchdev mode.

    The vPort's context says which registers come with a packet.
    """
    mark(manager, VPORT, 0x1234)
    table = fdb.table(0)
    group = fdb.group(table, 0, 0, enable=MISC_2, match_criteria=match_misc({0: 0xFFFF0000}))
    context = fdb.context(set_field(ModifyField.METADATA_REG_C_1, 0xABC, 32))
    value = match_misc({0: 0x12340000})
    fdb.entry(table, 0, group, to_vport(MANAGER), modify=context, value=value)
    fdb.set_root(table)

    receiver = Receiver(manager)
    flows = receiver.flows
    group = flows.group(
        receiver.table, 0, 0, enable=MISC_2,
        match_criteria=match_misc({0: 0xFFFF0000, 1: 0xFFFFFFFF}),
    )  # fmt: skip
    value = match_misc({0: 0x12340000, 1: 0xABC})
    flows.entry(receiver.table, 0, group, receiver.to, tag=7, value=value)
    sq = sender(other)
    send(other, sq)
    assert not receiver.rq.cq.poll(), "the vPort's context gives it no registers yet"
    manager.driver.must(
        Op.MODIFY_ESW_VPORT_CONTEXT, field_select={"fdb_to_vport_reg_c_id": 1},
        esw_vport_context={"fdb_to_vport_reg_c_id": 3},
    )  # fmt: skip
    context = manager.driver.must(Op.QUERY_ESW_VPORT_CONTEXT).esw_vport_context
    assert context.fdb_to_vport_reg_c_id == 3
    send(other, sq)
    assert receiver.rq.cq.poll().qpn == 7, "a flow tag has the place of the queue's number"


def test_registers_stay_when_a_packet_begins_anew(members, manager, wire, fdb):
    """reg_c_preserve: an internal port of Open vSwitch (core/en/tc/int_port.c). An entry writes
    register C0 and leads back to the root, whose first entry is for packets that have it so."""
    table = fdb.table(0)
    criteria = match_misc({0: 0xFFFF0000})
    group = fdb.group(table, 0, 0, enable=MISC_2, match_criteria=criteria)
    fdb.entry(table, 0, group, to_vport(VPORT), value=match_misc({0: 0xF0010000}))
    rest = fdb.group(table, 1, 1)
    context = fdb.context(set_field(ModifyField.METADATA_REG_C_0, 0xF001, 16, offset=16))
    back = entry_fields(table, 1, rest, to_table(table), modify=context)
    manager.driver.must(Op.SET_FLOW_TABLE_ENTRY, table_type=FDB, ignore_flow_level=1, **back)
    fdb.set_root(table)
    send(manager, sender(manager))
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [0, 2]
    assert not wire.sent()
    assert with_switch(LINKS["connectx6dx"][PortType.ETH]).general["reg_c_preserve"]


def test_a_managers_tables_tell_who_has_sent_a_packet(members, manager, other, fdb):
    """Without metadata in registers (`devlink dev param`: esw_port_metadata), entries of NIC_RX
    match source_port (core/eswitch_offloads.c: mlx5_eswitch_create_vport_rx_rule)."""
    by_source(fdb, (VPORT, to_vport(MANAGER)), (UPLINK, to_vport(MANAGER)))
    receiver = Receiver(manager)
    flows, table = receiver.flows, receiver.table
    group = flows.group(table, 0, 3, enable=MISC, match_criteria=match_misc(source_port=0xFFFF))
    counters = [flows.counter(), flows.counter()]
    for index, (source, counter) in enumerate(zip((VPORT, UPLINK), counters)):
        value = match_misc(source_port=source)
        flows.entry(table, index, group, receiver.to, counters=[counter], value=value)
    manager.hca.switch.receive(Frame(FRAME))
    for _ in range(2):
        send(other, sender(other))
    large = EthPacket(payload=bytes(3000)).frame()
    other.hca.switch.forward(other.hca, Frame(large, gso_size=1000, checked=True))
    assert [flows.query_counter(counter)[0] for counter in counters] == [5, 1]


def test_registers_do_not_come_from_the_wire_or_leave_by_it(manager, wire, fdb):
    mark(manager, MANAGER, 7)
    by_source(fdb, (MANAGER, to_vport(UPLINK)))
    send(manager, sender(manager))
    (frame,) = wire.sent()
    assert frame.registers is None
    assert not frame.sqn


def test_a_queue_of_another_adapter_is_none_here(manager, other, wire, fdb):
    """Its frames come by the cable from a switch without tables, which leaves the number there."""
    table = fdb.table(0)
    criteria = match_misc(source_sqn=0xFFFFFF)
    group = fdb.group(table, 0, 0, enable=MISC, match_criteria=criteria)
    sq = sender(other)
    fdb.entry(table, 0, group, to_vport(VPORT), value=match_misc(source_sqn=sq.sqn))
    fdb.set_root(table)
    before = received(other)
    manager.hca.switch.receive(Frame(FRAME, sqn=sq.sqn))
    assert received(other) == before
    assert received(manager) == 1


def test_an_acl_drops(members, manager, other, wire, fdb):
    by_source(fdb, (VPORT, to_vport(UPLINK)), (UPLINK, to_vport(VPORT)))
    for kind in (INGRESS, EGRESS):
        acl = Flows(manager.driver, kind, VPORT)
        table = acl.table(0, log_size=0)
        acl.entry(table, 0, acl.group(table, 0, 0), action=FlowAction.DROP)
        acl.set_root(table)
        sq = sender(other)
        before = received(other)
        send(other, sq)
        manager.hca.switch.receive(Frame(FRAME))
        dropped = kind is EGRESS
        assert (len(wire.sent()), received(other) - before) == (int(dropped), int(not dropped))
        acl.disconnect()
    send(other, sq)
    assert len(wire.sent()) == 1, "without a root an ACL lets pass"


@pytest.mark.parametrize("named", [{}, {"vhca": 0}])
def test_an_egress_acl_gives_a_packet_to_another_vport(members, manager, other, fdb, named):
    """For a bond of representors (core/esw/acl/egress_ofld.c), which names the switch as well."""
    by_source(fdb, (UPLINK, to_vport(VPORT)))
    acl = Flows(manager.driver, EGRESS, VPORT)
    table = acl.table(0, log_size=0)
    acl.entry(table, 0, acl.group(table, 0, 0), to_vport(MANAGER, **named))
    acl.set_root(table)
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [1, 0]
    acl.disconnect()
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [1, 1]


def test_egress_acls_of_two_vports_that_name_each_other(members, manager, fdb):
    """A packet is sent on once."""
    by_source(fdb, (UPLINK, to_vport(VPORT)))
    for vport, other_one in ((VPORT, MANAGER), (MANAGER, VPORT)):
        acl = Flows(manager.driver, EGRESS, vport)
        table = acl.table(0, log_size=0)
        acl.entry(table, 0, acl.group(table, 0, 0), to_vport(other_one))
        acl.set_root(table)
    manager.hca.switch.receive(Frame(FRAME))
    assert [received(member) for member in members] == [1, 0]


def test_what_an_acl_does_not_match_passes(members, manager, other, wire, fdb):
    by_source(fdb, (VPORT, to_vport(UPLINK)))
    acl = Flows(manager.driver, INGRESS, VPORT)
    table = acl.table(0)
    group = acl.group(table, 0, 15, dmac_15_0=0xFFFF)
    acl.entry(table, 0, group, action=FlowAction.DROP, dmac_15_0=0x4242)
    acl.set_root(table)
    send(other, sender(other))
    assert len(wire.sent()) == 1


def test_levels_and_a_way_back(manager, wire, fdb):
    """ignore_flow_level is what chains of tc are built on."""
    first, second = fdb.table(1), fdb.table(2)
    group = fdb.group(first, 0, 0)
    fdb.entry(first, 0, group, to_table(second))
    fdb.set_root(first)
    back = entry_fields(second, 0, fdb.group(second, 0, 0), to_table(first))
    answer = manager.driver.command(Op.SET_FLOW_TABLE_ENTRY, table_type=FDB, **back)
    assert answer.status == Status.BAD_PARAM_ERR
    manager.driver.must(Op.SET_FLOW_TABLE_ENTRY, table_type=FDB, ignore_flow_level=1, **back)
    send(manager, sender(manager))  # a circle: the packet is lost, and nobody waits
    assert not wire.sent()


def test_without_tables_again(members, manager, wire, fdb):
    by_source(fdb)
    fdb.disconnect()
    send(manager, sender(manager))
    assert len(wire.sent()) == 1


def test_what_has_passed_the_cable(manager, other, wire, fdb):
    """The port's counters go on, whoever decides; what passes inside is not among them."""
    sq = sender(manager)
    send(manager, sq)
    manager.hca.switch.receive(Frame(FRAME))
    by_source(fdb, (MANAGER, to_vport(VPORT)), (VPORT, to_vport(UPLINK)))
    send(manager, sq)
    send(other, sender(other))
    manager.hca.switch.receive(Frame(FRAME))
    passed = manager.hca.switch.port_traffic()
    assert [way.packets for way in passed] == [2, 2]
    assert [way.octets for way in passed] == [2 * len(FRAME)] * 2
    fdb.disconnect()
    send(manager, sq)
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [3, 2]


def test_errors_of_the_cable_are_counted_once(manager, wire, fdb):
    """The manager's vPort counts them before and after the time in which tables decide."""

    def errors():
        received = manager.hca.switch.port_traffic()[1]
        return received.errors, received.fcs_errors

    injector = Injector(manager.function)
    manager.function.use_faults(injector)
    injector.load(load('[[rule]]\npoint="frame.rx"\naction="damage"'))
    arrive(manager.hca, Frame(FRAME))
    assert errors() == (1, 1)
    by_source(fdb, (MANAGER, to_vport(VPORT)))
    assert errors() == (1, 1)
    fdb.disconnect()
    assert errors() == (1, 1)
    arrive(manager.hca, Frame(FRAME))
    assert errors() == (2, 2)


def test_another_root_is_no_change_for_what_is_counted(manager, wire, fdb):
    sq = sender(manager)
    send(manager, sq)
    for level in range(2):
        by_source(fdb, (MANAGER, to_vport(VPORT)), level=level)
    send(manager, sq)
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [1, 0]


def test_teardown_ends_the_tables(manager, wire, fdb):
    """What passes then has passed the cable again, until there are others."""
    by_source(fdb)
    manager.driver.must(Op.TEARDOWN_HCA)
    assert not manager.hca.switch.decides
    manager.driver.must(Op.INIT_HCA)
    manager.hca.switch.receive(Frame(FRAME))
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [0, 1]
    by_source(fdb, (UPLINK, to_vport(VPORT)))
    manager.hca.switch.receive(Frame(FRAME))
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [0, 2]
    fdb.disconnect()
    manager.driver.must(Op.TEARDOWN_HCA)
    manager.hca.switch.receive(Frame(FRAME))
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [0, 3]


def test_teardown_without_tables_changes_no_count(manager, wire):
    send(manager, sender(manager))
    manager.driver.must(Op.TEARDOWN_HCA)
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [1, 0]


def test_a_hairpins_packets_do_not_come_back(manager, wire, fdb):
    """Not even by an entry that leads them to the manager's own vPort."""
    by_source(fdb, (UPLINK, to_vport(MANAGER)), (MANAGER, to_vport(MANAGER)))
    pair = HairpinPair(manager.driver, manager.driver)
    flows = Flows(manager.driver)
    table = flows.table(0, log_size=0)
    tirn = create_direct_tir(manager.driver, alloc_td(manager.driver), pair.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    flows.set_root(table)
    arrive(manager.hca, Frame(FRAME))
    manager.node.settle()
    vport = manager.hca.nic_vport
    assert (vport.sent.packets, vport.received.packets) == (1, 1)


def test_pause_frames_are_for_the_port(members, manager, wire, fdb):
    by_source(fdb, (UPLINK, to_vport(VPORT), to_vport(UPLINK)))
    manager.hca.switch.receive(Frame(PAUSE))
    assert manager.hca.eth.flow.received.global_ == 1
    assert received(members[1]) == 0
    assert [way.packets for way in manager.hca.switch.port_traffic()] == [0, 0]


def test_before_anybody_has_power(adapter):
    adapter.switch.receive(Frame(FRAME))
    assert [way.packets for way in adapter.switch.port_traffic()] == [0, 0]


def test_a_function_that_has_power_before_the_manager_waits(adapter, clock):
    function = Member(adapter.add(VPORT), clock, boot_pages=1).function
    function.run()
    assert function.bar_read(0, INITIALIZING, 4)[0] >> 7
    assert not function.hca.health.has_failed


def test_what_waits_too_long_is_lost(manager, other, wire, fdb):
    """The tables' work belongs to the manager's rounds."""
    by_source(fdb, (UPLINK, to_vport(VPORT)))
    manager.hca.budget.steps = manager.hca.budget.limit + 1
    for _ in range(MAX_WAITING + 3):
        manager.hca.switch.receive(Frame(FRAME))
    assert manager.hca.switch.port_traffic()[1].discards == 3
    assert received(other) == 0


def test_a_manager_that_has_failed_lets_nothing_cross(manager, other, wire, fdb, caplog):
    by_source(fdb, (VPORT, to_vport(UPLINK)))
    sq = sender(other)
    manager.hca.health.fail()
    send(other, sq)
    assert not wire.sent()
    caplog.clear()


def test_no_cable_no_way_out(members, manager, other, wire, fdb):
    by_source(fdb, (VPORT, to_vport(UPLINK)), (UPLINK, to_vport(VPORT)))
    sq = sender(other)
    manager.driver.must(Op.MODIFY_VPORT_STATE, op_mod=1, admin_state=VportAdminState.UP, **OTHER)
    set_link(manager.hca, up=False)
    assert other.hca.vport.is_up, "the manager holds it up"
    send(other, sq)
    manager.hca.switch.receive(Frame(FRAME))
    assert not wire.sent()
    assert received(other) == 0


def test_the_switch_holds_a_vport_down(members, manager, other):
    state = manager.driver.must(Op.QUERY_VPORT_STATE, op_mod=1, **OTHER)
    assert (state.admin_state, state.state) == (VportAdminState.AUTO, 1)
    for wanted, is_up, event in (
        (VportAdminState.DOWN, 0, PortChange.DOWN), (VportAdminState.UP, 1, PortChange.ACTIVE),
    ):  # fmt: skip
        manager.driver.must(Op.MODIFY_VPORT_STATE, op_mod=1, admin_state=wanted, **OTHER)
        assert [member.port_events() for member in members] == [[], [event]]
        state = manager.driver.must(Op.QUERY_VPORT_STATE, op_mod=1, **OTHER)
        assert (state.admin_state, state.state) == (wanted, is_up)
        assert other.driver.must(Op.QUERY_VPORT_STATE).state == is_up


def test_the_manager_learns_of_a_changed_context(manager, other):
    eqn = manager.driver.create_eq(events=[EventType.NIC_VPORT_CHANGE])

    def events():
        return [entry.type for entry in manager.driver.eqs[eqn].drain()]

    def arm(**events):
        manager.driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"change_event": 1},
            nic_vport_context={"arm_change_event": 1, **events}, **OTHER,
        )  # fmt: skip

    def change(**context):
        other.driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"promisc": 1}, nic_vport_context=context
        )

    arm(event_on_uc_address_change=1)
    change(promisc_all=1)
    assert not events()
    arm(event_on_promisc_change=1)
    assert events() == [EventType.NIC_VPORT_CHANGE], "of the change before"
    arm(event_on_promisc_change=1)
    change(promisc_all=1)
    assert not events(), "nothing has changed"
    change(promisc_all=0)
    change(promisc_all=1)
    assert events() == [EventType.NIC_VPORT_CHANGE], "one, until it is asked for again"
    arm(event_on_promisc_change=1)
    assert events() == [EventType.NIC_VPORT_CHANGE], "no change is lost before the arming"
    arm(event_on_promisc_change=1)
    assert not events()


def test_the_manager_names_its_own_vport_like_others(manager, other):
    driver = manager.driver
    own = driver.must(Op.QUERY_NIC_VPORT_CONTEXT, other_vport=1).nic_vport_context
    assert own.port_guid == manager.hca.options.guid
    driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, other_vport=1, field_select={"change_event": 1},
        nic_vport_context={"arm_change_event": 1, "event_on_promisc_change": 1},
    )  # fmt: skip
    assert manager.hca.nic_vport.armed
    answer = other.driver.command(Op.QUERY_NIC_VPORT_CONTEXT, other_vport=1)
    assert answer.status == Status.BAD_PARAM_ERR


def test_the_manager_chooses_guid_and_address(manager, other):
    manager.driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"node_guid": 1, "permanent_address": 1},
        nic_vport_context={"node_guid": 0x1234}, **OTHER,
    )  # fmt: skip
    context = other.driver.must(Op.QUERY_NIC_VPORT_CONTEXT).nic_vport_context
    assert context.node_guid == 0x1234
    assert context.port_guid == other.hca.options.guid
    assert not context.permanent_address.mac_addr_31_0, "its driver chooses an address"


@pytest.mark.parametrize("version", [RoceVersion.VERSION_1, RoceVersion.VERSION_2])
def test_an_address_for_the_managers_messages_to_itself(manager, version):
    gid = bytes.fromhex("fe800000000000000202c9fffee50000")
    address = {"source_l3_address": gid, "roce_version": version}
    manager.driver.must(Op.SET_ROCE_ADDRESS, roce_address=address)
    own = int.from_bytes(manager.hca.nic_vport.permanent_address, "big")
    found = manager.driver.must(Op.QUERY_ROCE_ADDRESS).roce_address
    assert found.source_mac_47_32 << 32 | found.source_mac_31_0 == own
    assert (found.source_l3_address, found.roce_version) == (gid, version)


def test_an_address_of_ipv4_is_of_its_type_for_the_manager_too(manager):
    answer = set_address(manager.driver, 0, ipv4(1), roce_l3_type=RoceL3Type.IPV6)
    assert answer.status == Status.BAD_PARAM_ERR


@pytest.mark.parametrize("kind", [FlowTableType.SNIFFER_TX, 0xFF])
def test_header_contexts_of_other_tables(manager, kind):
    fields = context_fields(set_field(ModifyField.OUT_DMAC_15_0, 7, 16))
    answer = manager.driver.command(Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields | {"table_type": kind})
    assert answer.status == Status.BAD_PARAM_ERR


def test_a_driver_that_does_without_the_switch(manager):
    """It has turned the capability off: nothing of the switch's is made."""
    manager.driver.remove()
    driver = Driver(FunctionBar(manager.function), manager.memory, IrqList())
    driver.probe(eswitch_manager=0)
    fields = context_fields(set_field(ModifyField.OUT_DMAC_15_0, 7, 16)) | {"table_type": FDB}
    answer = driver.command(Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields)
    assert answer.status == Status.BAD_PARAM_ERR
    answer = driver.command(Op.CREATE_FLOW_TABLE, table_type=INGRESS, **OTHER, **table_fields(0))
    assert answer.status == Status.BAD_PARAM_ERR


def test_l2_table(manager):
    driver = manager.driver
    mac = {"mac_addr_47_32": 0x0200, "mac_addr_31_0": 5}
    driver.must(Op.SET_L2_TABLE_ENTRY, table_index=511, mac_address=mac, vlan_valid=1, vlan=7)
    answer = driver.must(Op.QUERY_L2_TABLE_ENTRY, table_index=511)
    assert (answer.mac_address.mac_addr_31_0, answer.vlan_valid, answer.vlan) == (5, 1, 7)
    driver.must(Op.DELETE_L2_TABLE_ENTRY, table_index=511)
    for op in (Op.QUERY_L2_TABLE_ENTRY, Op.DELETE_L2_TABLE_ENTRY):
        assert driver.command(op, table_index=511).status == Status.BAD_RES_ERR
        assert driver.command(op, table_index=512).status == Status.BAD_PARAM_ERR
    for wrong in ({"table_index": 512}, {"silent_mode_valid": 1}):
        assert driver.command(Op.SET_L2_TABLE_ENTRY, **wrong).status == Status.BAD_PARAM_ERR


def test_there_are_no_virtual_functions(manager):
    answer = manager.driver.must(Op.QUERY_ESW_FUNCTIONS)
    assert not answer.host_params_context.host_num_of_vfs


@pytest.mark.parametrize(
    "op",
    [
        *(Op.QUERY_ESW_VPORT_CONTEXT, Op.MODIFY_ESW_VPORT_CONTEXT, Op.QUERY_ESW_FUNCTIONS),
        *(Op.SET_L2_TABLE_ENTRY, Op.QUERY_L2_TABLE_ENTRY, Op.DELETE_L2_TABLE_ENTRY),
    ],
)
def test_who_manages_no_switch(other, op):
    assert other.driver.command(op).status == Status.BAD_OP_ERR


@pytest.mark.parametrize(
    ("fields", "chosen", "context"),
    [
        (OTHER, "vport_svlan_strip", {}),
        (OTHER, "fdb_to_vport_reg_c_id", {"fdb_to_vport_reg_c_id": 1 << 7}),
        ({"other_vport": 1, "vport_number": 9}, "fdb_to_vport_reg_c_id", {}),
    ],
)
def test_vport_contexts_that_cannot_be(manager, other, fields, chosen, context):
    answer = manager.driver.command(
        Op.MODIFY_ESW_VPORT_CONTEXT, field_select={chosen: 1}, esw_vport_context=context, **fields
    )
    assert answer.status == Status.BAD_PARAM_ERR


def test_each_vport_has_a_context_of_its_own(manager, other):
    chosen = {"field_select": {"fdb_to_vport_reg_c_id": 1}}
    for fields, registers in (({}, 1), (OTHER, 2)):
        context = {"fdb_to_vport_reg_c_id": registers}
        manager.driver.must(
            Op.MODIFY_ESW_VPORT_CONTEXT, esw_vport_context=context, **chosen, **fields
        )
    found = [
        manager.driver.must(Op.QUERY_ESW_VPORT_CONTEXT, **fields).esw_vport_context
        for fields in ({}, OTHER)
    ]
    assert [context.fdb_to_vport_reg_c_id for context in found] == [1, 2]


def wrong_tables():
    nobody = {"other_vport": 1, "vport_number": 9}
    yield {"table_type": FDB, **OTHER}, "the FDB belongs to no vPort"
    yield {"table_type": FlowTableType.NIC_RX, **OTHER}, "neither do tables of received packets"
    yield {"table_type": INGRESS, **nobody}, "no such vPort"
    yield {"table_type": FlowTableType.PORT_SEL}, "no such tables"


@pytest.mark.parametrize(("fields", "why"), [*wrong_tables()])
def test_tables_that_cannot_be(manager, fields, why):
    before = snapshot(manager.hca)
    for op in (Op.CREATE_FLOW_TABLE, Op.SET_FLOW_TABLE_ROOT):
        assert manager.driver.command(op, **fields).status == Status.BAD_PARAM_ERR, why
    assert snapshot(manager.hca) == before


def test_a_function_without_switch_has_no_such_tables(other):
    for kind in (FDB, INGRESS, EGRESS):
        answer = other.driver.command(Op.CREATE_FLOW_TABLE, table_type=kind, **table_fields(0))
        assert answer.status == Status.BAD_PARAM_ERR


def test_entries_that_cannot_be(manager, fdb):
    table = fdb.table(0)
    group = fdb.group(table, 0, 15)
    acl = Flows(manager.driver, INGRESS, VPORT)
    of_acl = acl.table(1)

    def no(status, *to, **options):
        fields = entry_fields(table, 0, group, *to, **options)
        answer = manager.driver.command(Op.SET_FLOW_TABLE_ENTRY, table_type=FDB, **fields)
        assert answer.status == status

    no(Status.BAD_PARAM_ERR, to_vport(9))
    no(Status.BAD_PARAM_ERR, to_vport(VPORT, vhca=1))
    no(Status.BAD_PARAM_ERR, to_tir(1))
    no(Status.BAD_RES_ERR, to_table(of_acl))
    received_ones = Flows(manager.driver)
    no(Status.BAD_RES_ERR, to_table(received_ones.table(1)))
    of_received = received_ones.context(set_field(ModifyField.OUT_DMAC_15_0, 7, 16))
    no(Status.BAD_PARAM_ERR, to_vport(VPORT), modify=of_received)
    no(Status.BAD_PARAM_ERR, action=FlowAction.ALLOW)
    no(Status.BAD_PARAM_ERR, to_vport(VPORT), source=3)
    of_group = acl.group(of_acl, 0, 0)
    for fields in (
        entry_fields(of_acl, 0, of_group, to_vport(VPORT)),
        entry_fields(of_acl, 0, of_group, action=FlowAction.DROP, source=FlowSource.UPLINK),
    ):
        answer = manager.driver.command(
            Op.SET_FLOW_TABLE_ENTRY, table_type=INGRESS, **OTHER, **fields
        )
        assert answer.status == Status.BAD_PARAM_ERR
    of_own = Flows(manager.driver, INGRESS).table(2)
    answer = manager.driver.command(
        Op.DESTROY_FLOW_TABLE, table_type=INGRESS, table_id=of_own, **OTHER
    )
    assert answer.status == Status.BAD_RES_ERR, "the table is another vPort's"


def test_ways_between_the_acls_of_vports(manager):
    """Entries and misses stay with their vPort; a query names none."""
    must, command = manager.driver.must, manager.driver.command
    acl, of_own = Flows(manager.driver, INGRESS, VPORT), Flows(manager.driver, INGRESS).table(2)
    table, then = acl.table(0), acl.table(1)
    group = acl.group(table, 0, 15)
    named = {"table_type": INGRESS, **OTHER}
    foreign = entry_fields(table, 0, group, to_table(of_own))
    assert command(Op.SET_FLOW_TABLE_ENTRY, **named, **foreign).status == Status.BAD_RES_ERR
    acl.entry(table, 0, group, to_table(then))
    foreign = table_fields(0, miss=of_own)
    assert command(Op.CREATE_FLOW_TABLE, **named, **foreign).status == Status.BAD_RES_ERR
    acl.table(0, miss=then)
    context, _ = acl.query_entry(table, 0)
    assert context.group_id == group
    found = must(Op.QUERY_FLOW_TABLE, table_type=INGRESS, table_id=then).flow_table_context
    assert found.level == 1


def test_the_source_is_matched_behind_a_switch_by_its_manager_only(manager, other):
    criteria = match_misc(source_port=0xFFFF)
    for member, kind in ((manager, FlowTableType.NIC_TX), (other, FlowTableType.NIC_RX)):
        table = Flows(member.driver, kind).table(1)
        fields = group_fields(table, 0, 0, enable=MISC, match_criteria=criteria)
        answer = member.driver.command(Op.CREATE_FLOW_GROUP, table_type=kind, **fields)
        assert answer.status == Status.BAD_PARAM_ERR


def test_a_process_has_no_say(manager):
    uid = manager.driver.must(Op.CREATE_UCTX).uid
    for kind in (FDB, INGRESS):
        answer = manager.driver.command(
            Op.CREATE_FLOW_TABLE, uid=uid, table_type=kind, **table_fields(0)
        )
        assert answer.status == Status.BAD_PARAM_ERR


def test_a_reset_ends_the_tables(members, manager, wire, fdb):
    by_source(fdb)
    mark(manager, VPORT, 3)
    manager.function.reset()
    assert not manager.hca.switch.decides
    manager.hca.switch.receive(Frame(FRAME))
    assert received(manager) == 1


def test_trains_take_the_cable_while_no_table_decides(adapter, members, wire, fdb):
    """Where one does, each packet is a frame of its own; so it is for other functions, always."""

    def carry(pieces):
        return True

    wire.train_to = lambda mac: carry
    segments = [adapter.switch.segment_of(member.hca.vhca) for member in members]
    assert [segment.train_to(bytes(6)) for segment in segments] == [carry, None]
    fdb.set_root(fdb.table(0))
    assert [segment.train_to(bytes(6)) for segment in segments] == [None, None]
