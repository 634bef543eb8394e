"""Receive queues, which provide the buffers of incoming messages.

A receive WQE is a scatter list; a list shorter than the stride ends with key 0x100 (device.h:
MLX5_TERMINATE_SCATTER_LIST_LKEY). A queue pair's own ring is used in order. A shared receive queue
is either also a ring (an RMP over a cyclic work queue) or a linked list. The driver may relink the
list in any order, so the device relies only on ``next_wqe_index``. Receive queues have no doorbell:
the driver only advances the counter in the doorbell record, which the device reads when a message
needs a WQE.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Final

from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.ring_page import RingPage, RingPages
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.ports import Buffer, DmaError, GuestMemory
from layouts.rings.wqe import DATA, DS, NEXT

if TYPE_CHECKING:
    from emu.device.objects.domains import Pd

END_OF_LIST_LKEY: Final = 0x100
_COUNTER: Final = Struct(">I")
_number: Final = int.from_bytes
_read_segment: Final = DATA.unpack_from
_COUNTER_MASK: Final = 0xFFFF

Segment = tuple[int, int, int]
"""byte_count, lkey, address of a data segment."""


class RecvWqe:
    """A receive WQE that a message is about to fill."""

    __slots__ = ("index", "pd", "segments")

    index: int
    """wqe_counter of the CQE: the position in the ring, or in the shared queue."""
    segments: Sequence[Segment]
    pd: Pd | None


def recv_wqe(index: int, segments: Sequence[Segment], pd: Pd | None) -> RecvWqe:
    """Return a receive WQE; CPython calls a function twice as fast as a class's ``__init__``."""
    wqe = RecvWqe()
    wqe.index, wqe.segments, wqe.pd = index, segments, pd
    return wqe


class ListBrokenError(Exception):
    """The links of a shared receive queue point outside the queue, or form a loop."""


class RecvQueue:
    """Base class of all kinds: the buffer for WQEs and the counter of posted ones."""

    def __init__(
        self, memory: GuestMemory, buffer: PageList, pd: Pd | None, geometry: RqGeometry
    ) -> None:
        """Create a queue; without ``pd`` no key is valid, so no WQE can be filled."""
        self._memory = memory
        self._buffer = buffer
        self._pd = pd
        self._size = 1 << geometry.log_size
        self._stride = 1 << geometry.log_stride
        self._dbr_addr = geometry.dbr_addr
        self._consumed = 0
        self.read_ahead = 0
        """Number of segments read ahead, of WQEs that are taken later."""

    @property
    def size(self) -> int:
        """Number of WQEs that fit."""
        return self._size

    @property
    def size_bytes(self) -> int:
        """Bytes of the ring, or of all WQEs of a shared queue."""
        return self._size * self._stride

    def raw(self, at: int, length: int) -> bytes:
        """Copy bytes out of the ring, from its start in memory. Raises DmaError."""
        return self._buffer.read(at, length)

    @property
    def consumed(self) -> int:
        """Index of the next WQE of a ring, modulo 65536."""
        return self._consumed

    @property
    def is_used(self) -> bool:
        """Whether a WQE has been taken since RST; wrong each time the counter wraps to 0."""
        return self._consumed != 0

    def produced(self) -> int:
        """Return the driver's counter from the doorbell record, modulo 65536.

        The device's own counter if the record is unreadable, so that the queue seems empty.
        """
        try:
            counter: int
            (counter,) = _COUNTER.unpack(self._memory.read(self._dbr_addr, 4))
        except DmaError:
            return self._consumed
        return counter & _COUNTER_MASK

    def posted(self) -> int:
        """Return the number of posted WQEs; a counter beyond the ring's size means "full".

        Raises DmaError if the doorbell record is unreadable.
        """
        counter: int
        (counter,) = _COUNTER.unpack(self._memory.read(self._dbr_addr, 4))
        return min((counter - self._consumed) & _COUNTER_MASK, self._size)

    def take(self) -> RecvWqe | None:
        """Consume and return the next WQE; None when the driver has posted none.

        Raises DmaError, and ListBrokenError for an invalid link. Abstract here.
        """
        raise NotImplementedError

    def give_back(self, wqe: RecvWqe) -> None:
        """Return an unfilled WQE to the queue, which uses it next."""
        raise NotImplementedError

    def restart(self) -> None:
        """Reset the counter of a queue in RST: the driver counts from 0 again."""
        self._consumed = 0


