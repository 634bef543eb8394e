"""Hostile use of striding receive queues, of merged TCP streams and of multi-packet requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attacks.eth import GROUP, LARGE_BYTES, QUEUES, Segment, post_large
from attacks.keys import LIST, scattered
from attacks.rounds import GROUP_MAC
from attacks.rounds import Segment as Crowd
from attacks.watch import Watch, pattern
from emu.device.port.eth.port import MAX_MTU
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.striding_queue import LOG_COUNT_BASE, LOG_SIZE_BASE
from emu.driver.keys.by_command import dma_key
from emu.driver.keys.umr import OFFSET, PAGE_SIZE, FastRegKey
from emu.driver.verbs.completions import ERRORS
from emu.driver.verbs.node import Node
from emu.driver.verbs.segments import Sge
from layouts.enums.wq import WqType
from layouts.enums.wqe import Opcode
from layouts.memory.mkey import mkc
from layouts.rings.wqe import DATA, NEXT, wqe_umr_ctrl_seg

FRAMES, FEW_FRAMES = 1024, 16
LOG_FEWEST, LOG_MOST = 3, 16
LOG_TINY, LOG_LARGEST = 6, 13
"""log2 of the strides of a request, and of the bytes of a stride."""
LARGE_SENDS = 8
LONGEST = 9000
"""Payload of a TCP packet in bytes."""
PACKETS = 58
"""Number of frames of one request, the maximum of the driver (core/en_tx.c)."""
MERGED: dict[str, Any] = {"packet_merge_mask": 3, "lro_max_ip_payload_size": 255}


class _Strided(ReceiveQueue):
    """Queue all of whose requests use the same memory."""

    def __init__(self, node: Node, log_count: int, log_stride: int, segment: Sge) -> None:
        wq = {
            "wq_type": WqType.CYCLIC_STRIDING_RQ,
            "log_wqe_num_of_strides": log_count - LOG_COUNT_BASE & 0xF,
            "log_wqe_stride_size": log_stride - LOG_SIZE_BASE,
        }
        super().__init__(node, log_size=10, wq=wq, cq=node.completion_queue(12))
        for index in range(self.size):
            self.ring.write(index * self.stride, NEXT.pack(0) + DATA.pack(*segment))
        self.posted = self.size
        self.write_record()


class Strided(Segment):
    """Two functions on a switch; the second one forwards every frame to striding queues."""

    def __init__(
        self, watch: Watch, log_count: int, log_stride: int, *, queues: int = QUEUES,
        is_scattered: bool = False, **context: int,
    ) -> None:  # fmt: skip
        """Create the functions; ``context`` are fields of the queues' TIRs."""
        self._shape, self._context = (log_count, log_stride), context
        self._is_scattered = is_scattered
        super().__init__(watch, queues)

    def _receive(self, queues: int, target: tuple[int, int]) -> None:
        node, driver, flows = self.right, self.right.driver, Flows(self.right.driver)
        size = min(1 << sum(self._shape), 4 << 20)
        if self._is_scattered:
            segment = size, scattered(node, size), 0
        else:
            segment = node.region(size).sge()
        table, td = flows.table(0, log_size=0), alloc_td(driver)
        flows.set_root(table)
        rqs = [_Strided(node, *self._shape, segment) for _ in range(queues)]
        tirs = [create_direct_tir(driver, td, rq.rqn, **self._context) for rq in rqs]
        flows.entry(table, 0, flows.group(table, 0, 0), *map(to_tir, tirs))

    def send_large(self, mss: int, count: int = LARGE_SENDS) -> None:
        """Post large sends of TCP of maximum length, whose packets can be merged."""
        post_large(self.sq, count, self.left.region(LARGE_BYTES).sge(), mss=mss)

    def run(self) -> None:
        """Ring the doorbell, and run both functions until they are idle."""
        self.sq.ring_doorbell()
        self.left.settle()


def _frame(size: int) -> bytes:
    return GROUP[:14] + bytes(size - 14)


def _tiny(count_log: int, size: int) -> None:
    count = 1 << count_log

    @pattern(
        f"{FRAMES} frames of {size} bytes, each to {QUEUES} queues with requests of {count} strides"
    )
    def tiny_strides(watch: Watch) -> Iterator[None]:
        segment = Strided(watch, count_log, LOG_TINY)
        frame = segment.left.region(size)
        frame.write(_frame(size))
        for _ in range(FRAMES):
            segment.sq.send(frame.sge(), ring=False, flags=0)
        yield
        segment.run()
        segment.check(FRAMES)


