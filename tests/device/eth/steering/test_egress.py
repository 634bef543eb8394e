"""Tables of what the function sends: what an entry lets pass, drops, counts and changes."""

import pytest

from emu.device.models import LINKS
from emu.device.port.eth.checksum import verify
from emu.device.port.eth.headers import parse
from emu.device.port.eth.plain import plain
from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    match_misc,
    set_field,
    to_table,
    to_tir,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir, create_rq
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.modify_header import ModifyField
from layouts.enums.wqe import EthChecksum, Opcode

MINE, OTHER = MACS[6:], bytes.fromhex("888888888888")
ALLOW, DROP = FlowAction.ALLOW, FlowAction.DROP
MISC_2 = 1 << 3


@pytest.fixture
def egress(driver):
    return Flows(driver, FlowTableType.NIC_TX)


@pytest.fixture
def root(egress):
    """A table whose entries match the source address."""
    table = egress.table(1)
    group = egress.group(table, 0, 7, smac_47_16=0xFFFFFFFF, smac_15_0=0xFFFF)
    egress.set_root(table)
    return table, group


@pytest.fixture
def region(node):
    return node.region(1 << 17, va=0x10000)


@pytest.fixture
def send(node, sq, region, eth_wire):
    """Send a frame, or one that is to be cut; what leaves."""

    def through(frame, mss=0, headers=b""):
        region.write(frame, 0)
        options = {"mss": mss, "headers": headers, "opcode": Opcode.LSO} if mss else {}
        flags = EthChecksum.L3 | EthChecksum.L4
        sq.send((len(frame), region.key, region.va), cs_flags=flags, **options)
        node.settle()
        assert all(not done.syndrome for done in sq.cq.drain())
        return eth_wire.sent()

    return through


def of(mac):
    number = int.from_bytes(mac, "big")
    return {"smac_47_16": number >> 16, "smac_15_0": number & 0xFFFF}


def frame_of(mac, **fields):
    frame = EthPacket(**fields).frame()
    return frame[:6] + mac + frame[12:]


def test_by_model():
    has = {
        name: "flow_table_properties_nic_transmit" in links[PortType.ETH].flow_table
        for name, links in LINKS.items()
        if PortType.ETH in links
    }
    assert has["connectx5"]
    assert has["connectx7-vf"]
    assert not has["connectx4lx"]


def test_without_a_root_all_leaves(egress, send):
    egress.table(1)
    assert len(send(frame_of(MINE))) == 1


def test_what_is_dropped_and_what_leaves(egress, root, send, hca):
    """pyverbs: test_root_tbl_drop_action."""
    egress.entry(root[0], 0, root[1], action=DROP, **of(MINE))
    before = hca.nic_vport.sent.octets
    assert send(frame_of(MINE)) == []
    assert hca.nic_vport.sent.octets == before
    (left,) = send(frame_of(OTHER))
    assert left.data == frame_of(OTHER).ljust(60, b"\0")


def test_counters_count_what_is_let_pass(egress, root, send):
    counter = egress.counter()
    egress.entry(root[0], 0, root[1], action=ALLOW, counters=[counter], **of(MINE))
    assert len(send(frame_of(MINE))) == 1
    send(frame_of(OTHER))
    assert egress.query_counter(counter) == (1, 61)


def test_super_frames_are_counted_by_the_packet(egress, root, send):
    counter = egress.counter()
    egress.entry(root[0], 0, root[1], action=ALLOW, counters=[counter], **of(MINE))
    headers = frame_of(MINE, payload=b"")[:54]
    (left,) = send(bytes(1000), mss=100, headers=headers)
    assert left.gso_size == 100
    assert egress.query_counter(counter) == (10, 10 * 154)


def test_changes_of_a_packet_leave_with_right_checksums(egress, root, send, hca):
    """pyverbs: test_root_tbl_modify_header_rule, and an address on the way to a later table."""
    second = egress.table(2)
    group = egress.group(second, 0, 3)
    macs = [
        set_field(ModifyField.OUT_SMAC_47_16, 0x88888888, 32),
        set_field(ModifyField.OUT_SMAC_15_0, 0x8888, 16),
    ]
    egress.entry(root[0], 0, root[1], to_table(second), modify=egress.context(*macs), **of(MINE))
    port = egress.context(set_field(ModifyField.OUT_TCP_DPORT, 99, 16))
    egress.entry(second, 0, group, action=ALLOW, modify=port)
    (left,) = send(frame_of(MINE, payload=bytes(100)))
    (data,) = plain(left)
    assert data[6:12] == OTHER
    headers = parse(data)
    assert (headers.ports[2:], verify(headers)[1:]) == ((99).to_bytes(2, "big"), (True, True))
    (left,) = send(bytes(300), mss=100, headers=frame_of(MINE, payload=b"")[:54])
    assert [one[6:12] for one in plain(left)] == [OTHER] * 3


