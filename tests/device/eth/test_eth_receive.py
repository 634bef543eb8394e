"""Frames that come in: steered, checked, stripped, scattered, completed (core/en_rx.c)."""

from dataclasses import replace

import pytest
from helpers.device.credits import credits_of
from helpers.random.examples import examples
from helpers.random.packets import packets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.device.port.eth.plain import plain
from emu.device.port.eth.segment import unsegmented
from emu.device.port.eth.wire import NO_LIMIT
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import STEPS_PER_DELIVERY
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, UDP, EthPacket, checksum, ones_complement_sum
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    create_tis,
    rss,
)
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.rings import rq_fields
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeChecked, CqeHashType, CqeHeader, CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.tir import SelfLbBlock
from layouts.enums.wq import MemRqType, ModifyRq, RqState, WqType
from layouts.enums.wqe import Opcode
from layouts.function.caps import cmd_hca_cap
from layouts.rings.wqe import DATA, NEXT

L2, L3, L4 = CqeChecked.L2, CqeChecked.L3, CqeChecked.L4
ARP = (MACS + b"\x08\x06" + bytes(range(28))).ljust(60, b"\0")
GROUP = b"\x01\x00\x5e\0\0\1"
V6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


@pytest.fixture
def lead(driver, td):
    """Make every frame go to a TIR: to one of an RQ, if it is given none."""

    def to(rqn=None, tirn=None, tag=0):
        tirn = tirn or create_direct_tir(driver, td, rqn)
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        group = flows.group(table, 0, 0)
        flows.set_root(table)
        flows.entry(table, 0, group, to_tir(tirn), tag=tag)

    return to


@pytest.fixture
def rq(node, counter, lead):
    queue = ReceiveQueue(node, counter_set_id=counter)
    lead(queue.rqn)
    return queue


KHZ = 156_250
"""The free-running timer of ConnectX-6 Dx and older."""


def out_of_buffer(driver, counter):
    return driver.must(Op.QUERY_Q_COUNTER, counter_set_id=counter).out_of_buffer


def right_sum(entry, data):
    """Of bytes other than zero the sum is 0xffff and not 0, which Linux takes for wrong."""
    return entry.check_sum == ones_complement_sum(data[14:])


# -- data


def test_a_packet(hca, rq, clock):
    buffers = Buffers(rq)
    frame = EthPacket(payload=bytes(range(200))).frame()
    arrive(hca, Frame(frame))
    ((entry, data),) = buffers.drain()
    assert data == frame
    assert (entry.op_own >> 4, entry.wqe_counter, entry.byte_cnt) == (
        CqeOpcode.RESP_SEND, 0, len(frame),
    )  # fmt: skip
    assert entry.timestamp_h << 32 | entry.timestamp_l == clock.now_ns() * KHZ // 10**6
    assert entry.sop_drop_qpn == 0
    assert entry.srqn == 0
    assert (hca.nic_vport.received.packets, hca.nic_vport.received.octets) == (1, len(frame))


@pytest.mark.parametrize("mode", [0, 1])
def test_nothing_is_written_behind_a_packet(hca, node, lead, mode):
    """mlx5e asks for padding (core/en/params.c: rq_end_pad_mode), which nobody can rely on."""
    rq = ReceiveQueue(node, wq={"end_padding_mode": mode})
    assert rq.query().wq.end_padding_mode == mode
    lead(rq.rqn)
    region, before = node.region(512), b"\xa5" * 512
    region.write(before)
    rq.post((512, region.key, region.va))
    frame = EthPacket(payload=bytes(201)).frame()
    arrive(hca, Frame(frame))
    assert rq.cq.poll().byte_cnt == len(frame)
    assert region.read(0, 512) == frame + before[len(frame) :]


def test_in_order_and_over_the_rings_end(hca, rq):
    buffers = Buffers(rq, count=5)
    for number in range(70):
        frame = EthPacket(payload=bytes([number]) * 100).frame()
        arrive(hca, Frame(frame))
        ((entry, data),) = buffers.drain()
        assert (entry.wqe_counter, data) == (number, frame)
        buffers.post()


@pytest.mark.parametrize("rlky", [True, False])
def test_by_the_reserved_lkey(hca, node, counter, lead, rlky):
    """A physical address: only a queue that says so may be filled by it."""
    rq = ReceiveQueue(node, log_stride=4, counter_set_id=counter, rlky=rlky)
    lead(rq.rqn)
    (address,) = node.memory.pages(4096)
    rq.post((2048, node.driver.must(Op.QUERY_SPECIAL_CONTEXTS).resd_lkey, address))
    arrive(hca, Frame(ARP))
    (done,) = rq.cq.drain()
    assert done.syndrome == (0 if rlky else CqeSyndrome.LOCAL_PROT_ERR)
    assert node.memory.read(address, len(ARP)) == (ARP if rlky else bytes(len(ARP)))


def test_counter_goes_over_65535(hca, rq):
    buffers = Buffers(rq, count=0)
    rq.posted = 0xFFFA
    rq.object.queue._consumed = 0xFFFA
    for _ in range(10):
        buffers.post()
    for _ in range(10):
        arrive(hca, Frame(ARP))
    assert [entry.wqe_counter for entry, _ in buffers.drain()] == [
        number & 0xFFFF for number in range(0xFFFA, 0x10004)
    ]


