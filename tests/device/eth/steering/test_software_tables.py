"""Flow tables of software: entries in ICM, and what becomes of packets there."""

import logging
import struct

import pytest
from helpers.device.reachable import still_reached

from emu.device.cmdif.registry import COMMANDS
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.objects import deferred_free
from emu.device.objects.deferred_free import DeferredFree
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.objects.memory.sw_icm import HEADER_MODIFY, STEERING, SwIcm
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import GRE, parse
from emu.device.port.eth.plain import plain
from emu.device.rounds.costs import LOG_FREED_PER_STEP
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_table, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.steering_entries import (
    SoftwareTables,
    always_miss,
    entry,
    index_of,
    make_icm,
)
from emu.driver.world.cable import arrive
from emu.server.service.adapter_view import adapter
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import GeneralObject
from layouts.enums.mkey import AccessMode
from layouts.enums.packet_reformat import ReformatType
from layouts.enums.tir import DispType
from layouts.enums.wqe import EthChecksum
from layouts.steering.sampler import sampler_obj

L2_SRC, IPV4_5_TUPLE, INNER_5_TUPLE, REGISTERS_0 = 0x0005, 0x0007, 0x0008, 0x010F
MAX_REASONS, OTHER_REASONS = 64, "other reasons"
"""How many reasons are counted by name, and what the others are together."""
SMAC_MASK = bytes(4) + b"\xff" * 6
RX_DROP, TX_DROP, TX_ALLOW = (
    icm_address(kind) for kind in (IcmKind.RX_DROP, IcmKind.TX_DROP, IcmKind.TX_ALLOW)
)
CX6DX = with_software_steering(LINKS["connectx6dx"][PortType.ETH])


def by_smac(mac=MACS[6:]):
    """An entry's mask and tag for a source address."""
    return {"lookup": L2_SRC, "mask": SMAC_MASK, "tag": bytes(4) + mac}


@pytest.fixture
def model():
    return CX6DX


@pytest.fixture
def tables(node):
    return SoftwareTables(node)


@pytest.fixture
def buffers(node):
    return Buffers(ReceiveQueue(node))


@pytest.fixture
def tir(driver, td, buffers):
    """A receive queue, and the address that entries lead to it by."""
    rqn = buffers.rq.rqn
    ctx = {"disp_type": DispType.DIRECT, "transport_domain": td, "inline_rqn": rqn}
    made = driver.must(Op.CREATE_TIR, ctx=ctx)
    return rqn, made.icm_address_39_32 << 32 | made.icm_address_31_0


@pytest.fixture
def received(node, tables, buffers, flows):
    """Where a frame goes from a table of software: (RQ number, flow tag) each."""

    def find(root, packet=None, frame=None):
        if root:
            flows.set_root(tables.table(root))
        arrive(node.hca, Frame(frame or (packet or EthPacket()).frame()))
        node.settle()
        found = [(buffers.rq.rqn, entry.sop_drop_qpn) for entry, _ in buffers.drain()]
        for _ in found:
            buffers.post()
        return found

    return find


@pytest.fixture
def sent(node, driver, tables, sq, eth_wire):
    """What leaves of a frame by a table of software."""

    def find(root, frame, **segment):
        table = tables.table(root, FlowTableType.NIC_TX)
        Flows(driver, FlowTableType.NIC_TX).set_root(table)
        eth_wire.sent()
        sq.send(frame, **segment)
        node.settle()
        return [bytes(data) for one in eth_wire.sent() for data in plain(one)]

    return find


def test_by_model():
    assert "steering_format_version" not in LINKS["connectx6"][PortType.ETH].general
    assert (
        with_software_steering(LINKS["connectx7"][PortType.ETH]).general["steering_format_version"]
        == 2
    )
    with pytest.raises(ValueError, match="connectx5"):
        with_software_steering(LINKS["connectx5"][PortType.ETH])


# -- memory


def test_written_is_read(tables):
    at = STEERING.start + 4096 - 64
    assert tables.read(at, 128) == bytes(128)
    data = bytes(range(128))
    assert not any(done.syndrome for done in tables.write(at, data))
    assert tables.read(at, 128) == data
    assert tables.read(at + 128, 64) == bytes(64)


