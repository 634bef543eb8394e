"""Frames that Ethernet send queues send: data, headers, checksums, tags, LSO (core/en_tx.c)."""

from dataclasses import replace

import pytest
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.models import LINKS
from emu.device.port.eth.frame import MAX_BYTES
from emu.device.port.eth.plain import plain
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.vport import InlineMode
from layouts.enums.wq import SqState
from layouts.enums.wqe import EthChecksum, Opcode

BOTH = EthChecksum.L3 | EthChecksum.L4
PAGE = 4096
ARP = MACS + b"\x08\x06" + bytes(range(28))


@pytest.fixture
def region(node):
    return node.region(1 << 18, va=0x10000)


@pytest.fixture
def sent(node, eth_wire):
    """Let the device work; the frames that have left it."""

    def look():
        node.settle()
        return eth_wire.sent()

    return look


@pytest.fixture
def put(region):
    """Put bytes into the region; the segment that names them."""

    def into(data, at=0):
        region.write(data, at)
        return len(data), region.key, region.va + at

    return into


def data_of(frames):
    return [frame.data for frame in frames]


def syndromes(sq):
    return [(done.opcode, done.syndrome) for done in sq.cq.drain()]


# -- SEND


def test_a_frame(node, sq, put, sent):
    frame = EthPacket(payload=bytes(range(200))).frame()
    index = sq.send(put(frame))
    assert [(one.data, one.gso_size, one.checked) for one in sent()] == [(frame, 0, False)]
    (done,) = sq.cq.drain()
    assert (done.opcode, done.wqe_counter, done.qpn) == (CqeOpcode.REQ, index, sq.sqn)


def test_by_the_reserved_lkey(node, driver, sent):
    """Snabb's driver has no other key: its queues say that they use physical addresses."""
    sq = SendQueue(node, tisn=create_tis(driver, alloc_td(driver)), rlky=1, fre=1)
    (address,) = node.memory.pages(PAGE)
    frame = EthPacket(payload=bytes(range(200))).frame()
    node.memory.write(address + 16, frame[16:])
    key = driver.must(Op.QUERY_SPECIAL_CONTEXTS).resd_lkey
    sq.send((len(frame) - 16, key, address + 16), headers=frame[:16])
    assert data_of(sent()) == [frame]


def test_from_several_segments(sq, put, sent):
    """A head and fragments, over page ends."""
    frame = EthPacket(payload=bytes(range(256)) * 5).frame()
    sges = [put(frame[:70], PAGE - 30), put(frame[70:1000], 3 * PAGE - 500), put(frame[1000:], 9)]
    sq.send(*sges)
    assert data_of(sent()) == [frame]


@pytest.mark.parametrize("size", [14, 15, 16, 18, 30, 54, 66])
def test_inline_headers(sq, put, sent, size):
    """Inline mode L2 or IP: the rest is in the data segments."""
    frame = EthPacket(payload=bytes(range(100))).frame()
    sq.send(put(frame[size:]), headers=frame[:size])
    assert data_of(sent()) == [frame]


def test_all_of_it_inline(sq, sent):
    frame = EthPacket(payload=bytes(range(100))).frame()
    sq.send(headers=frame)
    sq.send(frame)
    sq.send(frame[40:], headers=frame[:40])
    assert data_of(sent()) == [frame] * 3


def test_many_frames_and_one_doorbell(sq, put, sent):
    """Only the last one asks for a completion, as with xmit_more."""
    sge = put(ARP.ljust(60, b"\0"))
    for _ in range(30):
        last = sq.send(sge, ring=False, flags=0)
    last = sq.send(sge)
    assert len(sent()) == 31
    assert [done.wqe_counter for done in sq.cq.drain()] == [last]


def test_short_frames_are_padded(sq, put, sent, node):
    sq.send(put(ARP))
    assert data_of(sent()) == [ARP.ljust(60, b"\0")]
    assert node.hca.nic_vport.sent.octets == 60


@pytest.mark.parametrize("svlan", [False, True])
def test_tag_inserted(sq, put, sent, svlan):
    packet = EthPacket(payload=bytes(100))
    sq.send(put(packet.frame()), vlan=0x6123, svlan=svlan)
    packet.tags = ((0x88A8 if svlan else 0x8100, 0x6123),)
    assert data_of(sent()) == [packet.frame()]