@pytest.mark.parametrize("sizes", [(64, 100, 2000), (1664, 2048), (14, 1, 1, 300, 2000)])
@pytest.mark.parametrize("size", [60, 164, 165, 1000, 1500])
def test_scattered_over_fragments(hca, node, counter, lead, sizes, size):
    rq = ReceiveQueue(node, log_stride=7, counter_set_id=counter)
    lead(rq.rqn)
    buffers = Buffers(rq, *sizes)
    frame = MACS + b"\x08\x06" + bytes(number & 0xFF for number in range(size - 14))
    arrive(hca, Frame(frame))
    assert [data for _, data in buffers.drain()] == [frame]


def test_exactly_full(hca, rq):
    buffers = Buffers(rq, 60)
    arrive(hca, Frame(ARP))
    assert [data for _, data in buffers.drain()] == [ARP]


def test_longer_than_the_request(hca, rq, driver, counter):
    """Dropped, and the request stays for the next one: rx_oversize_pkts_buffer of ethtool -S."""
    buffers = Buffers(rq, 60)
    arrive(hca, Frame(EthPacket(payload=bytes(100)).frame()))
    arrive(hca, Frame(ARP))
    ((entry, data),) = buffers.drain()
    assert (entry.wqe_counter, data) == (0, ARP)
    assert driver.must(Op.QUERY_VNIC_ENV).vport_env.eth_wqe_too_small == 1
    assert out_of_buffer(driver, counter) == 0


def test_no_request(hca, rq, driver, counter):
    arrive(hca, Frame(ARP))
    assert out_of_buffer(driver, counter) == 1
    buffers = Buffers(rq, count=1)
    for _ in range(3):
        arrive(hca, Frame(ARP))
    assert len(buffers.drain()) == 1
    assert out_of_buffer(driver, counter) == 3


def test_counter_that_a_queue_gets_when_it_starts(hca, node, driver, counter, lead):
    """As mlx5_ib does it for raw packet queue pairs, which it makes without a counter set."""
    general = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL << 1 | CapMode.CUR)
    assert cmd_hca_cap.view(general.capability).modify_rq_counter_set_id
    queue = ReceiveQueue(node, ready=False)
    mask = ModifyRq.RQ_COUNTER_SET_ID
    queue.modify(RqState.RDY, ctx={"counter_set_id": counter}, modify_bitmask=mask)
    lead(queue.rqn)
    arrive(hca, Frame(ARP))
    assert out_of_buffer(driver, counter) == 1


def test_a_checksum_that_is_filled_in_is_believed(hca, rq):
    buffers = Buffers(rq)
    frame = EthPacket(payload=bytes(range(100))).frame()
    arrive(hca, Frame(frame, checked=True, filled=True))
    ((entry, data),) = buffers.drain()
    assert data == frame
    assert right_sum(entry, frame)


def test_room_for_frames(hca, node, lead, counter, clock):
    """Of queues that a network interface has, and that are in use."""
    assert credits_of(hca, clock) == NO_LIMIT
    ReceiveQueue(node, log_size=10, wq={"pd": 0})  # mlx5e's, which only drops
    small, large = ReceiveQueue(node, log_size=4), ReceiveQueue(node, log_size=6)
    lead(large.rqn)
    Buffers(small, count=2)
    buffers = Buffers(large, count=3)
    assert credits_of(hca, clock) == NO_LIMIT
    arrive(hca, Frame(ARP))
    assert credits_of(hca, clock) == 2
    arrive(hca, Frame(ARP))
    arrive(hca, Frame(ARP))
    assert credits_of(hca, clock) == 0
    assert len(buffers.drain()) == 3
    large.modify(RqState.ERR)
    assert credits_of(hca, clock) == NO_LIMIT


def test_drop_queue_counts(hca, node, driver, counter, lead):
    rq = ReceiveQueue(node, log_size=0, log_stride=4, counter_set_id=counter, wq={"pd": 0})
    lead(rq.rqn)
    arrive(hca, Frame(ARP))
    assert out_of_buffer(driver, counter) == 1


def test_nobody_wants_it(hca, driver):
    arrive(hca, Frame(ARP))
    assert driver.must(Op.QUERY_VNIC_ENV).vport_env.nic_receive_steering_discard == 1
    assert hca.nic_vport.received.packets == 1


def test_nobody_wants_a_super_frame(hca, driver):
    """It counts as the packets that it stands for."""
    packet = EthPacket(payload=bytes(2500))
    arrive(hca, Frame(unsegmented(packet.header(), packet.payload, 1000), 1000, checked=True))
    assert driver.must(Op.QUERY_VNIC_ENV).vport_env.nic_receive_steering_discard == 3
    assert hca.nic_vport.received.packets == 3


@pytest.mark.parametrize("state", [RqState.RST, RqState.ERR])
def test_queue_that_is_not_ready(hca, node, rq, state):
    buffers = Buffers(rq, count=0)
    rq.modify(state)
    arrive(hca, Frame(ARP))
    assert buffers.drain() == []


def test_link_down(hca, rq):
    buffers = Buffers(rq)
    hca.eth.set_link(up=False)
    arrive(hca, Frame(ARP))
    assert (buffers.drain(), hca.nic_vport.received.packets) == ([], 0)


def test_longer_than_the_mtu(hca, rq):
    longest = hca.nic_vport.oper_mtu - 4
    buffers = Buffers(rq)
    arrive(hca, Frame(MACS + b"\x08\x06" + bytes(longest - 14)))
    arrive(hca, Frame(MACS + b"\x08\x06" + bytes(longest - 13)))
    assert [len(data) for _, data in buffers.drain()] == [longest]
    assert (hca.nic_vport.received.too_long, hca.nic_vport.received.errors) == (1, 1)


