"""Bursts of short and long frames by each way to send them: all arrive, in order, byte for byte.

The ways are those of mlx5e (core/en_tx.c, core/en/xdp.c, core/en/xsk/tx.c), of raw packet queue
pairs and of DPDK: SEND and multi-packet requests, inline and by pointer, by keys over pages, over
physical addresses and over ranges of another key, and large sends.
"""

import random

import pytest

from emu.device.port.eth.headers import ETHERNET_BYTES
from emu.device.port.eth.plain import plain
from emu.device.port.eth.port import MAX_MTU
from emu.driver.ethernet.frames import MACS, EthPacket
from emu.driver.ethernet.interfaces import MTU_OVERHEAD, alloc_td, create_tis, set_mtu
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.keys.by_command import indirect_key
from layouts.enums.cqe import CqeOpcode
from layouts.enums.mkey import AccessMode
from layouts.enums.wq import SqState
from layouts.enums.wqe import EthChecksum, Opcode

MTUS = (68, 256, 1280, 1500, 4082, 9000, MAX_MTU - MTU_OVERHEAD)
ROOM = 1 << 20
SHORTEST = 60
MAX_INLINE = 900
"""Bytes that a request of 63 data segments' size has room for, behind its Ethernet segment."""
BOTH = EthChecksum.L3 | EthChecksum.L4


class Source:
    """Memory that frames are sent from, by a key of one kind."""

    def __init__(self, node, kind):
        self._end = 0
        region = node.region(ROOM, va=0x10000)
        self.key, self._va, self._write = region.key, region.va, region.write
        if kind == "physical":  # XDP, and mlx5e's key for everything
            self.key = node.driver.create_mkey(node.pdn, access_mode_1_0=AccessMode.PA) << 8
            self._va = node.memory.alloc(ROOM, 4096)
            self._write = lambda data, at: node.memory.write(self._va + at, data)
        elif kind == "ranges":
            piece = 3000
            ranges = [(piece, region.key, region.va + at) for at in range(0, ROOM - piece, piece)]
            self._va = 0
            self.key = indirect_key(node, AccessMode.KLMS, ranges, piece * len(ranges))

    def put(self, data):
        """Put a piece somewhere; the data segment that names it."""
        at, self._end = self._end, self._end + len(data) + 7
        self._write(data, at)
        return len(data), self.key, self._va + at


class Burst:
    """Frames of one MTU, and the requests that send them."""

    def __init__(self, sq, source, mtu):
        self.sq, self.source = sq, source
        longest = mtu + ETHERNET_BYTES
        draw = random.Random(mtu)
        sizes = [SHORTEST, longest, SHORTEST + 1, longest - 1]
        sizes += [draw.randint(SHORTEST, longest) for _ in range(20)] + [longest] * 3 + [SHORTEST]
        self.frames = [self._frame(number, size, draw) for number, size in enumerate(sizes)]
        self.indices = []

    @staticmethod
    def _frame(number, size, draw):
        return MACS + b"\x88\xb5" + number.to_bytes(2, "big") + draw.randbytes(size - 16)

    def _post(self, *sges, **options):
        self.indices.append(self.sq.send(*sges, ring=False, **options))

    def pointer(self):
        for frame in self.frames:
            self._post(self.source.put(frame))

    def fragments(self):
        for frame in self.frames:
            cut = max(len(frame) // 3, 20)
            parts = frame[:20], frame[20:cut], frame[cut : 2 * cut], frame[2 * cut :]
            self._post(*[self.source.put(part) for part in parts if part])

    def inline_header(self):
        for frame in self.frames:
            self._post(self.source.put(frame[18:]), headers=frame[:18])

    def inline(self):
        for frame in self.frames:
            if len(frame) <= MAX_INLINE:
                self._post(headers=frame)
            else:
                self._post(frame[:MAX_INLINE], self.source.put(frame[MAX_INLINE:]))

    def together(self):
        at = 0
        for count in (1, 2, 3, 5, 17):
            some, at = self.frames[at : at + count], at + count
            self._post(*map(self.source.put, some), opcode=Opcode.ENHANCED_MPSW)
        assert at == len(self.frames)

    def together_inline(self):
        """As XDP does for frames of up to 254 bytes when many wait."""
        for at in range(0, len(self.frames), 4):
            some = [one if len(one) <= 254 else self.source.put(one)
                    for one in self.frames[at : at + 4]]  # fmt: skip
            self._post(*some, opcode=Opcode.ENHANCED_MPSW)

    def by_turns(self):
        for at in range(0, len(self.frames) - 3, 4):
            one, two, three, four = self.frames[at : at + 4]
            self._post(self.source.put(one))
            self._post(*map(self.source.put, (two, three)), opcode=Opcode.ENHANCED_MPSW)
            self._post(self.source.put(four[14:]), headers=four[:14])


@pytest.fixture
def sq(node, driver):
    return SendQueue(node, tisn=create_tis(driver, alloc_td(driver)), log_size=10)


def arrived(node, eth_wire):
    node.settle()
    return eth_wire.sent()


WAYS = [
    "pointer", "fragments", "inline_header", "inline", "together", "together_inline", "by_turns",
]  # fmt: skip


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("kind", ["pages", "physical", "ranges"])
@pytest.mark.parametrize("way", WAYS)
def test_each_frame_arrives(node, driver, eth_wire, sq, way, kind, mtu):
    set_mtu(driver, mtu)
    burst = Burst(sq, Source(node, kind), mtu)
    getattr(burst, way)()
    sq.ring_doorbell()
    assert [frame.data for frame in arrived(node, eth_wire)] == burst.frames
    done = sq.cq.drain()
    assert {one.opcode for one in done} == {CqeOpcode.REQ}
    assert [one.wqe_counter for one in done] == burst.indices
    assert sq.query().state == SqState.RDY
    assert node.hca.nic_vport.sent.packets == len(burst.frames)


@pytest.mark.parametrize("mtu", [256, 1500, 9000, MAX_MTU - MTU_OVERHEAD])
@pytest.mark.parametrize("kind", ["pages", "physical", "ranges"])
def test_large_sends_between_frames(node, driver, eth_wire, sq, kind, mtu):
    set_mtu(driver, mtu)
    source, draw = Source(node, kind), random.Random(mtu)
    wanted, indices = [], []
    for size in (1, mtu - 41, 2 * mtu, 20_000, 64_000):
        packet = EthPacket(payload=draw.randbytes(size))
        header, frame = packet.header(), MACS + b"\x88\xb5" + draw.randbytes(mtu - 2)
        sge = source.put(packet.payload)
        send = {"mss": mtu - 40, "headers": header, "cs_flags": BOTH, "opcode": Opcode.LSO}
        indices.append(sq.send(sge, ring=False, **send))
        indices.append(sq.send(source.put(frame), ring=False))
        indices.append(sq.send(source.put(frame), frame[:200], ring=False,
                               opcode=Opcode.ENHANCED_MPSW))  # fmt: skip
        wanted += [packet.payload, frame, frame, frame[:200]]
    sq.ring_doorbell()
    found = []
    for one in arrived(node, eth_wire):
        pieces = plain(one)
        assert max(map(len, pieces)) <= mtu + ETHERNET_BYTES
        is_large = one.data[12:14] == b"\x08\0"
        found.append(b"".join(piece[54:] for piece in pieces) if is_large else one.data)
    assert [one.rstrip(b"\0") for one in found] == [one.rstrip(b"\0") for one in wanted]
    done = sq.cq.drain()
    assert {one.opcode for one in done} == {CqeOpcode.REQ}
    assert [one.wqe_counter for one in done] == indices
