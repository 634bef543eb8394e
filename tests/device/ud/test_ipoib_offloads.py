"""Datagrams of IP over InfiniBand: checksums and large sends.

Source: hw/wr.c: handle_qpt_ud, set_eth_seg; hw/cq.c: handle_responder.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.ib import ipoib
from emu.driver.ethernet.frames import TCP, UDP, EthPacket, checksum
from emu.driver.verbs.channels import GRH_BYTES, QKEY
from emu.driver.verbs.segments import data_segments
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeChecked, CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import EthChecksum, Opcode
from layouts.rings.eth_wqe import ETH, INLINE_HDR_START
from layouts.rings.wqe import av

BASIC = {"ulp_stateless_offload_mode": 1}
BOTH = int(EthChecksum.L3 | EthChecksum.L4)
GOOD = CqeChecked.L3 | CqeChecked.L4
V6 = {
    "version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2",
}  # fmt: skip
ROOM = 4096 + GRH_BYTES


def packet_of(packet):
    """A packet's bytes behind an encapsulation header."""
    ethertype = b"\x08\x00" if packet.version == 4 else b"\x86\xdd"
    return ethertype + b"\0\0" + packet.frame()[packet.l3 :]


def without_checksums(packet):
    """The same with other values where its checksums are."""
    data = bytearray(packet_of(packet))
    at = packet.l4 - packet.l3 + 4
    data[at + (16 if packet.protocol == TCP else 6)] ^= 0xAA
    if packet.version == 4:
        data[4 + 10] ^= 0x55
    return bytes(data)