@pytest.mark.parametrize("wq_type", [WqType.CYCLIC, WqType.LINKED_LIST])
def test_kinds_of_work_queue(hca, node, lead, wq_type):
    rq = ReceiveQueue(node, log_stride=6, wq={"wq_type": wq_type})
    lead(rq.rqn)
    buffers = Buffers(rq)
    for _ in range(3):
        arrive(hca, Frame(ARP))
    assert [(entry.wqe_counter, data) for entry, data in buffers.drain()] == [
        (0, ARP), (1, ARP), (2, ARP),
    ]  # fmt: skip


@pytest.mark.parametrize("wq_type", [WqType.CYCLIC, WqType.LINKED_LIST])
def test_rst_forgets_a_request_that_was_too_small(hca, node, lead, wq_type):
    """It stays the next one only until then: its memory is the driver's again."""
    rq = ReceiveQueue(node, log_stride=6, wq={"wq_type": wq_type})
    lead(rq.rqn)
    old = node.region(64)
    rq.post((32, old.key, old.va))
    arrive(hca, Frame(ARP))
    for state in (RqState.RST, RqState.RDY):
        rq.modify(state)
    buffers = Buffers(rq, count=1)
    arrive(hca, Frame(ARP))
    assert [(entry.wqe_counter, data) for entry, data in buffers.drain()] == [(0, ARP)]


def test_over_a_memory_pool(hca, node, driver, lead):
    """And its limit event, as of a shared receive queue."""
    rmp, cq = node.shared_queue(form="ring"), node.completion_queue()
    region = node.region(4096)
    fields, _ = rq_fields(driver, node.pdn, cq.cqn, mem_rq_type=MemRqType.RMP, rmpn=rmp.srqn)
    rqn = driver.must(Op.CREATE_RQ, **fields).rqn
    driver.must(Op.MODIFY_RQ, rqn=rqn, rq_state=RqState.RST, ctx={"state": RqState.RDY})
    lead(rqn)
    rmp.post(region.sge(0, 100))
    rmp.post(region.sge(100, 100))
    rmp.arm(2)
    arrive(hca, Frame(ARP))
    assert region.read(0, 60) == ARP
    assert [(done.opcode, done.byte_cnt) for done in cq.drain()] == [(CqeOpcode.RESP_SEND, 60)]
    assert node.events() == [(EventType.SRQ_RQ_LIMIT, rmp.srqn)]


# -- what the completion says