def test_memory_is_charged_when_it_is_written(tables, hca):
    before = hca.ledger.used
    tables.write(STEERING.start, b"x")
    tables.write(STEERING.start + 8, b"x")
    assert 4096 < hca.ledger.used - before < 6000
    hca.ledger.limit = hca.ledger.used + 1000
    (done,) = tables.write(STEERING.start + 0x10000, b"x")
    assert done.syndrome


def test_a_range_is_given_once_and_freed(driver, refused, tables, hca):
    make_icm(driver, STEERING.start + (1 << 24), 12)
    given = {"op_mod": GeneralObject.SW_ICM}
    for start, log_size, status in (
        (STEERING.start + (1 << 24), 12, Status.NO_RES_ERR),
        (STEERING.start + 64, 12, Status.BAD_PARAM_ERR),
        (STEERING.start, 11, Status.BAD_PARAM_ERR),
        (STEERING.start, 31, Status.BAD_PARAM_ERR),
        (STEERING.start, 255, Status.BAD_PARAM_ERR),
        (0, 12, Status.BAD_PARAM_ERR),
    ):
        extra = bytes(8 + 3) + bytes((log_size,)) + bytes(4) + start.to_bytes(8, "big") + bytes(40)
        refused(status, Op.CREATE_GENERAL_OBJECT, **given, extra=extra)
    tables.write(STEERING.start, b"x" * 64)
    refused(
        Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **given, obj_id=tables.entries.number
    )
    driver.must(Op.DESTROY_MKEY, mkey_index=tables.entries.index)
    driver.must(Op.DESTROY_GENERAL_OBJECT, **given, obj_id=tables.entries.number)
    assert hca.icm.read(STEERING.start, 64) == bytes(64)


@pytest.mark.parametrize("end", ["destroy", "teardown", "reset"])
def test_written_pages_are_freed_in_shares(tables, node, driver, monkeypatch, end):
    """A range of a gibibyte has 260,000."""
    monkeypatch.setattr(deferred_free, "FREED_PER_ROUND", 10)
    tables.write(STEERING.start, bytes(95 * 4096))
    driver.must(Op.DESTROY_MKEY, mkey_index=tables.entries.index)
    if end == "reset":
        node.function.reset()
    else:
        op, fields = Op.TEARDOWN_HCA, {}
        if end == "destroy":
            op = Op.DESTROY_GENERAL_OBJECT
            fields = {"op_mod": GeneralObject.SW_ICM, "obj_id": tables.entries.number}
        driver.submit(COMMANDS[op].layout_in.new(opcode=op, **fields).buf, 16)
        driver.write32(0x018, 1)
    free_some, costs = DeferredFree.free_some, []
    monkeypatch.setattr(
        DeferredFree, "free_some", lambda self: (cost := free_some(self), costs.append(cost))[0]
    )
    while node.function.run():
        pass
    assert costs.count((10 >> LOG_FREED_PER_STEP) + 1) >= 9


@pytest.mark.parametrize("start", [STEERING.start + (1 << 20), STEERING.start - 4096, 0])
def test_a_key_covers_what_has_been_made(refused, tables, start):
    context = {
        "pd": tables.node.pdn, "qpn": 0xFFFFFF, "access_mode_4_2": AccessMode.SW_ICM >> 2,
        "start_addr": start, "len": 4096, "lw": 1,
    }  # fmt: skip
    refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, memory_key_mkey_entry=context)


# -- received packets


def test_to_a_queue(received, tables, tir):
    rqn, address = tir
    assert received(tables.place(entry(hit=address))) == [(rqn, 0)]
    flow_tag = b"\x0c\x00\x12\x34"
    assert received(tables.place(entry(hit=address, action=flow_tag))) == [(rqn, 0x1234)]


def test_a_miss_leads_on(received, tables, tir):
    rqn, address = tir
    last = tables.place(entry(hit=address))
    other = tables.place(entry(**by_smac(bytes(6)), miss=last, hit=RX_DROP))
    assert received(tables.place(always_miss(other))) == [(rqn, 0)]
    assert received(0, frame=MACS[:6] + bytes(6) + EthPacket().frame()[12:]) == []


