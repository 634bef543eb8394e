"""Large receive offload: merged packets of striding queues (en_rx.c: mlx5e_lro_update_hdr)."""

from dataclasses import replace
from struct import pack_into, unpack_from

import pytest

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import segment, unsegmented
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import UDP, EthPacket, checksum, ones_complement_sum
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.tir import PacketMerge
from layouts.enums.wq import RqState
from layouts.rings.eth_cqe import LRO_PSH, cqe_lro

BOTH = {"packet_merge_mask": 3, "lro_max_ip_payload_size": 255}
V6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}
ACK, PSH, FIN, SYN, CWR = 0x10, 0x08, 0x01, 0x02, 0x80
MSS = 1400


@pytest.fixture
def lead(driver, td):
    def to(rqn, **context):
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tirn = create_direct_tir(driver, td, rqn, **context)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
        return tirn

    return to


@pytest.fixture
def rq(node):
    """Strides of 256 bytes, as mlx5e has with LRO; a request of 128 KiB holds two packets."""
    queue = StridingQueue(node, log_size=2, log_count=9, log_stride_size=8)
    queue.post_more(3)
    return queue


def stream(size, flags=ACK, mss=MSS, **options):
    """A super-frame, its header, its payload."""
    payload = bytes(n * 7 + (n >> 8) & 0xFF for n in range(size))
    header = EthPacket(payload=b"x", flags=flags, **options).header()
    return Frame(unsegmented(header, payload, mss), mss, checked=True), header, payload


def as_the_driver_ends_it(data, entry):
    """The packet after the driver has corrected its headers: right by its own checksums."""
    frame = bytearray(data)
    lro = cqe_lro.view(bytes(entry.buf), 4)
    l3 = 14
    version = frame[l3] >> 4
    l4 = l3 + (20 if version == 4 else 40)
    if version == 4:
        frame[l3 + 8] = lro.min_ttl
        pack_into(">H", frame, l3 + 2, len(frame) - l3)
        pack_into(">H", frame, l3 + 10, 0)
        pack_into(">H", frame, l3 + 10, checksum(bytes(frame[l3:l4])))
        addresses = bytes(frame[l3 + 12 : l3 + 20])
    else:
        frame[l3 + 7] = lro.min_ttl
        pack_into(">H", frame, l3 + 4, len(frame) - l4)
        addresses = bytes(frame[l3 + 8 : l3 + 40])
    frame[l4 + 13] = frame[l4 + 13] & ~PSH | (PSH if lro.tcppsh_abort_dupack & LRO_PSH else 0)
    pack_into(">I", frame, l4 + 8, lro.ack_seq_num)
    pack_into(">H", frame, l4 + 14, lro.tcp_win)
    pack_into(">H", frame, l4 + 16, 0)
    header = bytes(frame[l4 : l4 + (frame[l4 + 12] >> 4) * 4])
    pseudo = addresses + (len(frame) - l4).to_bytes(4, "big") + b"\0\0\0\6"
    parts = [ones_complement_sum(header), ones_complement_sum(pseudo), entry.check_sum]
    total = ones_complement_sum(b"".join(part.to_bytes(2, "big") for part in parts))
    pack_into(">H", frame, l4 + 16, total ^ 0xFFFF)
    return bytes(frame)


def whole(frame):
    """Whether a packet's transport checksum is right."""
    version, l3 = frame[14] >> 4, 14
    l4 = l3 + (20 if version == 4 else 40)
    addresses = frame[l3 + 12 : l4] if version == 4 else frame[l3 + 8 : l4]
    pseudo = addresses + (len(frame) - l4).to_bytes(4, "big") + b"\0\0\0\6"
    return ones_complement_sum(pseudo + frame[l4:]) == 0xFFFF


def segments(piece):
    return piece.entry.srqn >> 24