def test_tag_counts_when_a_frame_is_padded(sq, put, sent):
    sq.send(put(ARP), vlan=5)
    (frame,) = data_of(sent())
    assert frame == (ARP[:12] + b"\x81\x00\x00\x05" + ARP[12:]).ljust(60, b"\0")


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("tags", [(), ((0x8100, 7),)])
def test_checksums_asked_for_are_made_good(sq, put, sent, version, protocol, tags):
    """The frame says that they are; who needs them has them computed."""
    addresses = {} if version == 4 else {"source": bytes(16), "destination": bytes(range(16))}
    packet = EthPacket(
        version=version, protocol=protocol, chain=protocol, tags=tags, payload=b"x" * 333,
        **addresses,
    )  # fmt: skip
    right = packet.frame()
    l3 = 14 + 4 * len(tags)
    at = l3 + (20 if version == 4 else 40) + (16 if protocol == TCP else 6)
    wrong = bytearray(right)
    wrong[at : at + 2] = b"\x12\x34"
    if version == 4:
        wrong[l3 + 10 : l3 + 12] = b"\0\0"
    sq.send(put(bytes(wrong)), cs_flags=BOTH)
    (frame,) = sent()
    assert frame.checked
    assert plain(frame) == [right]


@pytest.mark.parametrize("flag", [EthChecksum.L3, EthChecksum.L4])
def test_one_checksum_alone(sq, put, sent, flag):
    right = EthPacket(payload=b"x" * 333).frame()
    wrong = bytearray(right)
    wrong[24:26] = wrong[50:52] = b"\x12\x34"
    sq.send(put(bytes(wrong)), cs_flags=flag)
    (frame,) = sent()
    assert not frame.checked
    assert (frame.data[24:26] == right[24:26]) == (flag is EthChecksum.L3)
    assert (frame.data[50:52] == right[50:52]) == (flag is EthChecksum.L4)


def test_without_flags_bytes_go_as_they_are(sq, put, sent):
    frame = bytearray(EthPacket(payload=bytes(100)).frame())
    frame[24:26] = b"\0\0"
    sq.send(put(bytes(frame)))
    assert data_of(sent()) == [bytes(frame)]


# -- LSO


def lso(sq, put, packet, mss, **options):
    """A large send of a packet: its headers inline, its payload in pieces."""
    header = replace(packet, payload=b"").frame()
    sges = [
        put(packet.payload[start : start + 32768], start)
        for start in range(0, len(packet.payload), 32768)
    ]
    return sq.send(*sges, opcode=Opcode.LSO, cs_flags=BOTH, mss=mss, headers=header, **options)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tags", [(), ((0x8100, 7),)])