def test_registers_are_matched_by_later_tables(egress, root, send):
    second = egress.table(2)
    mask, value = (match_misc({0: number}) for number in (0xFFFF, 0x1234))
    group = egress.group(second, 0, 3, enable=MISC_2, match_criteria=mask)
    mark = egress.context(set_field(ModifyField.METADATA_REG_C_0, 0x1234, 32))
    egress.entry(root[0], 0, root[1], to_table(second), modify=mark, **of(MINE))
    egress.entry(root[0], 1, root[1], to_table(second), **of(OTHER))
    egress.entry(second, 0, group, action=DROP, value=value)
    assert send(frame_of(MINE)) == []
    assert len(send(frame_of(OTHER))) == 1


def test_a_changed_address_decides_who_gets_the_packet(
    egress, root, send, driver, flows, hca, td, rqns
):
    """The function's own: it comes back, and does not leave."""
    own = int.from_bytes(hca.nic_vport.permanent_address, "big")
    macs = [
        set_field(ModifyField.OUT_DMAC_47_16, own >> 16, 32),
        set_field(ModifyField.OUT_DMAC_15_0, own & 0xFFFF, 16),
    ]
    egress.entry(root[0], 0, root[1], action=ALLOW, modify=egress.context(*macs), **of(MINE))
    table, counter = flows.table(1), flows.counter()
    tir = to_tir(create_direct_tir(driver, td, rqns[0]))
    flows.entry(table, 0, flows.group(table, 0, 1), tir, counters=[counter])
    flows.set_root(table)
    assert send(frame_of(MINE)) == []
    assert flows.query_counter(counter) == (1, 61)


def test_an_entry_or_the_root_goes(egress, root, send):
    egress.entry(root[0], 0, root[1], action=DROP, **of(MINE))
    assert send(frame_of(MINE)) == []
    egress.delete(root[0], 0)
    assert len(send(frame_of(MINE))) == 1
    egress.entry(root[0], 0, root[1], action=DROP, **of(MINE))
    egress.disconnect()
    assert len(send(frame_of(MINE))) == 1


@pytest.mark.hostile
class TestRefused:
    def test_destinations_of_received_packets(self, driver, td, egress, root, refused):
        tir = to_tir(create_direct_tir(driver, td, create_rq(driver)))
        given = entry_fields(root[0], 0, root[1], tir, **of(MINE))
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=1, **given)

    def test_tables_and_contexts_of_received_packets(self, flows, egress, root, refused):
        given = entry_fields(root[0], 0, root[1], to_table(flows.table(5)), **of(MINE))
        refused(Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=1, **given)
        theirs = flows.context(set_field(ModifyField.OUT_IP_TTL, 1, 8))
        given = entry_fields(root[0], 0, root[1], action=ALLOW, modify=theirs, **of(MINE))
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=1, **given)

    @pytest.mark.parametrize("kind", [FlowTableType.RDMA_TX, FlowTableType.SNIFFER_TX])
    def test_changes_in_tables_of_other_types(self, refused, kind):
        given = context_fields(set_field(ModifyField.OUT_IP_TTL, 1, 8))
        refused(Status.BAD_PARAM_ERR, Op.ALLOC_MODIFY_HEADER_CONTEXT, table_type=kind, **given)

    def test_entries_that_lead_in_a_circle_let_the_packet_pass(self, egress, root, send):
        ignoring = {**entry_fields(root[0], 0, root[1], to_table(root[0]), **of(MINE))}
        egress.driver.must(Op.SET_FLOW_TABLE_ENTRY, table_type=1, ignore_flow_level=1, **ignoring)
        assert len(send(frame_of(MINE))) == 1


def test_a_model_without_them(driver, refused):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, table_type=FlowTableType.PORT_SEL)