@pytest.mark.parametrize(
    ("packet", "checked", "kind"),
    [
        (EthPacket(), L2 | L3 | L4, CqeHeader.IPV4 | CqeHeader.TCP_ACK_AND_DATA),
        (EthPacket(**V6), L2 | L3 | L4, CqeHeader.IPV6 | CqeHeader.TCP_ACK_AND_DATA),
        (EthPacket(protocol=UDP, chain=UDP), L2 | L3 | L4, CqeHeader.IPV4 | CqeHeader.UDP),
        (
            EthPacket(protocol=UDP, chain=UDP, checked=False),
            L2 | L3 | L4, CqeHeader.IPV4 | CqeHeader.UDP,
        ),
        (EthPacket(protocol=1, chain=1, payload=bytes(20)), L2 | L3, CqeHeader.IPV4),
        (EthPacket(fragment=0x2000), L2 | L3, CqeHeader.IPV4 | CqeHeader.FRAGMENT),
        (
            EthPacket(tags=((0x8100, 5),)),
            L2 | L3 | L4, CqeHeader.IPV4 | CqeHeader.TCP_ACK_AND_DATA,
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 7, 200, 1301])
def test_checksums(hca, rq, packet, checked, kind, size):
    """check_sum covers all that follows the Ethernet header, padding included."""
    if packet.protocol != 1:
        packet = replace(packet, payload=bytes(number & 0xFF for number in range(size)))
    if not size and kind & CqeHeader.TCP_ACK_AND_DATA:
        kind = kind & ~CqeHeader.TCP_ACK_AND_DATA | CqeHeader.TCP_ACK_NO_DATA
    frame = packet.frame().ljust(60, b"\x55")
    buffers = Buffers(rq)
    arrive(hca, Frame(frame))
    ((entry, data),) = buffers.drain()
    assert (data, entry.hds_ip_ext, entry.l4_l3_hdr_type) == (frame, checked, kind)
    assert right_sum(entry, data)


# As DPDK reads the completion (mlx5_rxtx.c: mlx5_set_ptype_table): the value of bits 7:2 of
# l4_l3_hdr_type says which of its packet types this is.
PACKET_TYPES = {
    0x00: "ETHER",
    0x01: "IPV6 NONFRAG", 0x02: "IPV4 NONFRAG",
    0x21: "IPV6 FRAG", 0x22: "IPV4 FRAG",
    0x05: "IPV6 TCP", 0x06: "IPV4 TCP", 0x0D: "IPV6 TCP", 0x0E: "IPV4 TCP",
    0x11: "IPV6 TCP", 0x12: "IPV4 TCP",
    0x09: "IPV6 UDP", 0x0A: "IPV4 UDP",
}  # fmt: skip

VXLAN = EthPacket(
    protocol=UDP, chain=UDP, ports=bytes.fromhex("123412b5"),
    payload=bytes.fromhex("0800000000000100") + EthPacket(**V6).frame(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("packet", "name", "kind"),
    [
        (EthPacket(flags=0x02), "IPV4 TCP", CqeHeader.TCP_NO_ACK),
        (EthPacket(flags=0x10, payload=b""), "IPV4 TCP", CqeHeader.TCP_ACK_NO_DATA),
        (
            EthPacket(flags=0x10, payload=b"", options=bytes(12)), "IPV4 TCP",
            CqeHeader.TCP_ACK_NO_DATA,
        ),
        (EthPacket(flags=0x18), "IPV4 TCP", CqeHeader.TCP_ACK_AND_DATA),
        (EthPacket(flags=0x04, **V6), "IPV6 TCP", CqeHeader.TCP_NO_ACK),
        (EthPacket(flags=0x11, payload=b"", **V6), "IPV6 TCP", CqeHeader.TCP_ACK_NO_DATA),
        (EthPacket(**V6), "IPV6 TCP", CqeHeader.TCP_ACK_AND_DATA),
        (EthPacket(protocol=UDP, chain=UDP), "IPV4 UDP", CqeHeader.UDP),
        (EthPacket(protocol=UDP, chain=UDP, **V6), "IPV6 UDP", CqeHeader.UDP),
        (EthPacket(protocol=1, chain=1, payload=bytes(20)), "IPV4 NONFRAG", 0),
        (EthPacket(protocol=58, chain=58, payload=bytes(20), **V6), "IPV6 NONFRAG", 0),
        (EthPacket(fragment=0x2000), "IPV4 FRAG", CqeHeader.FRAGMENT),
        (EthPacket(protocol=UDP, chain=UDP, fragment=0x0010), "IPV4 FRAG", CqeHeader.FRAGMENT),
        (
            EthPacket(chain=44, extra=bytes.fromhex("0600000112345678"), **V6),
            "IPV6 FRAG", CqeHeader.FRAGMENT,
        ),
        (VXLAN, "IPV4 UDP", CqeHeader.UDP),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tags", [(), ((0x8100, 5),)])
def test_kinds_of_packet(hca, rq, packet, name, kind, tags):
    """By the outer headers, as the function has no tunnel offloads."""
    buffers = Buffers(rq)
    arrive(hca, Frame(replace(packet, tags=tags).frame().ljust(60, b"\0")))
    ((entry, _),) = buffers.drain()
    version = CqeHeader.IPV4 if packet.version == 4 else CqeHeader.IPV6
    assert entry.l4_l3_hdr_type & ~CqeHeader.VLAN_STRIPPED == version | kind
    assert PACKET_TYPES[entry.l4_l3_hdr_type >> 2] == name
    assert entry.tls_outer_l3_tunneled == 0


def test_sum_of_a_packet_whose_parts_sum_up_to_zero(hca, rq):
    """As an ICMP message does: 0xffff."""
    message = bytearray(b"\x08\0\0\0" + bytes(range(60)))
    message[2:4] = checksum(bytes(message)).to_bytes(2, "big")
    buffers = Buffers(rq)
    arrive(hca, Frame(EthPacket(protocol=1, chain=1, payload=bytes(message)).frame()))
    ((entry, _),) = buffers.drain()
    assert entry.check_sum == 0xFFFF


def test_other_ethertypes(hca, rq):
    buffers = Buffers(rq)
    arrive(hca, Frame(ARP))
    ((entry, data),) = buffers.drain()
    assert (entry.hds_ip_ext, entry.l4_l3_hdr_type) == (L2, 0)
    assert right_sum(entry, data)


@pytest.mark.parametrize(("at", "checked"), [(24, L2), (50, L2 | L3), (70, L2 | L3)])
def test_wrong_checksums(hca, rq, at, checked):
    frame = bytearray(EthPacket(payload=bytes(range(100))).frame())
    frame[at] ^= 0x11
    buffers = Buffers(rq)
    arrive(hca, Frame(bytes(frame)))
    ((entry, data),) = buffers.drain()
    assert entry.hds_ip_ext == checked
    assert right_sum(entry, data)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tags", [(), ((0x8100, 5),)])
@pytest.mark.parametrize("vsd", [0, 1])
def test_checksums_that_the_sender_left_out(hca, node, lead, version, tags, vsd):
    """They are computed here, and need not be looked at again."""
    rq = ReceiveQueue(node, vsd=vsd)
    lead(rq.rqn)
    packet = EthPacket(payload=bytes(range(250)), tags=tags, **(V6 if version == 6 else {}))
    right = packet.frame()
    wrong = bytearray(right)
    at = packet.l4 + 16
    wrong[at : at + 2] = b"\x12\x34"
    if version == 4:
        wrong[packet.l3 + 10 : packet.l3 + 12] = b"\0\0"
    buffers = Buffers(rq)
    arrive(hca, Frame(bytes(wrong), checked=True))
    ((entry, data),) = buffers.drain()
    assert data == (right if vsd else right[:12] + right[12 + 4 * len(tags) :])
    assert entry.hds_ip_ext == L2 | L3 | L4
    assert right_sum(entry, data)


@pytest.mark.parametrize(
    ("tags", "tci", "left"),
    [
        (((0x8100, 0x6005),), 0x6005, ()),
        (((0x8100, 0x0007), (0x8100, 9)), 7, ((0x8100, 9),)),
        (((0x88A8, 5),), None, ((0x88A8, 5),)),
        (((0x88A8, 5), (0x8100, 6)), None, ((0x88A8, 5), (0x8100, 6))),
        ((), None, ()),
    ],
)
def test_tag_stripped(hca, node, lead, tags, tci, left):
    rq = ReceiveQueue(node, vsd=0)
    lead(rq.rqn)
    buffers = Buffers(rq)
    packet = EthPacket(tags=tags, payload=bytes(range(100)))
    arrive(hca, Frame(packet.frame()))
    packet.tags = left
    ((entry, data),) = buffers.drain()
    assert data == packet.frame()
    assert entry.l4_l3_hdr_type & 1 == (tci is not None)
    assert entry.vlan_info == (tci or 0)
    assert entry.byte_cnt == len(packet.frame())
    assert entry.hds_ip_ext == L2 | L3 | L4
    assert right_sum(entry, data)


@pytest.mark.parametrize(("tos", "ce"), [(0, 0), (1, 0), (2, 0), (3, 0x80), (0xFF, 0x80)])
@pytest.mark.parametrize("version", [4, 6])
def test_congestion_mark(hca, rq, tos, ce, version):
    buffers = Buffers(rq)
    arrive(hca, Frame(EthPacket(tos=tos, **(V6 if version == 6 else {})).frame()))
    ((entry, _),) = buffers.drain()
    assert entry.ml_path == ce


def test_flow_tag(hca, node, lead):
    rq = ReceiveQueue(node)
    lead(rq.rqn, tag=0x123456)
    buffers = Buffers(rq)
    arrive(hca, Frame(ARP))
    ((entry, _),) = buffers.drain()
    assert entry.sop_drop_qpn == 0x123456


def test_hash_spreads_over_queues(hca, node, driver, td, lead):
    rqs = [ReceiveQueue(node) for _ in range(4)]
    buffers = [Buffers(rq) for rq in rqs]
    rqtn = create_rqt(driver, [rq.rqn for rq in rqs])
    lead(tirn=create_indirect_tir(driver, td, rqtn, **rss()))
    for port in range(16):
        arrive(hca, Frame(EthPacket(ports=(port << 16 | 80).to_bytes(4, "big")).frame()))
    counts = []
    for number, place in enumerate(buffers):
        found = place.drain()
        counts.append(len(found))
        for entry, _ in found:
            assert entry.rss_hash_result % 4 == number
            assert entry.rss_hash_type == CqeHashType.IPV4 | CqeHashType.L4_TCP
    assert sum(counts) == 16
    assert all(counts)


def test_two_queues_get_one_packet(hca, node, driver, td):
    """One wants the tag, the other has it stripped."""
    rqs = [ReceiveQueue(node), ReceiveQueue(node, vsd=0)]
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirs = [create_direct_tir(driver, td, rq.rqn) for rq in rqs]
    flows.entry(table, 0, flows.group(table, 0, 0), *map(to_tir, tirs))
    buffers = [Buffers(rq) for rq in rqs]
    packet = EthPacket(tags=((0x8100, 5),))
    arrive(hca, Frame(packet.frame()))
    lengths = [[entry.byte_cnt for entry, _ in place.drain()] for place in buffers]
    assert lengths == [[len(packet.frame())], [max(len(packet.frame()) - 4, 0)]]


def test_one_event_for_many(hca, node, clock, lead):
    """cq_period and cq_max_count, as mlx5e sets them."""
    cq = node.completion_queue(cq_period=16, cq_max_count=4)
    rq = ReceiveQueue(node, cq=cq)
    lead(rq.rqn)
    buffers = Buffers(rq)
    cq.arm()
    for _ in range(3):
        arrive(hca, Frame(ARP))
    assert cq.events() == 0
    clock.advance(16_000)
    assert cq.events() == 1
    buffers.drain()
    cq.arm()
    for _ in range(4):
        arrive(hca, Frame(ARP))
    assert cq.events() == 1


# -- super-frames


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("vsd", [0, 1])
@pytest.mark.parametrize("tags", [(), ((0x8100, 5),)])
def test_super_frame_is_cut(hca, node, lead, version, vsd, tags):
    rq = ReceiveQueue(node, log_size=6, vsd=vsd)
    lead(rq.rqn)
    buffers = Buffers(rq, count=40)
    payload = bytes(range(251)) * 110
    packet = EthPacket(payload=payload[:1000], tags=tags, **(V6 if version == 6 else {}))
    frame = Frame(unsegmented(packet.header(), payload, 1000), 1000, checked=True)
    arrive(hca, frame)
    found = buffers.drain()
    expected = plain(frame)
    if not vsd and tags:
        expected = [data[:12] + data[16:] for data in expected]
    assert [data for _, data in found] == expected
    for entry, data in found:
        assert right_sum(entry, data)
        assert entry.hds_ip_ext == L2 | L3 | L4
    header = len(packet.header())
    assert hca.nic_vport.received.packets == len(expected)
    assert hca.nic_vport.received.octets == len(expected) * header + len(payload)


THREE_TAGS = (0x88A8, 1), (0x8100, 2), (0x8100, 3)


def test_super_frame_behind_three_tags_is_cut(hca, node, lead):
    """More than tables match: an entry of a switch may push the third."""
    rq = ReceiveQueue(node, log_size=6)
    lead(rq.rqn)
    buffers = Buffers(rq, count=40)
    payload = bytes(range(251)) * 21
    packet = EthPacket(payload=payload)
    cut = plain(Frame(unsegmented(packet.header(), payload, 1000), 1000, checked=True))
    front = replace(packet, tags=THREE_TAGS).front
    arrive(hca, Frame(front + packet.frame()[14:], 1000, checked=True))
    found = buffers.drain()
    assert [data for _, data in found] == [front + data[14:] for data in cut]
    assert all(right_sum(entry, data) for entry, data in found)
    assert hca.nic_vport.received.errors == 0


def test_checksums_behind_three_tags_are_filled_in(hca, rq):
    buffers = Buffers(rq)
    packet = EthPacket(payload=b"data" * 50, tags=THREE_TAGS)
    arrive(hca, Frame(replace(packet, checked=False).frame(), checked=True))
    assert [data for _, data in buffers.drain()] == [packet.frame()]


def test_short_end_of_a_super_frame_is_padded(hca, rq):
    buffers = Buffers(rq)
    packet = EthPacket(payload=b"x" * 100)
    arrive(hca, Frame(unsegmented(packet.header(), packet.payload, 99), 99, checked=True))
    (_, (entry, data)) = buffers.drain()
    assert len(data) == 60
    assert right_sum(entry, data)
    assert entry.hds_ip_ext == L2 | L3 | L4


def test_super_frame_above_the_mtu(hca, rq):
    buffers = Buffers(rq)
    payload = bytes(9000)
    packet = EthPacket(payload=b"")
    arrive(hca, Frame(unsegmented(packet.header(), payload, 3000), 3000, checked=True))
    assert buffers.drain() == []
    assert hca.nic_vport.received.too_long == 3


@pytest.mark.hostile
@pytest.mark.parametrize(
    "frame",
    [
        Frame(ARP, 100),
        Frame(b"", 100),
        Frame(EthPacket(payload=bytes(100)).frame(), 1 << 40),
        Frame(EthPacket(payload=bytes(3000)).frame(), 1),
        Frame(EthPacket(payload=bytes(100)).frame(), -5),
        Frame(EthPacket(payload=b"").frame(), 5),
        Frame(EthPacket(fragment=0x2000, payload=bytes(100)).frame(), 10),
    ],
)
def test_super_frame_that_lies(hca, rq, frame):
    Buffers(rq)
    arrive(hca, frame)
    assert not hca.health.has_failed
    assert len(rq.cq.drain()) <= 1
    received = hca.nic_vport.received
    assert received.packets + received.errors == 1


# -- loopback


def test_frame_to_the_functions_other_domain(hca, node, driver, eth_wire, lead):
    """Two raw packet queue pairs of one adapter, in contexts of their own."""
    rq = ReceiveQueue(node)
    lead(rq.rqn)
    buffers = Buffers(rq)
    sq = SendQueue(node, tisn=create_tis(driver, alloc_td(driver)))
    own = hca.nic_vport.permanent_address + ARP[6:]
    group = GROUP + ARP[6:]
    for data in (own, group, ARP):
        sq.send(data)
    node.settle()
    assert [data for _, data in buffers.drain()] == [own, group]
    assert [frame.data for frame in eth_wire.sent()] == [group, ARP]
    counted = driver.must(Op.QUERY_VPORT_COUNTER)
    names = ("transmitted_eth_unicast", "transmitted_eth_multicast", "transmitted_eth_broadcast")
    assert sum(getattr(counted, name).packets for name in names) == 3
    assert (counted.received_eth_unicast.packets, counted.local_loopback.packets) == (1, 2)
    assert [way.packets for way in hca.nic_vport.port_traffic()] == [2, 0]


def test_frame_to_ones_own_domain(hca, node, driver, td, eth_wire, lead):
    """Only when the TIR says so (core/en_common.c: mlx5e_refresh_tirs)."""
    rq, sq = ReceiveQueue(node), SendQueue(node, tisn=create_tis(driver, td))
    tirn = create_direct_tir(driver, td, rq.rqn)
    lead(tirn=tirn)
    buffers = Buffers(rq)
    own = hca.nic_vport.permanent_address + ARP[6:]
    sq.send(own)
    node.settle()
    assert buffers.drain() == []
    assert (hca.nic_vport.steering_discards, hca.nic_vport.received.packets) == (0, 0)
    assert hca.nic_vport.sent.without(hca.nic_vport.looped_out).packets == 0
    allowed = {"self_lb_block": SelfLbBlock.BLOCK_UNICAST}
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"self_lb_en": 1}, ctx=allowed)
    sq.send(own)
    node.settle()
    assert [data for _, data in buffers.drain()] == [own]
    assert eth_wire.sent() == []


@pytest.mark.parametrize("is_first", [True, False], ids=["TIR first", "SQ first"])
def test_frame_to_a_group_within_a_domain(node, driver, td, eth_wire, lead, is_first):
    """A TIR does not know the send queues that are made after it until it is refreshed."""
    tisn = create_tis(driver, td)
    sq = None if is_first else SendQueue(node, tisn=tisn)
    rq = ReceiveQueue(node)
    tirn = create_direct_tir(driver, td, rq.rqn)
    lead(tirn=tirn)
    buffers = Buffers(rq)
    sq = sq or SendQueue(node, tisn=tisn)
    sent = GROUP + ARP[6:]
    for is_heard in (is_first, False):
        sq.send(sent)
        node.settle()
        assert [data for _, data in buffers.drain()] == [sent] * is_heard
        assert [frame.data for frame in eth_wire.sent()] == [sent]
        driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"self_lb_en": 1}, ctx={})


