"""BlueFlame: a program copies its WQE behind the doorbell, and the device executes the copy.

The copy consists of stores of up to 64 bytes; the first one is the doorbell itself. After a
doorbell, the queue therefore waits briefly for the rest. The bytes received until then replace the
same bytes in the queue's ring (``emu.device.objects.queues.send_queue.SendRing.take_copy``). A page
whose doorbells are never followed by a copy, such as mlx5e's, causes this wait only once.

A copy counts when its stores are in order and it is the next WQE of the queue. All other WQEs are
read from memory, so a bad copy affects only the program that wrote it.

Source: PRM "BlueFlame"; core/wc.c: mlx5_wc_post_nop; rdma-core providers/mlx5/qp.c: post_send_db.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.objects.domains import Uar
from emu.device.objects.queues.copies import Copy
from emu.device.objects.queues.queue import Queue
from emu.device.objects.queues.send_queue import SendRing
from emu.device.ports import Buffer
from layouts.rings.wqe import DS, WQEBB

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

BUFFER_BYTES: Final = 0x100
"""Each doorbell register has two buffers of this size (log_bf_reg_size is 9)."""
HOLD_NS: Final = 100_000
"""Longest wait of a queue for the next segment of a copy, in ns."""
_CTRL: Final = Struct(">II")

Ring = Callable[[int, int, Buffer], None]
"""Rings a queue, from its number, the offset in a UAR page and the stored bytes."""

Start = tuple[int, int]
"""Where a copy begins: the number of the UAR, and the offset in it."""


class BlueFlame:
    """Assembles the copies of one function."""

    def __init__(self, hca: Hca, ring: Ring) -> None:
        self._hca = hca
        self._ring = ring

    def take(self, uar: Uar, index: int, offset: int, data: Buffer) -> bool:
        """Process a store to the send doorbells of UAR ``index``; return False for an ordinary one.

        After True the store begins or continues a copy. The queue is then rung once the copy is
        complete, or after HOLD_NS. After False the caller rings the queue. A store out of order
        ends the copy so far and rings its queue.
        """
        at = offset % BUFFER_BYTES
        start = index, offset - at
        copy = self._hca.copies.get(start)
        if copy is not None and at == len(copy.data):
            self._add(uar, start, copy, data)
            return True
        if copy is not None:
            self._end(uar, start, copy)
        if at:
            uar.gets_copies = True
            return False
        return len(data) >= _CTRL.size and self._begin(uar, start, data)

    def _begin(self, uar: Uar, start: Start, data: Buffer) -> bool:
        """Start a copy from its first bytes; return False for an ordinary doorbell.

        False for a number without a send ring and for a WQE of 0 or more than BUFFER_BYTES bytes.
        False also for an incomplete WQE in a page that gets no copies.
        """
        _, qpn_ds = _CTRL.unpack_from(data)
        number, size = qpn_ds >> 8, (qpn_ds & 0x3F) * DS
        if not 0 < size <= BUFFER_BYTES or not self._ring_of(number):
            return False
        if not uar.gets_copies and len(data) < size:
            return False
        copy = self._hca.copies[start] = Copy(number, size)
        self._add(uar, start, copy, data)
        return True

    def _add(self, uar: Uar, start: Start, copy: Copy, data: Buffer) -> None:
        """Append a store to a copy, and ring the queue once the copy is complete.

        The send ring then takes the complete WQE. An incomplete copy waits HOLD_NS for the next
        store.
        """
        copy.data += data
        copy.stop_waiting()
        if len(copy.data) >= copy.requested:
            ring = self._ring_of(copy.number)
            if ring is not None:
                whole = -(-copy.requested // WQEBB) * WQEBB  # like a WQE in the ring
                ring.take_copy(bytes(copy.data[: copy.requested]).ljust(whole, b"\0"))
            self._end(uar, start, copy)
        else:
            late = partial(self._give_up, uar, start, copy)
            copy.timer = self._hca.clock.call_later(HOLD_NS, late)

    def _give_up(self, uar: Uar, start: Start, copy: Copy) -> None:
        """End an incomplete copy after HOLD_NS and ring its queue, which reads the WQE from memory.

        After a bare doorbell the page counts as one without copies, so its doorbells no longer
        wait.
        """
        copy.timer = None
        uar.gets_copies = len(copy.data) > _CTRL.size
        self._end(uar, start, copy)

    def _end(self, uar: Uar, start: Start, copy: Copy) -> None:
        """Remove the copy, cancel its timer, and ring its queue with the first eight bytes."""
        copy.stop_waiting()
        del self._hca.copies[start]
        self._ring(copy.number, start[1], bytes(copy.data[: _CTRL.size]))

    def _ring_of(self, number: int) -> SendRing | None:
        """Return the send ring of a queue, or None if the number has none."""
        queue = self._hca.queues.holders.get(number)
        return queue.send_ring if isinstance(queue, Queue) else None