@pytest.mark.parametrize("size", [1, 2, 64])
def test_hashed(received, tables, tir, size):
    """Each packet finds its own entry of a table, and no other."""
    rqn, address = tir
    byte_mask = 0b0000111111000000
    macs = [bytes((2, 0, 0, 0, 0, n)) for n in range(8)]
    places = {}
    for mac in macs:
        at = index_of(bytes(4) + mac, byte_mask, size)
        places.setdefault(at, []).append(mac)
    entries = []
    for at in range(size):
        collided = RX_DROP
        made = always_miss(collided)
        for n, mac in enumerate(places.get(at, [])):
            tag = b"\x0c\x00\x00" + mac[5:]
            made = entry(**by_smac(mac), miss=collided, hit=address, action=tag)
            if n + 1 < len(places[at]):
                collided = tables.place(made)
        entries.append(made)
    table = tables.place(*entries, size=size)
    root = tables.place(entry(hit=table, size=size, next_lookup=L2_SRC, byte_mask=byte_mask))
    for mac in macs:
        frame = MACS[:6] + mac + EthPacket().frame()[12:]
        assert received(root, frame=frame) == [(rqn, mac[5])]
    assert received(root, frame=MACS[:6] + bytes(6) + EthPacket().frame()[12:]) == []


def test_by_addresses_and_ports(received, tables, tir):
    rqn, address = tir
    packet = EthPacket(protocol=UDP, ports=b"\x12\x34\x56\x78")
    headers = parse(packet.frame())
    tag = headers.addresses + b"\x12\x34\x56\x78" + b"\0\0\0" + bytes((UDP,))
    mask = b"\xff" * 12 + b"\0\0\0\xff"
    at = tables.place(entry(IPV4_5_TUPLE, mask=mask, tag=tag, miss=RX_DROP, hit=address))
    assert received(at, packet) == [(rqn, 0)]
    assert received(0, EthPacket(protocol=UDP, ports=b"\x12\x34\x56\x79")) == []


def test_counted(received, flows, tables, tir):
    _, address = tir
    number = flows.counter() or flows.counter()
    at = tables.place(entry(hit=address, counter_id=number))
    length = len(EthPacket().frame())
    received(at)
    received(0)
    assert flows.query_counter(number) == (2, 2 * length)


def test_from_a_table_of_firmwares_and_back(driver, received, flows, tables, tir):
    rqn, address = tir
    inner = flows.table(62, log_size=0)
    answer = driver.must(
        Op.QUERY_FLOW_TABLE, table_type=FlowTableType.NIC_RX, table_id=inner
    ).flow_table_context
    tir_number = (address & 0xFFFFFFFF) >> 6
    flows.entry(inner, 0, flows.group(inner, 0, 0), to_tir(tir_number))
    middle = tables.table(tables.place(entry(hit=answer.sw_owner_icm_root_0)))
    outer = flows.table(61, log_size=0)
    flows.entry(outer, 0, flows.group(outer, 0, 0), to_table(middle), tag=7)
    flows.set_root(outer)
    assert received(0) == [(rqn, 7)]


def test_writes_count_from_the_next_packet_on(received, tables, tir):
    rqn, address = tir
    at = tables.place(entry(hit=RX_DROP))
    assert received(at) == []
    tables.write(at, entry(hit=address))
    assert received(0) == [(rqn, 0)]


# -- sent packets


def set_smac(high, low):
    """A list of two actions (dr_ste_v1.c: dr_ste_v1_set_action_set)."""
    return b"".join((
        b"\x06\x08\x20\x20" + high.to_bytes(4, "big"),
        b"\x06\x09\x30\x10" + low.to_bytes(4, "big"),
    ))  # fmt: skip


def test_changed(sent, tables):
    tables.write(HEADER_MODIFY.start + 128, set_smac(0x88888888, 0x9999), HEADER_MODIFY)
    frame = EthPacket().frame()
    at = tables.place(entry(hit=TX_ALLOW, action=b"\x0f\x02\x00\x02"))
    changed = bytes.fromhex("888888889999")
    assert sent(at, frame) == [frame[:6] + changed + frame[12:]]


def test_tags(sent, tables):
    frame = EthPacket().frame()
    push = b"\x0a\x00\x0c\x00" + b"\x81\x00\x60\x05"
    (tagged,) = sent(tables.place(entry(hit=TX_ALLOW, action=push)), frame)
    assert tagged == frame[:12] + push[4:] + frame[12:]
    pop = b"\x08\x02\x00\x02"
    pop_at = tables.place(entry(hit=TX_ALLOW, action=pop))
    assert sent(pop_at, tagged) == [frame]
    assert sent(pop_at, frame) == [frame]
    for kind in (2, 3, 4):  # the kernel's, and rdma-core's
        twice = tables.place(entry(hit=TX_ALLOW, action=pop + push, entry_format=kind))
        assert sent(twice, tagged) == [tagged]