@pytest.mark.parametrize("kept", ["disable_uc_local_lb", "disable_mc_local_lb"])
def test_frames_that_do_not_come_back_to_the_vport(hca, node, driver, eth_wire, lead, kept):
    """core/main.c: mlx5_core_set_hca_defaults. What is for the own address still stays here."""
    rq = ReceiveQueue(node)
    lead(tirn=create_direct_tir(driver, alloc_td(driver), rq.rqn))
    buffers = Buffers(rq)
    sq = SendQueue(node, tisn=create_tis(driver, alloc_td(driver)))
    own, group = (to + ARP[6:] for to in (hca.nic_vport.permanent_address, GROUP))
    for is_kept in (True, False):
        driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={kept: 1},
            nic_vport_context={kept: int(is_kept)},
        )  # fmt: skip
        sq.send(own)
        sq.send(group)
        node.settle()
        looped = [own, group]
        if is_kept:
            looped.remove(own if kept == "disable_uc_local_lb" else group)
        assert [data for _, data in buffers.drain()] == looped
        assert [frame.data for frame in eth_wire.sent()] == [group]
    counted = driver.must(Op.QUERY_VPORT_COUNTER)
    assert counted.local_loopback.packets == 3
    assert [way.packets for way in hca.nic_vport.port_traffic()] == [2, 0]


