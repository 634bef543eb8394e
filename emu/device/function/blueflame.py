"""BlueFlame: a program copies its work request behind the doorbell, and the copy is executed.

The copy comes in stores of up to 64 bytes, of which the first is the doorbell itself. So a queue
whose doorbell has come waits a moment for the rest; what has come then is in its ring, where
memory has the same request (``emu.device.objects.queues.send_queue.SendRing.take_copy``). A page to
whose doorbells nothing is copied, as those of mlx5e, is not waited for a second time.

A copy counts when it comes in order and is of the request that is next in the queue. All else is
read from memory, so that a program that copies nonsense harms nobody but itself.

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
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

BUFFER_BYTES: Final = 0x100
"""Each doorbell register has two buffers of this size (log_bf_reg_size is 9)."""
HOLD_NS: Final = 100_000
"""How long a queue waits for the next piece of a copy."""
_CTRL: Final = Struct(">II")

Ring = Callable[[int, int, Buffer], None]
"""Ring the queue of a number by a store to an offset of a page."""


class BlueFlame:
    """Puts copies together for one function."""

    def __init__(self, hca: Hca, ring: Ring) -> None:
        self._hca = hca
        self._ring = ring

    def take(self, uar: Uar, offset: int, data: Buffer) -> bool:
        """Take a store to the send doorbells of a page; False when it is an ordinary one."""
        at = offset % BUFFER_BYTES
        start = offset - at
        copy = self._hca.copies.get((uar.handle, start))
        if copy is not None and at == len(copy.data):
            self._add(uar, start, copy, data)
            return True
        if copy is not None:
            self._end(uar, start, copy)
        if at:
            uar.gets_copies = True
            return False
        return len(data) >= _CTRL.size and self._begin(uar, start, data)

    def _begin(self, uar: Uar, start: int, data: Buffer) -> bool:
        """Wait for the rest of a request whose first bytes have come."""
        _, qpn_ds = _CTRL.unpack_from(data)
        number, size = qpn_ds >> 8, (qpn_ds & 0x3F) * DS
        if not 0 < size <= BUFFER_BYTES or not self._ring_of(number):
            return False
        if not uar.gets_copies and len(data) < size:
            return False
        copy = self._hca.copies[uar.handle, start] = Copy(number, size)
        self._add(uar, start, copy, data)
        return True

    def _add(self, uar: Uar, start: int, copy: Copy, data: Buffer) -> None:
        copy.data += data
        copy.stop_waiting()
        if len(copy.data) >= copy.requested:
            ring = self._ring_of(copy.number)
            if ring is not None:
                ring.take_copy(bytes(copy.data[: copy.requested]))
            self._end(uar, start, copy)
        else:
            late = partial(self._give_up, uar, start, copy)
            copy.timer = self._hca.clock.call_later(HOLD_NS, late)

    def _give_up(self, uar: Uar, start: int, copy: Copy) -> None:
        """No more has come: the doorbell was an ordinary one."""
        copy.timer = None
        uar.gets_copies = len(copy.data) > _CTRL.size
        self._end(uar, start, copy)

    def _end(self, uar: Uar, start: int, copy: Copy) -> None:
        """Ring the queue now."""
        copy.stop_waiting()
        del self._hca.copies[uar.handle, start]
        self._ring(copy.number, start, bytes(copy.data[: _CTRL.size]))

    def _ring_of(self, number: int) -> SendRing | None:
        """The send ring of a queue; None for a number that has none."""
        queue = self._hca.queues.holders.get(number)
        return queue.send_ring if isinstance(queue, Queue) else None