def test_registers(sent, tables):
    """Set in one entry, copied and matched in the next ones."""
    drop = tables.place(entry(hit=TX_DROP))
    match = tables.place(
        entry(REGISTERS_0, mask=b"\xff" * 8, tag=b"\0\0\x12\x34\0\0\0\x12", miss=drop, hit=TX_ALLOW)
    )
    copy = b"\x05\x91\x20\x08" + b"\x00\x90\x28\x00"
    second = tables.place(entry(hit=match, action=copy))
    value = b"\x06\x90\x20\x20\0\0\x12\x34"
    frame = EthPacket().frame()
    assert sent(tables.place(entry(hit=second, action=value)), frame) == [frame]
    assert sent(second, frame) == []


def test_dropped_and_let_pass(sent, tables):
    frame = EthPacket().frame()
    assert sent(tables.place(entry(hit=TX_ALLOW)), frame) == [frame]
    assert sent(tables.place(entry(hit=TX_DROP)), frame) == []


# -- what a guest may write


def hostile(hit=0):
    """Entries that make no sense, by what is wrong with them; without that they lead to ``hit``."""
    far = STEERING.start + (1 << 29)
    nonsense = entry(IPV4_5_TUPLE, mask=b"\1", hit=hit)
    return {
        "lookup": nonsense[:6] + b"\x55" + nonsense[7:],
        "format": entry(hit=hit, entry_format=0x33),
        "polarity": entry(hit=hit, match_polarity=1),
        "hash": entry(hit=STEERING.start, size=16, next_lookup=0x01FF, byte_mask=0xFFFF),
        "nowhere": entry(hit=far),
        "own definer": entry(0x0022, hit=hit, entry_format=4),
        "no byte mask": entry(hit=STEERING.start, size=4, entry_format=2),
        "no object": entry(hit=icm_address(IcmKind.TIR, 0xFFFFF)),
        "no table": entry(hit=icm_address(IcmKind.FLOW_TABLE, 0xFFFFF)),
        "vport": entry(hit=icm_address(IcmKind.VPORT_RX, 0)),
        "allow": entry(hit=TX_ALLOW),
        "zero": bytes(64),
        "ones": b"\xff" * 64,
        "counter": entry(hit=hit, counter_id=0xABCDEF),
        "action": entry(hit=hit, action=b"\x21"),
        "list": entry(hit=RX_DROP, action=b"\x0f\xff\xff\xff"),
        "word": entry(hit=hit, action=b"\x06\xff\x20\x20"),
        "bits": entry(hit=hit, action=b"\x06\x08\x3f\x3f"),
        "shifter": entry(hit=hit, action=b"\x06\x08\x00\x20"),
        "reformat": entry(hit=hit, action=b"\x0b\0\0\1\0\0\0\7"),
        "anchor": entry(hit=hit, action=b"\x08\x3f\0\x01"),
        "beyond": entry(hit=hit, action=b"\x08\x00\x7f\x3f"),
        "cut": entry(hit=hit, action=b"\x09\x00\x19\x00"),
        "double at the end": entry(hit=hit, action=b"\0\0\0\0\x0a\0\0\0"),
    }


@pytest.mark.hostile
@pytest.mark.parametrize("what", hostile())
def test_nonsense_is_a_drop(received, tables, tir, hca, what, caplog):
    rqn, address = tir
    with caplog.at_level(logging.WARNING):
        assert received(tables.place(hostile(address)[what])) == []
        assert received(0) == []
    told = [line for line in caplog.messages if "steering entries" in line]
    assert len(told) <= 1  # the same thing is told once
    caplog.clear()
    assert received(tables.place(entry(hit=address))) == [(rqn, 0)]
    assert hca.icm is not None


@pytest.mark.hostile
def test_an_address_inside_an_entry(received, tables, tir):
    _, address = tir
    at = tables.place(bytes(64), bytes(64))
    tables.write(at + 32, entry(hit=address))
    assert received(at + 32) == []