def test_super_frame_to_ones_own_domain(hca, node, driver, td, eth_wire, lead):
    """Nothing has been received, and nothing is missing."""
    sq = SendQueue(node, tisn=create_tis(driver, td))
    lead(tirn=create_direct_tir(driver, td, ReceiveQueue(node).rqn))
    region = node.region(4096)
    headers = hca.nic_vport.permanent_address + EthPacket(payload=b"").frame()[6:]
    sq.send((2500, region.key, region.va), opcode=Opcode.LSO, mss=1000, headers=headers)
    node.settle()
    assert [done.opcode for done in sq.cq.drain()] == [CqeOpcode.REQ]
    assert (hca.nic_vport.steering_discards, hca.nic_vport.received.packets) == (0, 0)
    assert eth_wire.sent() == []


# -- what is wrong


@pytest.mark.hostile
@pytest.mark.parametrize("sge", [(2048, 0x12300, 0), (2048, None, 1 << 40), (2048, None, -1)])
def test_key_that_does_not_allow_it(hca, node, rq, sge):
    """The request completes in error, and the driver recovers (core/en/reporter_rx.c)."""
    region = node.region(4096)
    rq.post((sge[0], sge[1] or region.key, region.va + sge[2]))
    rq.post((2048, region.key, region.va))
    arrive(hca, Frame(ARP))
    (failed,) = rq.cq.drain()[:1]
    assert (failed.opcode, failed.syndrome) == (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_PROT_ERR)
    assert (failed.vendor, failed.hw) == ((0x32, (0, 146)) if sge[1] else (0x33, (0, 157)))
    assert rq.query().state == RqState.ERR
    rq.state = RqState.ERR
    rq.modify(RqState.RST)
    rq.modify(RqState.RDY)
    rq.cq.drain()
    rq.post((2048, region.key, region.va))
    arrive(hca, Frame(ARP))
    assert [done.opcode for done in rq.cq.drain()] == [CqeOpcode.RESP_SEND]
    assert region.read(0, 60) == ARP


