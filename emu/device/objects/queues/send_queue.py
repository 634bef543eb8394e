"""Send queues: from a doorbell to the individual WQEs.

The ring is counted in basic blocks (WQEBBs of 64 bytes). A WQE takes the blocks that its ``ds``
requires and may wrap around from the ring's end to its start (hw/wr.h: handle_post_send_edge). The
doorbell only triggers a poll; the second word of the doorbell record has the producer index.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import ClassVar, Final, Self

from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.ring_page import RingPage, RingPages
from emu.device.ports import DmaError, GuestMemory
from layouts.rings.wqe import CTRL, DS, WQEBB

_PRODUCER: Final = Struct(">I")
_number: Final = int.from_bytes
_CONTROL: Final = Struct(">xHBI3xBI")
"""A control segment: index and opcode, qpn_ds, fm_ce_se, imm."""
_BLOCK: Final = Struct(f"{WQEBB}s")
"""Copies a block in one call."""
COUNTER_MASK: Final = 0xFFFF
_LOG_WQEBB_DS: Final = 2
"""log2 of the segments of 16 bytes in a WQEBB."""
_ALMOST_WQEBB: Final = (1 << _LOG_WQEBB_DS) - 1


class BadWqeError(Exception):
    """A WQE that cannot be executed: LOCAL_QP_OP_ERR."""


class Wqe:
    """A WQE: its bytes and the words of its control segment."""

    __slots__ = ("blocks", "buf", "ds", "fm_ce_se", "imm", "index", "opcode", "qpn", "scattered")

    index: int
    """The number that the driver gave the WQE; its CQE returns the number."""
    opcode: int
    fm_ce_se: int
    imm: int
    buf: bytes
    qpn: int
    ds: int
    blocks: int
    scattered: bytearray | None
    """The response data for the CQE; None if the response goes to the WQE's memory."""

    def parse(self, buf: bytes) -> Self:
        """Take the bytes of the WQE and read its control segment; return the WQE.

        No ``__init__``, because CPython calls a method in two thirds of the time.
        """
        qpn_ds: int
        self.index, self.opcode, qpn_ds, self.fm_ce_se, self.imm = _CONTROL.unpack_from(buf)
        self.buf = buf
        self.qpn = qpn_ds >> 8
        self.ds = ds = qpn_ds & 0x3F
        self.blocks = ds + _ALMOST_WQEBB >> _LOG_WQEBB_DS
        self.scattered = None
        return self

    @property
    def opmod(self) -> int:
        """Modifier that selects the form of some opcodes."""
        return self.buf[0]