class RecvRing(RecvQueue):
    """The receive queue of one queue pair, used in order."""

    def __init__(
        self,
        memory: GuestMemory,
        pages: RingPages,
        buffer: PageList,
        pd: Pd | None,
        geometry: RqGeometry,
    ) -> None:
        super().__init__(memory, buffer, pd, geometry)
        self._pages = pages
        self._mask = self._size - 1
        self._page = RingPage()
        """The page of the last WQE."""
        self._record = RingPage()
        """The counter in the doorbell record."""

    def take(self) -> RecvWqe | None:
        """Consume and return the next WQE of the ring; None when none is posted.

        Raises DmaError.
        """
        posted: int
        record = self._record
        if record.limit:
            # Copies first: Struct reads single bytes, while the driver may write the counter.
            posted = _number(record.view, "big")
        else:
            self._pages.keep_record(record, self._dbr_addr, _COUNTER.size)
            (posted,) = _COUNTER.unpack(self._memory.read(self._dbr_addr, _COUNTER.size))
        index, stride, page = self._consumed, self._stride, self._page
        if posted & _COUNTER_MASK == index:
            return None
        at = (index & self._mask) * stride
        if page.start <= at < page.limit or self._pages.turn(
            page, self._buffer, at, stride, writable=False
        ):
            start = at - page.start
            segments = scatter_list(page.view, start, start + stride)
        else:
            segments = scatter_list(self._buffer.read(at, stride), 0, stride)
        self._consumed = (index + 1) & _COUNTER_MASK
        request = RecvWqe()  # ``recv_wqe``, without a call
        request.index, request.segments, request.pd = index, segments, self._pd
        return request

    def give_back(self, wqe: RecvWqe) -> None:
        self._consumed = wqe.index