@pytest.mark.hostile
def test_key_without_the_right_to_write(hca, node, rq):
    region = node.region(4096, lw=0)
    rq.post((2048, region.key, region.va))
    arrive(hca, Frame(ARP))
    assert [done.syndrome for done in rq.cq.drain()][:1] == [CqeSyndrome.LOCAL_PROT_ERR]
    assert region.read(0, 60) == bytes(60)


@pytest.mark.hostile
def test_queue_without_a_domain_takes_nothing(hca, node, lead):
    rq = ReceiveQueue(node, wq={"pd": 0})
    lead(rq.rqn)
    region = node.region(4096)
    rq.post((2048, region.key, region.va))
    arrive(hca, Frame(ARP))
    assert [done.syndrome for done in rq.cq.drain()][:1] == [CqeSyndrome.LOCAL_PROT_ERR]


@pytest.mark.hostile
def test_ring_that_is_gone(hca, node, memory, rq):
    Buffers(rq)
    memory.revoke(rq.ring.pages[0])
    arrive(hca, Frame(ARP))
    arrive(hca, Frame(ARP))
    assert node.events() == [(EventType.WQ_CATAS_ERROR, rq.rqn)]
    assert rq.query().state == RqState.ERR


@pytest.mark.hostile
def test_memory_pool_that_is_gone(hca, node, driver, memory, lead):
    rmp, cq = node.shared_queue(form="ring"), node.completion_queue()
    fields, _ = rq_fields(driver, node.pdn, cq.cqn, mem_rq_type=MemRqType.RMP, rmpn=rmp.srqn)
    rqn = driver.must(Op.CREATE_RQ, **fields).rqn
    driver.must(Op.MODIFY_RQ, rqn=rqn, rq_state=RqState.RST, ctx={"state": RqState.RDY})
    lead(rqn)
    memory.revoke(rmp.record)
    arrive(hca, Frame(ARP))
    assert node.events() == [
        (EventType.SRQ_CATAS_ERROR, rmp.srqn), (EventType.WQ_CATAS_ERROR, rqn),
    ]  # fmt: skip


@pytest.mark.hostile
def test_bus_mastering_off(hca, memory, rq):
    Buffers(rq)
    memory.permit(False)
    arrive(hca, Frame(ARP))
    memory.permit(True)
    assert not hca.health.has_failed
    assert rq.query().state == RqState.ERR


@pytest.mark.hostile
def test_destroyed_while_frames_come(hca, driver, node, lead, td):
    """TIR first, then RQ: what comes then is discarded."""
    rq = ReceiveQueue(node)
    buffers = Buffers(rq)
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    group = flows.group(table, 0, 0)
    flows.set_root(table)
    tirn = create_direct_tir(driver, td, rq.rqn)
    flows.entry(table, 0, group, to_tir(tirn))
    arrive(hca, Frame(ARP))
    driver.must(Op.DELETE_FLOW_TABLE_ENTRY, table_id=table, flow_index=0)
    driver.must(Op.DESTROY_TIR, tirn=tirn)
    driver.must(Op.DESTROY_RQ, rqn=rq.rqn)
    arrive(hca, Frame(ARP))
    assert len(buffers.drain()) == 1