class SendRing:
    """The send queue of one queue pair."""

    POSTED: ClassVar[int | None] = None
    """The first ``posted``."""

    def __init__(
        self,
        memory: GuestMemory,
        pages: RingPages,
        buffer: PageList,
        offset: int,
        log_size: int,
        dbr_addr: int,
    ) -> None:
        self._memory = memory
        self._pages = pages
        self._page = RingPage()
        """The page of the last WQE."""
        self._record = RingPage()
        """The producer index in the doorbell record."""
        self._buffer = buffer
        self._offset = offset
        self._size = 1 << log_size
        self._mask = self._size - 1
        self._bytes = WQEBB << log_size
        self._dbr_addr = dbr_addr
        self.ci = 0
        """The next block to execute, modulo 65536."""
        self.posted = self.POSTED
        """The producer index; None if the doorbell record has it.

        After a reset the ring is empty until a doorbell arrives: mlx5e and UCX leave the old
        counter in the record (core/en/reporter_tx.c: mlx5e_reset_txqsq_cc_pc; UCX's
        uct_ib_mlx5_txwq_reset).
        """
        self.is_rung = False
        """Whether a doorbell has arrived since the packet requester last read the record."""
        self.rung: int | None = None
        """The block behind the WQE of the last doorbell, where execution stops.

        None: only the doorbell record counts. See ``emu.device.function.doorbells``.
        """

        self._copied: Wqe | None = None
        """A WQE that a program has copied behind its doorbell (BlueFlame)."""

    def follow_record(self) -> None:
        """Use the producer index in the doorbell record, as a doorbell has arrived."""
        self.posted = None

    def produced(self) -> int:
        """Return the producer index modulo 65536.

        The consumer index if the record is unreadable.
        """
        producer: int | None = self.posted
        if producer is None:
            try:
                producer = self._recorded()
            except DmaError:
                producer = self.ci
        return producer & COUNTER_MASK

    def waiting(self) -> int:
        """Return the number of 64-byte blocks to execute: posted ones up to the last doorbell.

        Raises DmaError if the doorbell record is unreadable. Raises BadWqeError if the number
        exceeds the ring's size, because the driver's counter has jumped.
        """
        producer: int | None = self.posted
        if producer is None:
            record = self._record
            # Copies first: Struct reads single bytes, while the driver may write the index.
            producer = _number(record.view, "big") if record.limit else self._recorded()
        count = (producer - self.ci) & COUNTER_MASK
        if count > self._size:
            raise BadWqeError(
                f"producer counter {producer & COUNTER_MASK:#x} is {count} blocks ahead of the"
                f" consumer in a ring of {self._size}"
            )
        if self.rung is not None:
            # A doorbell for blocks behind ``ci`` is no limit, as the difference is large.
            return min(count, (self.rung - self.ci) & COUNTER_MASK)
        return count

    def _recorded(self) -> int:
        """Return the producer index in the doorbell record, and keep a view of it if possible.

        Raises DmaError if the record is unreadable.
        """
        index: int
        address = self._dbr_addr + _PRODUCER.size
        self._pages.keep_record(self._record, address, _PRODUCER.size)
        (index,) = _PRODUCER.unpack(self._memory.read(address, _PRODUCER.size))
        return index

    def fetch(self, waiting: int, ahead: int = 0) -> Wqe:
        """Return the WQE ``ahead`` blocks after ``ci`` without consuming it. Raises DmaError.

        A WQE with an impossible length (none, or more than the ``waiting`` blocks) is returned with
        ``ds`` 0 and fails. Its ``blocks`` is 1, or all that are posted. A copied WQE (BlueFlame) is
        returned instead of the one in memory, once.
        """
        at = self.ci + ahead
        copied = self._copied
        if copied is not None and copied.index == at & COUNTER_MASK:
            self._copied = None  # used only once
            if copied.blocks <= waiting:
                return copied
        place, page = self._offset + (at & self._mask) * WQEBB, self._page
        buf: bytes
        if page.start <= place < page.limit or self._pages.turn(
            page, self._buffer, place, WQEBB, writable=False
        ):
            (buf,) = _BLOCK.unpack_from(page.view, place - page.start)
        else:
            buf = self._buffer.read(place, WQEBB)
        wqe = Wqe().parse(buf)
        if wqe.blocks != 1:
            if 1 < wqe.blocks <= waiting:
                wqe.buf = buf + self._read(at + 1, wqe.blocks - 1)
            else:
                wqe.blocks = min(max(wqe.blocks, 1), waiting)
                wqe.ds = 0
        return wqe

    def take_copy(self, buf: bytes) -> None:
        """Store a WQE that a program has copied (BlueFlame), unless the stored one is due earlier.

        Only one copy is stored; the ring's memory has every WQE anyway.
        """
        wqe = Wqe().parse(buf)
        nearest = self._size if self._copied is None else self._ahead(self._copied)
        if self._ahead(wqe) < nearest or nearest >= self._size:
            self._copied = wqe

    def _ahead(self, wqe: Wqe) -> int:
        """Return the blocks from ``ci`` to a WQE; a large number for an executed one."""
        return (wqe.index - self.ci) & COUNTER_MASK

    @property
    def size_bytes(self) -> int:
        """Bytes of the ring."""
        return self._bytes

    def raw(self, at: int, length: int) -> bytes:
        """Return a copy of bytes of the ring, from its start in memory. Raises DmaError."""
        return self._buffer.read(self._offset + at, length)

    def consume(self, blocks: int) -> None:
        """Advance ``ci`` past a WQE that is complete or in flight."""
        self.ci = (self.ci + blocks) & COUNTER_MASK

    def drain(self) -> Iterator[int]:
        """Consume all posted WQEs, to flush them; yield the first control word of each.

        Ends without any when the producer index is impossible. Raises DmaError.
        """
        try:
            waiting = self.waiting()
        except BadWqeError:
            return
        while waiting:
            ctrl: int
            qpn_ds: int
            ctrl, qpn_ds, _, _ = CTRL.unpack_from(self._read(self.ci, 1))
            blocks = min(max(-(-(qpn_ds & 0x3F) * DS // WQEBB), 1), waiting)
            self.consume(blocks)
            waiting -= blocks
            yield ctrl

    def restart(self) -> None:
        """Empty the ring of a queue pair in RST: the driver counts from 0 again."""
        self.ci = self.posted = 0
        self.rung = self._copied = None

    def _read(self, block: int, blocks: int) -> bytes:
        """Return a copy of ``blocks`` blocks of the ring, across its end if necessary."""
        at = (block & self._mask) * WQEBB
        length = blocks * WQEBB
        start, page = self._offset + at, self._page
        if (
            page.start <= start
            and start + length < page.limit + WQEBB
            and at + length <= self._bytes
        ):
            start -= page.start
            return page.view[start : start + length].tobytes()
        head = min(length, self._bytes - at)
        data = self._buffer.read(self._offset + at, head)
        if head < length:
            data += self._buffer.read(self._offset, length - head)
        return data


class DoorbellRing(SendRing):
    """A send queue without doorbell record (send_dbr_mode NO_DBR_EXT).

    Doorbells carry the producer index to a separate register (``emu.device.function.doorbells``).
    """

    POSTED: ClassVar[int | None] = 0

    def follow_record(self) -> None:
        """Do nothing: doorbells have set ``posted``, and there is no record."""


class NoSendRing(SendRing):
    """The ring of a queue pair without send queue, for which the adapter sends requests."""

    def waiting(self) -> int:
        return 0

    @property
    def size_bytes(self) -> int:
        return 0