_tiny(LOG_FEWEST, 60)
_tiny(LOG_FEWEST, 5 << LOG_TINY)  # the rest of a request never fits, and is filled
_tiny(LOG_MOST, 1500)


@pattern(f"frames into strides of single bytes, four keys deep, to {QUEUES} queues")
def scattered_strides(watch: Watch) -> Iterator[None]:
    segment = Strided(watch, LOG_FEWEST, 8, is_scattered=True)
    frame = segment.left.region(1500)
    frame.write(_frame(1500))
    for _ in range(FEW_FRAMES):
        segment.sq.send(frame.sge(), ring=False, flags=0)
    yield
    segment.run()
    segment.check(FEW_FRAMES)


def _merge(mss: int, log_count: int, log_stride: int) -> None:
    room = 1 << log_count + log_stride

    @pattern(
        f"TCP streams in packets of {mss} bytes, merged for {QUEUES} queues with requests of {room}"
    )
    def merged(watch: Watch) -> Iterator[None]:
        segment = Strided(watch, log_count, log_stride, **MERGED)
        for node in (segment.left, segment.right):
            node.hca.eth.admin_mtu = MAX_MTU
        segment.send_large(mss)
        yield
        segment.run()
        segment.check(LARGE_SENDS * LARGE_BYTES // mss)


_merge(48, LOG_FEWEST, LOG_TINY)
_merge(48, LOG_MOST, LOG_TINY)
_merge(1400, LOG_FEWEST, LOG_LARGEST)
_merge(LONGEST, LOG_FEWEST, LOG_LARGEST)


@pattern(f"requests of {PACKETS} packets each, to {QUEUES} queues")
def multi_packet_copies(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, QUEUES)
    _send_many(segment.left, segment.sq, GROUP)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
    segment.check(FRAMES)


def _crowd(count: int) -> None:
    @pattern(f"requests of {PACKETS} packets each, to {count} functions")
    def multi_packet_flood(watch: Watch) -> Iterator[None]:
        crowd = Crowd(watch, count + 1)
        _send_many(crowd.nodes[0], crowd.sq, GROUP_MAC + GROUP[6:])
        yield
        crowd.run()
        crowd.check(FRAMES)


for _count in (16, 64):
    _crowd(_count)


def _send_many(node: Node, sq: SendQueue, frame: bytes) -> None:
    region = node.region(len(frame))
    region.write(frame)
    for _ in range(FRAMES // PACKETS + 1):
        sq.send(*[region.sge()] * PACKETS, opcode=Opcode.ENHANCED_MPSW, ring=False, flags=0)


@pattern(f"requests of {PACKETS} packets each, from single bytes, four keys deep")
def multi_packet_pieces(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 1)
    key = scattered(segment.left)
    for _ in range(16):
        segment.sq.send(
            *[(1000, key, 0)] * PACKETS, opcode=Opcode.ENHANCED_MPSW, ring=False, flags=0
        )
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()


@pattern("UMRs of the largest list, by an internal send queue")
def internal_umrs(watch: Watch) -> Iterator[None]:
    node = Segment(watch, 1).left
    sq, octwords = SendQueue(node, reg_umr=1, log_size=10), LIST - 4
    key = FastRegKey(node, 2 * octwords)
    pointer = octwords * 16, dma_key(node), node.memory.alloc(octwords * 16, 4096)
    yield
    for number in range(64):
        ctrl = wqe_umr_ctrl_seg.new(flags=OFFSET, xlt_octowords=octwords, mkey_mask=PAGE_SIZE)
        changed = mkc.new(log_page_size=12 + number % 2)
        body = bytes(ctrl.buf) + bytes(changed.buf) + DATA.pack(*pointer)
        sq.post(Opcode.UMR, body, imm=key.key, ring=False)
    sq.ring_doorbell()
    node.settle()
    failed = [entry for entry in sq.cq.drain() if entry.opcode in ERRORS]
    if failed:
        raise RuntimeError(f"UMRs have failed: {failed}")