@pytest.mark.hostile
def test_circles_end(received, tables, hca, caplog):
    """Of hits, of misses, of tables; each packet has a bounded cost."""
    at = tables.place(bytes(64))
    tables.write(at, entry(hit=at))
    before = hca.flow_domains[FlowTableType.NIC_RX].steps
    assert received(at) == []
    tables.write(at, always_miss(at))
    assert received(0) == []
    grow = b"\x0a\x00\x0c\x00\x81\x00\x00\x05"
    tables.write(at, entry(hit=at, action=grow))
    assert received(0) == []
    table = tables.table(at)
    tables.write(at, entry(hit=icm_address(IcmKind.FLOW_TABLE, table)))
    assert received(0) == []
    assert hca.flow_domains[FlowTableType.NIC_RX].steps - before < 4 * 6000
    caplog.clear()


def misses(tables, number, end):
    """The first of so many entries: each leads to the next one, and the last to ``end``."""
    at = tables.place(size=number)
    addresses = [*(at + 64 * n for n in range(1, number)), end]
    tables.write(at, b"".join(map(always_miss, addresses)))
    return at


@pytest.mark.hostile
def test_a_sampler_that_is_too_far_away_for_the_second_answer(
    received, tables, driver, flows, tir, hca, caplog
):
    """A walk finds it while its entries are decoded, and the decision for one answer is cached.

    Then other entries have been decoded instead, and the walk for the other answer ends before it.
    """
    rqn, _ = tir
    table = flows.table(1)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(next(iter(hca.tirs)).handle))
    obj = sampler_obj.new(
        table_type=FlowTableType.NIC_RX, sample_ratio=2, sample_table_id=table,
        default_table_id=table, ignore_flow_level=1,
    )  # fmt: skip
    made = driver.must(Op.CREATE_GENERAL_OBJECT, op_mod=GeneralObject.SAMPLER, extra=bytes(obj))
    root = misses(tables, 1500, icm_address(IcmKind.SAMPLER, made.obj_id))
    frame, macs = EthPacket().frame(), [bytes((2, 0, 0, 0, 0, number)) for number in range(2)]
    for mac in macs:
        others = misses(tables, 2048, RX_DROP)
        root = tables.place(entry(**by_smac(mac), hit=others, miss=root))
    assert received(root) == []
    assert received(0) == [(rqn, 0)]
    for mac in macs * 6:
        assert received(0, frame=MACS[:6] + mac + frame[12:]) == []
    assert received(0) == []
    assert [(rqn, 0)] * 2 in [received(0) for _ in range(5)]
    caplog.clear()


@pytest.mark.hostile
def test_software_owns_only_its_own(refused, tables):
    """No groups or entries there; no table of software where there is none."""
    table = tables.table(tables.place(entry(hit=RX_DROP)))
    refused(
        Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, table_type=FlowTableType.NIC_RX, table_id=table
    )
    context = {"sw_owner": 1, "sw_owner_icm_root_0": STEERING.start}
    refused(
        Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, table_type=FlowTableType.RDMA_RX,
        flow_table_context=context,
    )  # fmt: skip


def test_sync(driver, received, tables, tir):
    rqn, address = tir
    assert received(tables.place(entry(hit=address))) == [(rqn, 0)]
    driver.must(Op.SYNC_STEERING)
    assert received(0) == [(rqn, 0)]
    assert alloc_td(driver)


# -- tunnels

LABEL, TAG = b"\x88\x47\x11\x40", b"\x81\x00\x00\x05"


def gre(kind):
    """The headers of a tunnel of frames (0x6558) or of IP packets."""
    outer = EthPacket(protocol=GRE, payload=b"").frame()[: 14 + 20]
    return outer + struct.pack(">HHI", 0x2000, kind, 7)


def reformat(driver, kind, data):
    context = {
        "reformat_type": kind, "reformat_data_size": len(data), "reformat_data": data[:2],
    }  # fmt: skip
    answer = driver.must(
        Op.ALLOC_PACKET_REFORMAT_CONTEXT, packet_reformat_context=context, extra=data[2:]
    )
    return int(answer.packet_reformat_id)