@pytest.mark.hostile
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(
    frame=st.one_of(
        st.binary(max_size=200),
        st.integers(0, 65536).map(lambda size: MACS + b"\x08\x00\x45" + bytes(size)),
        packets().map(lambda packet: packet.frame()),
        packets().flatmap(
            lambda packet: st.tuples(
                st.just(packet.frame()), st.integers(0, 100), st.integers(0, 255)
            ).map(lambda bad: bad[0][: bad[1]] + bytes([bad[2]]) + bad[0][bad[1] + 1 :])
        ),
    ),
    gso_size=st.sampled_from([0, 0, 0, 1, 8, 100, 1448, 65535]),
    checked=st.booleans(),
)
def test_any_frame(hca, node, lead, frame, gso_size, checked):
    """Dropped or delivered, never an exception; what is delivered is described rightly."""
    if not hca.rqs:
        rq = ReceiveQueue(node, log_size=7, vsd=0)
        lead(rq.rqn)
        node.buffers = Buffers(rq, count=100)
    buffers = node.buffers
    arrive(hca, Frame(frame, gso_size, checked))
    assert not hca.health.has_failed
    assert buffers.rq.query().state == RqState.RDY
    for entry, data in buffers.drain():
        assert entry.op_own >> 4 == CqeOpcode.RESP_SEND
        assert len(data) == entry.byte_cnt
        assert right_sum(entry, data)
        if entry.hds_ip_ext & L4:
            assert parse(data).version
        buffers.post()


@pytest.fixture
def many_queues(node, driver, td):
    """Every frame goes to 64 queues, each of which has a buffer for it."""
    rqs = [ReceiveQueue(node, log_size=7) for _ in range(64)]
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirs = [to_tir(create_direct_tir(driver, td, rq.rqn)) for rq in rqs]
    flows.entry(table, 0, flows.group(table, 0, 0), *tirs)
    region = node.region(2048)
    for rq in rqs:
        for _ in range(100):
            rq.post((2048, region.key, region.va))
    return rqs


@pytest.mark.unobserved("it counts the steps of rounds, of which observers take their part")
@pytest.mark.hostile
@pytest.mark.parametrize("packets", [64, 60])
def test_copies_of_a_super_frame_are_bounded(hca, node, many_queues, packets):
    """2048 packets may be cut from one, over all queues that it goes to."""
    queues = 2048 // packets
    header = EthPacket(payload=b"").frame()
    arrive(hca, Frame(unsegmented(header, bytes(packets * 100), 100), 100, checked=True))
    node.settle()
    counts = [len(rq.cq.drain()) for rq in many_queues]
    assert counts == [packets] * queues + [0] * (64 - queues)
    assert hca.nic_vport.received.discards == (64 - queues) * packets


@pytest.mark.hostile
def test_a_round_ends_when_frames_cost_much(hca, node, driver, many_queues):
    """Groups come back to the function: each frame is received 64 times."""
    sq = SendQueue(node, log_size=7, tisn=create_tis(driver, alloc_td(driver)))
    for _ in range(50):
        sq.send(GROUP + ARP[6:], ring=False)
    sq.ring_doorbell()
    most = before = rounds = 0
    while node.function.run():
        rounds += 1
        sent = hca.nic_vport.sent.packets
        most, before = max(most, sent - before), sent
    assert hca.nic_vport.sent.packets == 50
    assert most <= POLL_BUDGET // (64 * STEPS_PER_DELIVERY) + 1
    assert rounds >= 3


@pytest.mark.hostile
@pytest.mark.parametrize("following", [16, 0xFFFF, 0])
def test_list_with_a_bad_link(hca, node, lead, following):
    """Out of the list, or to a request that has been used just now."""
    rq = ReceiveQueue(node, log_stride=6, wq={"wq_type": WqType.LINKED_LIST})
    lead(rq.rqn)
    buffers = Buffers(rq)
    rq.ring.write(64, NEXT.pack(following))
    for _ in range(4):
        arrive(hca, Frame(ARP))
    assert node.events() == [(EventType.WQ_CATAS_ERROR, rq.rqn)]
    assert rq.query().state == RqState.ERR
    assert len([entry for entry, _ in buffers.drain() if entry.op_own >> 4 == 2]) <= 2


@pytest.mark.hostile
@pytest.mark.parametrize("wq_type", [WqType.CYCLIC, WqType.LINKED_LIST])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(
    wqe=st.one_of(
        st.binary(min_size=64, max_size=64),
        st.lists(
            st.tuples(
                st.sampled_from([0, 1, 60, 1 << 31, 1 << 31 | 50, 0x7FFFFFFF]),
                st.sampled_from([0x100, 0, 0x20000, None, None]),
                st.sampled_from([0, 0x40000, 0x40000 - 1, (1 << 64) - 1]),
            ),
            max_size=4,
        ),
    ),
)
def test_any_receive_request(hca, node, lead, wqe, wq_type):
    """Filled, or an error, or too small: the function lives, and so do its other queues."""
    if not hca.rqs:
        node.target = node.region(4096, va=0x40000)
        node.rq = ReceiveQueue(node, log_stride=6, wq={"wq_type": wq_type})
        lead(node.rq.rqn)
    rq = node.rq
    if isinstance(wqe, list):
        wqe = b"".join(DATA.pack(size, key or node.target.key, at) for size, key, at in wqe)
    rq.ring.write(rq.posted % rq.size * rq.stride, wqe.ljust(64, b"\0"))
    rq.posted += 1
    rq.write_record()
    for frame in (ARP, EthPacket(payload=bytes(300)).frame()):
        arrive(hca, Frame(frame))
    assert not hca.health.has_failed
    node.settle()
    node.events()
    rq.cq.drain()
    rq.state = RqState(rq.query().state)
    if rq.state is RqState.ERR:
        rq.modify(RqState.RST)
        rq.modify(RqState.RDY)