def test_large_send_leaves_whole(node, sq, put, sent, version, tags):
    addresses = {} if version == 4 else {"source": bytes(16), "destination": bytes(range(16))}
    payload = bytes(range(251)) * 240
    packet = EthPacket(version=version, tags=tags, payload=payload, flags=0x19, **addresses)
    lso(sq, put, packet, 1400)
    (frame,) = sent()
    assert (frame.gso_size, frame.checked) == (1400, True)
    count = -(-len(payload) // 1400)
    at = len(packet.frame()) - len(payload)
    assert (node.hca.nic_vport.sent.packets, node.hca.nic_vport.sent.octets) == (
        count, count * at + len(payload),
    )  # fmt: skip
    expected = []
    for number in range(count):
        piece = EthPacket(version=version, tags=tags, **addresses)
        piece.payload = payload[number * 1400 :][:1400]
        piece.sequence = packet.sequence + number * 1400
        piece.identifier = packet.identifier + number
        piece.flags = 0x19 if number == count - 1 else 0x10
        expected.append(piece.frame())
    assert plain(frame) == expected


def test_large_send_of_datagrams(sq, put, sent):
    packet = EthPacket(protocol=UDP, chain=UDP, payload=bytes(range(200)) * 20)
    lso(sq, put, packet, 1000)
    (frame,) = sent()
    cut = plain(frame)
    assert [len(one) for one in cut] == [1042] * 4
    assert (
        cut[1]
        == EthPacket(
            protocol=UDP, chain=UDP, payload=packet.payload[1000:2000], identifier=0x1235
        ).frame()
    )


@pytest.mark.parametrize("size", [1, 999, 1000])
def test_large_send_of_one_packet(sq, put, sent, size):
    packet = EthPacket(payload=bytes(size))
    lso(sq, put, packet, 1000)
    (frame,) = sent()
    assert frame.gso_size == 0
    assert frame.data == packet.frame().ljust(60, b"\0")


@pytest.mark.parametrize(("size", "count"), [(65535 - 40, 1), (65535 - 39, 47)])
def test_the_longest_large_send(sq, put, sent, size, count):
    lso(sq, put, EthPacket(payload=bytes(size)), 1400)
    assert len(sent()) == count


def test_more_than_ip_has_a_length_for(sq, put, sent):
    """BIG TCP: the length in the header is 0 (core/en_tx.c: mlx5e_tx_get_gso_ihs)."""
    addresses = {"source": bytes(16), "destination": bytes(range(16))}
    payload = bytes(range(256)) * 400
    packet = EthPacket(version=6, payload=payload[:1400], **addresses)
    header = bytearray(packet.frame()[: -len(packet.payload)])
    header[18:20] = b"\0\0"
    sges = [put(payload[at : at + 32768], at) for at in range(0, len(payload), 32768)]
    sq.send(*sges, opcode=Opcode.LSO, cs_flags=BOTH, mss=1400, headers=bytes(header))
    frames = sent()
    assert len(frames) == -(-len(payload) // 1400)
    assert (
        frames[0].data
        == EthPacket(version=6, payload=payload[:1400], flags=0x10, **addresses).frame()
    )
    assert b"".join(frame.data[74:] for frame in frames) == payload


# -- what the port does not let out


def test_nothing_leaves_while_the_link_is_down(node, sq, put, sent):
    node.hca.eth.set_link(up=False)
    sq.send(put(ARP))
    assert sent() == []
    assert node.hca.nic_vport.sent.discards == 1
    assert [done.opcode for done in sq.cq.drain()] == [CqeOpcode.REQ]


def test_longer_than_the_mtu(node, sq, put, sent):
    longest = node.hca.nic_vport.oper_mtu - 4
    sq.send(put(MACS + b"\x08\x06" + bytes(longest - 14)))
    sq.send(put(MACS + b"\x08\x06" + bytes(longest - 13)))
    lso(sq, put, EthPacket(payload=bytes(9000)), 3000)
    assert [len(frame.data) for frame in sent()] == [longest]
    port = node.hca.nic_vport.sent
    assert (port.packets, port.too_long, port.errors) == (1, 4, 4)
    assert [done.opcode for done in sq.cq.drain()] == [CqeOpcode.REQ] * 3


# -- bad requests


LOCAL_QP_OP, LOCAL_LENGTH, LOCAL_PROT = (
    CqeSyndrome.LOCAL_QP_OP_ERR, CqeSyndrome.LOCAL_LENGTH_ERR, CqeSyndrome.LOCAL_PROT_ERR,
)  # fmt: skip
TCP_HEADER = EthPacket(payload=b"").frame()
RESERVED = "the reserved lkey"


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("request_", "syndrome"),
    [
        ({"sges": [b"x" * 13]}, LOCAL_QP_OP),
        ({"sges": []}, LOCAL_QP_OP),
        ({"sges": [(0, None, 0)]}, LOCAL_LENGTH),
        ({"sges": [(1 << 20, None, 0)]}, LOCAL_LENGTH),
        ({"sges": [(40000, None, 0), (40000, None, 0)]}, LOCAL_LENGTH),
        ({"sges": [(MAX_BYTES, None, 0), b"x"]}, LOCAL_LENGTH),
        ({"sges": [(60, 0x100, 0)]}, LOCAL_PROT),
        ({"sges": [(60, RESERVED, 0)]}, LOCAL_PROT),
        ({"sges": [(60, None, 1 << 40)]}, LOCAL_PROT),
        ({"sges": [(60, None, 1 << 18)]}, LOCAL_PROT),
        ({"sges": [(1 << 31 | 200).to_bytes(4, "big")]}, None),
        ({"sges": [(100, None, 0)], "opcode": Opcode.LSO, "mss": 10}, LOCAL_QP_OP),
        ({"sges": [(100, None, 0)], "opcode": Opcode.LSO, "mss": 0, "headers": TCP_HEADER},
         LOCAL_QP_OP),
        ({"sges": [], "opcode": Opcode.LSO, "mss": 10, "headers": TCP_HEADER}, LOCAL_QP_OP),
        ({"sges": [(100, None, 0)], "opcode": Opcode.LSO, "mss": 10, "headers": TCP_HEADER[:-1]},
         LOCAL_QP_OP),
        ({"sges": [(100, None, 0)], "opcode": Opcode.LSO, "mss": 10, "headers": ARP}, LOCAL_QP_OP),
        ({"sges": [(100, None, 0)], "opcode": Opcode.LSO, "mss": 10, "headers": b"x"},
         LOCAL_QP_OP),
        ({"sges": [(1 << 18, None, 0)], "opcode": Opcode.LSO, "mss": 1, "headers": TCP_HEADER},
         LOCAL_QP_OP),
        ({"sges": [(MAX_SEGMENTS + 1, None, 0)], "opcode": Opcode.LSO, "mss": 1,
          "headers": TCP_HEADER}, LOCAL_QP_OP),
        ({"sges": [(1 << 18, None, 0), (1, None, 0)], "opcode": Opcode.LSO, "mss": 1000,
          "headers": TCP_HEADER}, LOCAL_LENGTH),
        ({"sges": [(60, None, 0)], "opcode": Opcode.RDMA_WRITE}, LOCAL_QP_OP),
    ],
)  # fmt: skip
def test_bad_request(node, sq, region, sent, request_, syndrome):
    """Completes in error, and nothing of it leaves; the next one waits for the driver."""
    options = dict(request_)
    reserved = node.driver.must(Op.QUERY_SPECIAL_CONTEXTS).resd_lkey
    keys = {None: region.key, RESERVED: reserved}
    sges = [
        sge if isinstance(sge, bytes)
        else (sge[0], keys.get(sge[1], sge[1]), region.va + sge[2])
        for sge in options.pop("sges")
    ]  # fmt: skip
    if syndrome is None:  # an inline segment that leaves the WQE
        body = bytes(16) + sges[0].ljust(16, b"\0")
        sq.post(Opcode.SEND, body)
        syndrome = LOCAL_QP_OP
    else:
        sq.send(*sges, **options)
    assert sent() == []
    assert syndromes(sq) == [(CqeOpcode.REQ_ERR, syndrome)]
    assert sq.query().state == SqState.ERR


@pytest.mark.hostile
@pytest.mark.parametrize(("ds", "why"), [(0, "ds is 0"), (1, "no space for the Ethernet")])
def test_ds_without_room(sq, sent, ds, why, caplog):
    sq.post(Opcode.SEND, bytes(48), ds=ds)
    assert sent() == []
    assert (CqeOpcode.REQ_ERR, LOCAL_QP_OP) in syndromes(sq)
    assert why in caplog.text


def test_no_inline_headers_and_something_in_their_place(sq, sent):
    """Only the size says whether there are any."""
    data = (1 << 31 | len(ARP)).to_bytes(4, "big") + ARP
    sq.post(Opcode.SEND, bytes(14) + b"xx" + data)
    (frame,) = sent()
    assert frame.data.startswith(ARP)


@pytest.mark.hostile
def test_inline_headers_that_leave_the_request(sq, sent):
    body = bytes(12) + (18).to_bytes(2, "big") + b"x" * 2
    sq.post(Opcode.SEND, body)
    assert sent() == []
    assert syndromes(sq) == [(CqeOpcode.REQ_ERR, LOCAL_QP_OP)]


def test_queue_without_a_tis_sends_nothing(node, put, sent):
    sq = SendQueue(node)
    sq.send(put(ARP))
    assert sent() == []
    assert syndromes(sq) == [(CqeOpcode.REQ_ERR, LOCAL_QP_OP)]


@pytest.mark.hostile
def test_key_of_another_domain(node, sq, driver, sent):
    other = node.region(4096, pd=driver.alloc_pd())
    sq.send((60, other.key, other.va))
    assert sent() == []
    assert [(done.syndrome, done.vendor) for done in sq.cq.drain()] == [(LOCAL_PROT, 0x52)]


@pytest.mark.hostile
def test_memory_that_is_gone(node, sq, region, put, sent):
    sge = put(ARP)
    node.memory.revoke(region.pages[0])
    sq.send(sge)
    assert sent() == []
    assert syndromes(sq) == [(CqeOpcode.REQ_ERR, LOCAL_PROT)]


@pytest.mark.hostile
def test_bus_mastering_off(node, sq, put, sent, memory):
    """The ring cannot be read: no completion, one event, and it goes on after a recovery."""
    sge = put(ARP)
    sq.send(sge)
    memory.permit(False)
    assert sent() == []
    memory.permit(True)
    assert sq.cq.drain() == []
    sq.state = SqState.ERR
    sq.modify(SqState.RST)
    sq.modify(SqState.RDY)
    sq.send(sge)
    assert len(sent()) == 1


@pytest.mark.hostile
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(
    body=st.binary(max_size=240),
    opcode=st.sampled_from([Opcode.SEND, Opcode.LSO, Opcode.NOP, 0x29, 0xFF]),
    ds=st.one_of(st.none(), st.integers(0, 63)),
    patch=st.sampled_from([b"", bytes(16), bytes(12) + b"\0\x36"]),
)
def test_random_requests(node, driver, eth_wire, region, body, opcode, ds, patch):
    """Whatever a request says: it completes, perhaps in error, and the queue recovers."""
    sq = node.__dict__.setdefault("random_sq", None) or SendQueue(
        node, tisn=create_tis(driver, alloc_td(driver))
    )
    node.random_sq = sq
    sq.post(opcode, (patch + body)[:240], ds=ds)
    node.settle()
    eth_wire.sent()
    node.events()
    sq.cq.drain()
    sq.state = SqState(sq.query().state)
    if sq.state is SqState.ERR:
        sq.modify(SqState.RST)
        sq.modify(SqState.RDY)
    sq.send(ARP)
    node.settle()
    assert [frame.data[:42] for frame in eth_wire.sent()] == [ARP]
    assert [done.opcode for done in sq.cq.drain()] == [CqeOpcode.REQ]


# -- inline modes


class TestWithHeadersInline:
    """ConnectX-4 Lx: the Ethernet header is in the request (vport.c: mlx5_query_min_inline)."""

    @pytest.fixture
    def model(self):
        return LINKS["connectx4lx"][PortType.ETH]

    @pytest.fixture
    def sq(self, node, driver):
        tisn = create_tis(driver, alloc_td(driver))
        return SendQueue(node, tisn=tisn, min_wqe_inline_mode=InlineMode.L2)

    def test_what_the_driver_reads(self, driver, node):
        answer = driver.must(Op.QUERY_NIC_VPORT_CONTEXT, out_extra=8)
        assert answer.nic_vport_context.min_wqe_inline_mode == InlineMode.L2
        offloads = node.hca.caps.ethernet
        assert (offloads.wqe_inline_mode, offloads.wqe_vlan_insert) == (1, 0)

    @pytest.mark.parametrize("size", [14, 18, 54])
    def test_enough(self, sq, put, sent, size):
        frame = EthPacket(payload=bytes(100)).frame()
        sq.send(put(frame[size:]), headers=frame[:size])
        assert data_of(sent()) == [frame]

    @pytest.mark.parametrize("size", [0, 2, 13])
    def test_too_little(self, sq, put, sent, size):
        """A public log of such a card has syndrome 1, vendor syndrome 0x68."""
        frame = EthPacket(payload=bytes(100)).frame()
        sq.send(put(frame[size:]), headers=frame[:size])
        assert sent() == []
        assert syndromes(sq) == [(CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_LENGTH_ERR)]

    def test_a_queue_that_does_not_ask_for_it(self, node, driver, put, sent):
        queue = SendQueue(node, tisn=create_tis(driver, alloc_td(driver)))
        frame = EthPacket(payload=bytes(100)).frame()
        queue.send(put(frame))
        assert data_of(sent()) == [frame]