def insert(number, size):
    return bytes((0x0B, 0)) + (size // 2 << 3 | 1).to_bytes(2, "big") + number.to_bytes(4, "big")


def test_tunnel_of_frames(driver, sent, received, tables, tir):
    rqn, address = tir
    outer, frame = gre(0x6558), EthPacket().frame()
    number = reformat(driver, ReformatType.L2_TO_L2_TUNNEL, outer)
    at = tables.place(entry(hit=TX_ALLOW, action=insert(number, len(outer))))
    (wrapped,) = sent(at, frame)
    assert wrapped[len(outer) :] == frame
    decap = b"\x09\x00\x13\x0c"
    assert received(tables.place(entry(hit=address, action=decap)), frame=wrapped) == [(rqn, 0)]
    assert received(0, frame=frame) == []


def test_tunnel_of_packets(driver, sent, received, tables, tir):
    """dr_ste_v1.c: dr_ste_v1_set_encap_l3, dr_ste_v1_set_action_decap_l3_list."""
    rqn, address = tir
    outer, frame = gre(0x800), EthPacket().frame()
    number = reformat(driver, ReformatType.L2_TO_L3_TUNNEL, outer)
    action = b"\x09\x00\x07\x00" + insert(number, len(outer))
    (wrapped,) = sent(tables.place(entry(hit=TX_ALLOW, action=action)), frame)
    assert wrapped[len(outer) :] == frame[14:]
    ethernet = bytes(2) + frame[:14]
    back = [b"\x09\x00\x19\x0c" + bytes(4)]
    back += [b"\x0a\0\0\0" + ethernet[at : at + 4] for at in (12, 8, 4, 0)]
    back += [b"\x08\0\0\x01" + bytes(4)]
    tables.write(HEADER_MODIFY.start, b"".join(back), HEADER_MODIFY)
    at = tables.place(entry(hit=address, action=b"\x0f\x06\x00\x00"))
    assert received(at, frame=wrapped) == [(rqn, 0)]


@pytest.mark.parametrize("header", [LABEL, TAG])
def test_checksums_are_of_the_packet_before_a_header_is_inserted(sent, tables, header):
    """The send WQE requests them of the packet that the driver has given."""
    right = EthPacket(payload=bytes(100)).frame()
    unfinished = right[:50] + b"\xaa\xbb" + right[52:]
    at = tables.place(entry(hit=TX_ALLOW, action=b"\x0a\x00\x0c\x00" + header))
    found = sent(at, unfinished, cs_flags=EthChecksum.L3 | EthChecksum.L4)
    assert found == [right[:12] + header + right[12:]]


# -- other adapters, and the end


class TestConnectx7:
    """The second format numbers the registers of actions differently."""

    @pytest.fixture
    def model(self):
        return with_software_steering(LINKS["connectx7"][PortType.ETH])

    def test_registers(self, sent, tables):
        drop = tables.place(entry(hit=TX_DROP))
        match = tables.place(
            entry(REGISTERS_0, mask=b"\xff" * 4, tag=b"\0\0\x12\x34", miss=drop, hit=TX_ALLOW)
        )
        frame = EthPacket().frame()
        for word, passes in ((0x94, [frame]), (0x90, [])):
            value = bytes((0x06, word, 0x20, 0x20)) + b"\0\0\x12\x34"
            assert sent(tables.place(entry(hit=match, action=value)), frame) == passes


@pytest.mark.parametrize("end", ["reset", "teardown"])
def test_nothing_leads_to_what_is_gone(received, tables, tir, node, clock, end):
    _, address = tir
    received(tables.place(entry(hit=address)))
    old = node.function.hca
    gone = [old.icm, old.steering_memory, *old.flow_tables, *old.objects[SwIcm]]
    if end == "reset":
        gone.append(old)
        node.function.reset()
    else:
        node.driver.must(Op.TEARDOWN_HCA)
    while node.function.deferred_free:
        node.function.deferred_free.free_some()
    assert still_reached([clock, node.function], gone) == []


def test_drops_are_told_by_reason(received, tables, hca):
    """As many reasons as there is room for by name; the log has a line for each."""
    assert "steering_entries" not in adapter(hca)
    at = tables.place(entry(hit=STEERING.start + (1 << 29)))
    for _ in range(3):
        assert received(at) == []
    assert adapter(hca)["steering_entries"] == {
        "no steering entry has been written at the address": 3
    }
    for number in range(1, MAX_REASONS + 10):
        assert received(tables.place(entry(hit=RX_DROP, entry_format=0x10 + number % 200))) == []
    told = adapter(hca)["steering_entries"]
    assert len(told) == MAX_REASONS + 1
    assert told[OTHER_REASONS] == 10