class PacketRing(RecvQueue):
    """The receive queue of packets, used in order, which reads several WQEs at once.

    The driver does not touch a WQE after its counter has advanced beyond the WQE.
    """

    FETCHED: ClassVar[int] = 32
    """Maximum number of WQEs read at once; the first read takes one."""
    FETCHED_SEGMENTS: ClassVar[int] = 256
    """Maximum number of data segments read at once, unless one WQE has more."""

    def __init__(
        self, memory: GuestMemory, buffer: PageList, pd: Pd | None, geometry: RqGeometry
    ) -> None:
        super().__init__(memory, buffer, pd, geometry)
        self._fetched: deque[RecvWqe] = deque()
        self._at_once = 1

    def take(self) -> RecvWqe | None:
        """Consume and return the next WQE, read ahead with others; None when none is posted.

        Raises DmaError.
        """
        fetched = self._fetched
        if not fetched and not self._fetch():
            return None
        self._consumed = self._consumed + 1 & _COUNTER_MASK
        return fetched.popleft()

    def give_back(self, wqe: RecvWqe) -> None:
        self._fetched.appendleft(wqe)
        self._consumed = self._consumed - 1 & _COUNTER_MASK

    def restart(self) -> None:
        super().restart()
        self._fetched.clear()
        self._at_once = 1

    def _fetch(self) -> bool:
        """Read posted WQEs up to the ring's end; return False if there were none. Raises DmaError.

        Each call reads up to twice as many as the last one, within FETCHED and FETCHED_SEGMENTS.
        """
        first = self._consumed & self._size - 1
        stride, pd, index = self._stride, self._pd, self._consumed
        limit = min(self._at_once, max(self.FETCHED_SEGMENTS * DS // stride, 1))
        count = min(self.posted(), limit, self._size - first)
        self._at_once = min(2 * self._at_once, self.FETCHED)
        listed: list[Segment] = list(
            DATA.iter_unpack(self._buffer.read(first * stride, count * stride))
        )
        width = stride // DS
        for at in range(0, count * width, width):
            segments = _up_to_end(listed[at : at + width])
            self._fetched.append(recv_wqe(index & _COUNTER_MASK, segments, pd))
            index += 1
        self.read_ahead += len(listed)
        return bool(count)


class SharedRecvQueue(RecvQueue):
    """A queue that several queue pairs receive from. Its WQEs begin with a link segment."""

    def __init__(
        self, memory: GuestMemory, buffer: PageList, pd: Pd | None, geometry: RqGeometry
    ) -> None:
        super().__init__(memory, buffer, pd, geometry)
        self.host_bytes = buffer.host_bytes
        """Cost of the queue's lists on the host, in bytes."""
        self._returned: deque[RecvWqe] = deque()

    def posted(self) -> int:
        return super().posted() + len(self._returned)

    def give_back(self, wqe: RecvWqe) -> None:
        self._returned.append(wqe)

    def restart(self) -> None:
        super().restart()
        self._returned.clear()


class SharedRecvRing(SharedRecvQueue):
    """The WQEs of an RMP over a cyclic work queue, used in order.

    Links in the WQEs are ignored. A WQE's index is the number of WQEs before it, not its position,
    as in a queue pair's own ring (UCX: rc_mlx5.inl:uct_rc_mlx5_iface_release_srq_seg).
    """

    def take(self) -> RecvWqe | None:
        """Consume and return a WQE that was given back, or else the ring's next; None without any.

        Raises DmaError.
        """
        if self._returned:
            return self._returned.popleft()
        if not self.posted():
            return None
        index = self._consumed
        wqe = self._buffer.read((index & self._size - 1) * self._stride, self._stride)
        self._consumed = (index + 1) & _COUNTER_MASK
        return recv_wqe(index, scatter_list(wqe, DS, self._stride), self._pd)


class SharedRecvList(SharedRecvQueue):
    """The linked WQEs of an SRQ, XRC SRQ or RMP, and of an RQ over a linked list.

    All posted WQEs are distinct, because a WQE is posted again only after its completion. The links
    therefore form a loop if a WQE reappears before all WQEs that were posted at its last use are
    taken.
    """

    def __init__(
        self, memory: GuestMemory, buffer: PageList, pd: Pd | None, geometry: RqGeometry
    ) -> None:
        super().__init__(memory, buffer, pd, geometry)
        self.host_bytes += 8 * self._size
        self._begin()

    def _begin(self) -> None:
        """Start at WQE 0 with an intact list, for a new queue or after RST."""
        self.is_broken = False
        """Whether a link was invalid: the queue then provides no more WQEs."""
        self._head = 0
        self._taken = 0
        self._not_before = array("Q", bytes(8 * self._size))
        """By index: the earliest count of taken WQEs at which the WQE can reappear."""

    def restart(self) -> None:
        super().restart()
        self._begin()

    def take(self) -> RecvWqe | None:
        """Consume and return a WQE that was given back, or else the list's next; None without any.

        Raises DmaError. Raises ListBrokenError, then at every call, for a link outside the queue or
        in a loop.
        """
        if self._returned:
            return self._returned.popleft()
        posted = self.posted()
        if not posted:
            return None
        index = self._head
        wqe = self._buffer.read(index * self._stride, self._stride)
        (following,) = NEXT.unpack_from(wqe)
        self.is_broken |= following >= self._size or self._taken < self._not_before[index]
        if self.is_broken:
            raise ListBrokenError(f"wqe {index} of {self._size}, next_wqe_index {following}")
        self._not_before[index] = self._taken + posted
        self._taken += 1
        self._head = following
        self._consumed = (self._consumed + 1) & _COUNTER_MASK
        return recv_wqe(index, scatter_list(wqe, DS, self._stride), self._pd)


def scatter_list(buf: Buffer, at: int, end: int) -> list[Segment]:
    """Return the data segments of a receive WQE, up to its end mark: byte count, lkey, address.

    The segments are bytes ``at`` to ``end`` of ``buf``, without the link segment of a shared queue.
    """
    segments: list[Segment] = []
    while at < end:
        segment = _read_segment(buf, at)
        if segment[1] == END_OF_LIST_LKEY and not segment[0]:
            break
        segments.append(segment)
        at += DS
    return segments


def _up_to_end(segments: list[Segment]) -> list[Segment]:
    """Return the segments before the end mark (END_OF_LIST_LKEY without bytes), or all."""
    for at, (byte_count, lkey, _) in enumerate(segments):
        if lkey == END_OF_LIST_LKEY and not byte_count:
            return segments[:at]
    return segments