class Ipoib:
    """Two queue pairs with offloads, and the receiver's memory."""

    def __init__(self, ends, receives=64, **context):
        self.left, self.right = ends
        self.sender, self.receiver = (
            node.queue_pair(QpType.UD, **BASIC | context) for node in ends
        )
        for qp in (self.sender, self.receiver):
            qp.init(q_key=QKEY, mtu=5, log_msg_max=12)
            qp.to_rtr(mtu=0, log_msg_max=0)
            qp.to_rts(0x10)
        self.source, self.target = self.left.region(1 << 19), self.right.region(receives * ROOM)
        for number in range(receives):
            self.receiver.post_recv(self.target.sge(number * ROOM, ROOM))

    def segment(self, cs_flags=0, mss=0, header=b""):
        """The pad, and the Ethernet segment with what is inline."""
        segment = ETH.pack(cs_flags, mss, 0, len(header) << 16)[:INLINE_HDR_START] + header
        return bytes(16) + segment.ljust(max(-(-len(segment) // 16) * 16, 16), b"\0")

    def post(self, opcode, *segments):
        to = {"dqp_dct": self.receiver.qpn | 1 << 31, "key": QKEY << 32}
        to |= self.left.vector_to(self.right)
        return self.sender.post(opcode, bytes(av.new(**to).buf), *segments)

    def send(self, data, **options):
        self.source.write(data)
        body = data_segments([self.source.sge(0, len(data))])
        self.post(Opcode.SEND, self.segment(**options), *body)
        self.left.settle()

    def send_large(self, header, payload, mss):
        self.source.write(payload)
        body = data_segments([self.source.sge(0, len(payload))])
        self.post(Opcode.LSO, self.segment(BOTH, mss, header), *body)
        self.left.settle()

    def received(self):
        """What has come, and what its completions say of its checksums."""
        found = []
        for done in self.receiver.cq.drain():
            assert done.opcode == CqeOpcode.RESP_SEND
            at = done.wqe_counter * ROOM + GRH_BYTES
            found.append((self.target.read(at, done.byte_cnt - GRH_BYTES), done.hds_ip_ext))
        return found

    def failure(self):
        (done,) = self.sender.cq.drain()
        assert self.received() == []
        return done.syndrome


@pytest.fixture
def link(ends):
    return Ipoib(ends)


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("version", [{}, V6], ids=["IPv4", "IPv6"])
def test_checksums_are_computed(link, protocol, version):
    packet = EthPacket(protocol=protocol, chain=protocol, payload=b"some payload", **version)
    link.send(without_checksums(packet), cs_flags=BOTH)
    assert link.received() == [(packet_of(packet), GOOD)]
    (done,) = link.sender.cq.drain()
    assert done.opcode == CqeOpcode.REQ


@pytest.mark.parametrize(
    ("wanted", "told"), [(EthChecksum.L3, CqeChecked.L3), (EthChecksum.L4, 0), (0, 0)]
)
def test_only_those_that_are_asked_for(link, wanted, told):
    packet = EthPacket(payload=b"x" * 700)
    link.send(without_checksums(packet), cs_flags=int(wanted))
    ((data, checked),) = link.received()
    assert checked == told
    right, given_ = packet_of(packet), without_checksums(packet)
    at = packet.l4 - packet.l3 + 4
    assert (data[14:16] == right[14:16]) == bool(wanted & EthChecksum.L3)
    assert (data[at + 16 : at + 18] == right[at + 16 : at + 18]) == bool(wanted & EthChecksum.L4)
    assert wanted or data == given_


class Changing(Sequence):
    """Views of memory that somebody changes each time that it has been looked at."""

    def __init__(self, views):
        self.data = bytearray().join(views)

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return [memoryview(self.data)][index]

    def __iter__(self):
        yield memoryview(self.data)
        self.data[-1] ^= 1


@pytest.mark.hostile
def test_the_checksums_are_those_of_the_bytes_that_were_written(link, wire):
    carry = wire.datagram
    wire.datagram = lambda hca, packet, origin: carry(
        hca, replace(packet, data=Changing(packet.data)), origin
    )
    for data in (whole := packet_of(EthPacket())), whole[:-1] + bytes((whole[-1] ^ 1,)):
        link.send(data)
        ((written, told),) = link.received()
        assert told == ipoib.checked(written)


def test_headers_inline(link):
    """Linux has them there for large sends only; the WQE may have them for any."""
    packet = EthPacket(payload=b"inline and behind")
    whole = without_checksums(packet)
    for size in (2, 20, 40):
        link.source.write(whole[size:])
        body = data_segments([link.source.sge(0, len(whole) - size)])
        link.post(Opcode.SEND, link.segment(BOTH, 0, whole[:size]), *body)
        link.left.settle()
    assert link.received() == [(packet_of(packet), GOOD)] * 3


@pytest.mark.parametrize(
    "data",
    [b"\x08\x06\0\0" + bytes(28), b"\x08\x00\0\0" + b"\x45" + bytes(10), b"\x08\x00\0\0", b"\x08"],
    ids=["ARP", "cut IP header", "nothing", "less than nothing"],
)
def test_other_packets(link, data):
    """What has no checksums is not changed, and nobody vouches for it."""
    link.send(data)
    assert link.received() == [(data, 0)]


def test_without_a_transport_checksum(link):
    packet = EthPacket(protocol=1, payload=b"\x08\0\xf7\xff" + bytes(4))
    link.send(packet_of(packet), cs_flags=BOTH)
    assert link.received() == [(packet_of(packet), CqeChecked.L3)]


def test_a_queue_pair_without_offloads(ends):
    """It has no Ethernet segment and says nothing of checksums."""
    link = Ipoib(ends)
    plain = Ipoib(ends, ulp_stateless_offload_mode=0)
    packet = packet_of(EthPacket())
    link.receiver, link.target = plain.receiver, plain.target
    link.send(packet)
    assert link.received() == [(packet, 0)]


@pytest.mark.parametrize("version", [{}, V6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_large_send(link, version, protocol):
    packet = EthPacket(protocol=protocol, chain=protocol, identifier=7, **version)
    header = packet_of(replace(packet, payload=b""))
    payload = bytes(range(256)) * 40
    link.send_large(header, payload, 2000)
    found = link.received()
    assert [checked for _, checked in found] == [GOOD] * 6
    size = len(header)
    assert [len(data) - size for data, _ in found] == [2000] * 5 + [240]
    assert b"".join(data[size:] for data, _ in found) == payload
    (done,) = link.sender.cq.drain()
    assert done.opcode == CqeOpcode.REQ
    if protocol == TCP:
        at = packet.l4 - packet.l3 + 4 + 4
        sequences = [int.from_bytes(data[at : at + 4], "big") for data, _ in found]
        assert sequences == [packet.sequence + 2000 * number for number in range(6)]


TCP_HEADER = packet_of(EthPacket(payload=b""))


@pytest.mark.parametrize(
    ("header", "length", "mss", "syndrome"),
    [
        (TCP_HEADER, 8000, 4096, CqeSyndrome.LOCAL_LENGTH_ERR),
        (TCP_HEADER, (1 << 18) + 1, 2000, CqeSyndrome.LOCAL_LENGTH_ERR),
        (TCP_HEADER, 8000, 0, CqeSyndrome.LOCAL_QP_OP_ERR),
        (TCP_HEADER, 8000, 1, CqeSyndrome.LOCAL_QP_OP_ERR),
        (TCP_HEADER[:-1], 8000, 2000, CqeSyndrome.LOCAL_QP_OP_ERR),
        (b"\x08\x00\0", 8000, 2000, CqeSyndrome.LOCAL_QP_OP_ERR),
        (b"", 8000, 2000, CqeSyndrome.LOCAL_QP_OP_ERR),
    ],
    ids=["mtu", "long", "no mss", "many", "no header's end", "short", "no header"],
)
def test_large_sends_that_fail(link, header, length, mss, syndrome):
    link.send_large(header, bytes(length), mss)
    assert link.failure() == syndrome


def test_too_long_for_a_datagram(link):
    link.send(bytes(5000), cs_flags=BOTH)
    assert link.failure() == CqeSyndrome.LOCAL_LENGTH_ERR


@pytest.mark.parametrize(
    "segments",
    [b"", bytes(16), bytes(16) + ETH.pack(BOTH, 0, 0, 200 << 16)],
    ids=["nothing", "pad", "headers that leave"],
)
@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.LSO])
def test_segments_that_leave_the_request(link, opcode, segments):
    link.post(opcode, segments)
    link.left.settle()
    assert link.failure() == CqeSyndrome.LOCAL_QP_OP_ERR


def test_large_send_without_offloads(ends):
    plain = Ipoib(ends, ulp_stateless_offload_mode=0)
    plain.send_large(TCP_HEADER, bytes(3000), 1000)
    assert plain.failure() == CqeSyndrome.LOCAL_QP_OP_ERR


@pytest.mark.parametrize(
    "context", [{"st": QpType.RC}, {"st": QpType.QP1}, {"ulp_stateless_offload_mode": 9}]
)
def test_which_queue_pairs_have_them(node, refused, context):
    fields = {"st": QpType.UD} | BASIC | context
    refused(
        Status.BAD_PARAM_ERR,
        Op.CREATE_QP,
        **node.driver.qp_fields(node.pdn, node.completion_queue().cqn, **fields),
    )


def test_state_after_a_failure(link):
    """As of any datagram queue pair: the send queue alone stops."""
    link.send_large(b"", bytes(3000), 1000)
    assert link.sender.state is QpState.SQER


@pytest.mark.hostile
@given(data=st.binary(max_size=120))
def test_any_bytes(data):
    """What is said of them is what a plain reading of RFC 791 and 9293 says."""
    told = ipoib.checked(data)
    assert told in (0, CqeChecked.L3, GOOD)
    if told & CqeChecked.L3 and data[:2] == b"\x08\x00":
        assert checksum(data[4 : 4 + (data[4] & 0xF) * 4]) == 0