@pytest.mark.parametrize("fields", [{}, V6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("size", [2 * MSS, 10 * MSS + 100, 44 * MSS])
def test_one_packet_of_many(hca, rq, lead, fields, size):
    lead(rq.rqn, **BOTH)
    frame, header, payload = stream(size, ACK | PSH, **fields)
    arrive(hca, frame)
    (piece,) = rq.drain()
    assert segments(piece) == -(-size // MSS)
    merged = as_the_driver_ends_it(piece.data, piece.entry)
    assert whole(merged)
    assert merged[len(header) :] == payload
    assert merged[len(header) - 20 + 13] == ACK | PSH
    assert hca.nic_vport.received.packets == -(-size // MSS)


@pytest.mark.parametrize("flags", [ACK, ACK | FIN])
def test_short_packets(hca, rq, lead, flags):
    """A merged packet ends with its payload; a single one is padded."""
    lead(rq.rqn, **BOTH)
    frame, header, payload = stream(4, flags, mss=1)
    arrive(hca, frame)
    merged, *single = rq.drain()
    count = 3 if flags & FIN else 4
    assert segments(merged) == count
    assert merged.data == merged.data[: len(header)] + payload[:count]
    assert [len(piece.data) for piece in single] == [60] * (4 - count)


def test_what_the_completion_tells(hca, rq, lead):
    lead(rq.rqn, **BOTH)
    frame, header, payload = stream(3 * MSS)
    arrive(hca, frame)
    (piece,) = rq.drain()
    lro = cqe_lro.view(bytes(piece.entry.buf), 4)
    acknowledgment, window = unpack_from(">I", header, 42)[0], unpack_from(">H", header, 48)[0]
    assert (lro.min_ttl, lro.tcp_win, lro.ack_seq_num) == (64, window, acknowledgment)
    assert not lro.tcppsh_abort_dupack
    assert piece.entry.check_sum == ones_complement_sum(payload)
    assert piece.entry.l4_l3_hdr_type >> 4 & 7 == 4  # TCP with acknowledgment and data
    assert piece.entry.srqn & 0xFFFFFF == 0


def test_longer_than_a_merged_packet_may_be(hca, rq, lead):
    """Each has the first one's headers: its sequence number and identifier go on."""
    lead(rq.rqn, packet_merge_mask=1, lro_max_ip_payload_size=40)
    frame, header, payload = stream(20 * MSS, ACK | PSH)
    arrive(hca, frame)
    pieces = rq.drain()
    assert [segments(piece) for piece in pieces] == [7, 7, 6]
    ended = [as_the_driver_ends_it(piece.data, piece.entry) for piece in pieces]
    assert all(map(whole, ended))
    assert b"".join(data[len(header) :] for data in ended) == payload
    first = unpack_from(">I", header, 38)[0]
    assert [unpack_from(">I", data, 38)[0] - first for data in ended] == [0, 7 * MSS, 14 * MSS]
    assert [data[47] & PSH for data in ended] == [0, 0, PSH]
    identifiers = [unpack_from(">H", data, 18)[0] for data in ended]
    assert identifiers == [0x1234, 0x1234 + 7, 0x1234 + 14]


def test_the_last_packet_of_a_connection_stands_alone(hca, rq, lead):
    lead(rq.rqn, **BOTH)
    frame, header, payload = stream(3 * MSS + 10, ACK | PSH | FIN)
    arrive(hca, frame)
    merged, last = rq.drain()
    assert (segments(merged), segments(last)) == (3, 0)
    assert last.data == segment(header, payload, MSS)[-1].ljust(60, b"\0")
    assert not as_the_driver_ends_it(merged.data, merged.entry)[47] & (FIN | PSH)


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        (ACK | SYN, {}),
        (ACK | CWR, {}),
        (PSH, {}),
        (ACK, {"extra": bytes(4)}),
        (ACK, {"protocol": UDP, "chain": UDP}),
    ],
    ids=["SYN", "CWR", "no ACK", "IP options", "UDP"],
)
def test_what_is_not_merged(hca, rq, lead, flags, fields):
    lead(rq.rqn, **BOTH)
    frame, header, payload = stream(3 * MSS, flags, **fields)
    arrive(hca, frame)
    pieces = rq.drain()
    assert [segments(piece) for piece in pieces] == [0, 0, 0]
    assert [piece.data for piece in pieces] == segment(header, payload, MSS)


def test_datagrams_whose_payload_looks_like_flags(hca, rq, lead):
    """Where TCP has its flags they have an ACK alone."""
    lead(rq.rqn, **BOTH)
    header = EthPacket(protocol=UDP, chain=UDP, payload=b"x").header()
    payload = bytes((ACK,)) * (3 * MSS)
    arrive(hca, Frame(unsegmented(header, payload, MSS), MSS, checked=True))
    pieces = rq.drain()
    assert [segments(piece) for piece in pieces] == [0, 0, 0]
    assert [piece.data for piece in pieces] == segment(header, payload, MSS)


@pytest.mark.parametrize(
    ("mask", "version"), [(PacketMerge.IPV6_LRO, 4), (PacketMerge.IPV4_LRO, 6)]
)
def test_only_the_versions_of_the_mask(hca, rq, lead, mask, version):
    lead(rq.rqn, **BOTH | {"packet_merge_mask": mask})
    frame, _, _ = stream(3 * MSS, **(V6 if version == 6 else {}))
    arrive(hca, frame)
    assert [segments(piece) for piece in rq.drain()] == [0, 0, 0]


def test_single_packets_are_not_waited_for(hca, rq, lead):
    lead(rq.rqn, **BOTH)
    _, header, payload = stream(3 * MSS)
    for data in segment(header, payload, MSS):
        arrive(hca, Frame(data))
        assert [segments(piece) for piece in rq.drain()] == [0]


def test_a_queue_without_strides_gets_packets(hca, node, lead):
    rq = ReceiveQueue(node)
    region = node.region(4 * 2048, va=0x40000)
    for n in range(4):
        rq.post((2048, region.key, region.va + 2048 * n))
    lead(rq.rqn, **BOTH)
    frame, _, _ = stream(3 * MSS)
    arrive(hca, frame)
    done = rq.cq.drain()
    assert [entry.opcode for entry in done] == [CqeOpcode.RESP_SEND] * 3


def test_requests_shorter_than_a_merged_packet(hca, node, lead):
    """8 strides of 1 KiB hold five segments."""
    rq = StridingQueue(node, log_size=2, log_count=3, log_stride_size=10)
    rq.post_more(3)
    lead(rq.rqn, **BOTH)
    frame, _, payload = stream(10 * MSS)
    arrive(hca, frame)
    pieces = [piece for piece in rq.drain() if not piece.is_filler]
    assert [segments(piece) for piece in pieces] == [5, 5]
    assert b"".join(piece.data[54:] for piece in pieces) == payload


def test_the_ends_of_requests_are_no_room(hca, rq, lead):
    """What a link's peer may send is what fits if each request's end is too short."""
    lead(rq.rqn, **BOTH)
    frame, _, _ = stream(40 * MSS, ACK | PSH)
    arrive(hca, frame)
    (piece,) = rq.drain()
    longest = 54 + 255 * 256
    free = 2 * (512 - -(-longest // 256) + 1) + max(512 - piece.strides - 255, 0)
    assert rq.object.frames(1514) == free // 6


def test_turned_on_and_off(hca, rq, lead, driver):
    """ethtool -K lro: MODIFY_TIR (core/en/rss.c: mlx5e_rss_packet_merge_set_param)."""
    tirn = lead(rq.rqn)
    seen = []
    for context in ({}, BOTH, {"packet_merge_mask": 0}):
        if context:
            driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"packet_merge": 1}, ctx=context)
        arrive(hca, stream(2 * MSS)[0])
        seen.append([segments(piece) for piece in rq.drain()])
    assert seen == [[0, 0], [2], [0, 0]]


@pytest.mark.parametrize("state", [RqState.ERR])
def test_a_stopped_queue_gets_none(hca, rq, lead, state):
    lead(rq.rqn, **BOTH)
    rq.modify(state)
    arrive(hca, stream(3 * MSS)[0])
    assert [piece for piece in rq.drain() if segments(piece)] == []


def test_broken_super_frames_are_dropped(hca, rq, lead):
    """Headers that contradict each other: counted, and nobody is harmed."""
    lead(rq.rqn, **BOTH)
    frame, _, _ = stream(3 * MSS)
    for at, value in ((14, 0x4F), (46, 0xF0), (16, 0xFF)):
        data = bytearray(frame.data)
        data[at] = value
        arrive(hca, replace(frame, data=bytes(data)))
    arrive(hca, replace(frame, gso_size=1))
    assert not hca.health.has_failed


def test_an_adapter_without(function, driver, td, rq, refused):
    function.hca.caps.ethernet.lro_cap = 0
    refused(
        Status.BAD_PARAM_ERR, Op.CREATE_TIR,
        ctx={"transport_domain": td, "inline_rqn": rq.rqn, "packet_merge_mask": 1},
    )  # fmt: skip
