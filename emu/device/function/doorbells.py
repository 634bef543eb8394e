"""The UAR pages of BAR 0: doorbells of CQs, EQs and send queues.

A doorbell of eight bytes is one store, or two of four bytes (doorbell.h, ``mlx5_write64``, on
32-bit processors; programs whose compiler copies the words). Behind a send doorbell a program may
copy its whole WQE (BlueFlame), by stores of any size. The queue's ring in memory has the same
bytes, so without ``bf`` the copy is ignored; with ``bf`` ``blueflame.py`` processes it.

The doorbell record holds the posted index and may be ahead of the doorbells: doorbells, like all
stores to a BAR, are buffered in QEMU and in a socket. On PCI the adapter cannot observe that: its
reads from memory never overtake earlier stores (PCI Express Base 5.0, 2.4.1). The order matters for
stores to device memory that precede a WQE. While device memory is allocated, a queue therefore
processes only WQEs that its doorbells have announced.

Source: PRM "UAR page format" and "BlueFlame"; core/uar.c and include/linux/mlx5/doorbell.h of Linux
6.12.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import cq as cq_engine
from emu.device.engine.events import eq as eq_engine
from emu.device.function.blueflame import BlueFlame
from emu.device.objects.queues.queue import Queue
from emu.device.objects.queues.send_queue import DoorbellRing
from emu.device.objects.uar_pages import LOG_UAR_BYTES
from emu.device.ports import Buffer
from layouts.rings.wqe import DS, WQEBB

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

PAGE: Final = 1 << LOG_UAR_BYTES

UAR_CQ_ARM: Final = 0x20
UAR_CQ_ARM_CQN: Final = UAR_CQ_ARM + 4
"""Offset of the second half of a CQ's doorbell."""
UAR_EQ_ARM: Final = 0x40
UAR_EQ_CI: Final = 0x48
UAR_SEND_NO_DBR: Final = 0x600
"""Offset of the doorbells of queues without a doorbell record; only whole doorbells count."""
UAR_SEND: Final = 0x800
SEND_SPACING: Final = 0x100
"""Each doorbell register for sending has two buffers of this size (log_bf_reg_size is 9)."""

_IN_BUFFER: Final = SEND_SPACING - 1
_SEND_REGISTERS: Final = frozenset(range(UAR_SEND, PAGE, SEND_SPACING))
"""Offsets in a UAR page of the doorbells for sending, one for each buffer."""
_QPN: Final = 4
"""Offset of the queue's number, three bytes long, in a send doorbell."""
_QPN_DS: Final = Struct(">4xI")
"""Second half of a whole doorbell, which has the number."""
_WHOLE: Final = _QPN_DS.size
_CTRL: Final = Struct(">II")
"""opmod_idx_opcode and qpn_ds of the last WQE that a program has posted."""


def send_number(offset: int, data: Buffer) -> int | None:
    """Return the number of the queue that a store to send doorbells rings, or None.

    The store has to contain all three bytes of the number. The queue need not exist. ``offset``
    counts from the page's start.
    """
    at = offset & _IN_BUFFER
    if not at and len(data) >= _WHOLE:
        qpn_ds: int
        (qpn_ds,) = _QPN_DS.unpack_from(data)
        return qpn_ds >> 8
    start = _QPN - at
    if start < 0 or start + 3 > len(data):
        return None
    return int.from_bytes(data[start : start + 3], "big")


def announced(offset: int, data: Buffer) -> int | None:
    """Return the index after the WQE that a send doorbell announces.

    The index is in WQE basic blocks, modulo 65536. None for a store with only half of the doorbell,
    or without a WQE length.
    """
    if offset % SEND_SPACING or len(data) < _CTRL.size:
        return None
    ctrl: int
    qpn_ds: int
    ctrl, qpn_ds = _CTRL.unpack_from(data)
    ds = qpn_ds & 0x3F
    return (ctrl >> 8) + -(-ds * DS // WQEBB) & 0xFFFF if ds else None


def is_doorbell(offset: int, data: Buffer) -> bool:
    """Return whether a store to this offset of a UAR page rings a doorbell.

    False for the first half of a CQ's doorbell, and for a send doorbell without a whole queue
    number. The page and the queue need not exist.
    """
    if offset >= UAR_SEND_NO_DBR:
        return send_number(offset, data) is not None
    if offset == UAR_CQ_ARM:
        return len(data) == 8
    return len(data) == 4 and offset in (UAR_CQ_ARM_CQN, UAR_EQ_ARM, UAR_EQ_CI)


class Doorbells:
    """Processes the stores to UAR pages."""

    def __init__(self, hca: Hca, is_disabled: Callable[[], bool]) -> None:
        """Store the HCA; ``is_disabled`` returns whether the driver has disabled the interface."""
        self._hca = hca
        self._scheduler = hca.scheduler
        self._is_disabled = is_disabled
        self._blueflame = BlueFlame(hca, self._ring) if hca.caps.general.bf else None

    def write(self, address: int, data: Buffer) -> None:
        """Process a store to a UAR, at an offset of BAR 0.

        A send doorbell rings the queue whose number it contains, from any UAR; with BlueFlame,
        once the WQE's copy is complete. Other doorbells arm a CQ or an EQ, or set an EQ's consumer
        index, only from the UAR in its context. Doorbells in unallocated pages and stores at
        unused offsets are ignored and logged.
        """
        pages = self._hca.uar_pages
        index, offset = address >> pages.log_bytes, address & pages.in_uar
        uar = self._hca.uars.by_handle.get(index & pages.base_mask)
        if (  # nearly all stores
            uar is not None
            and offset in _SEND_REGISTERS
            and len(data) == _WHOLE
            and self._blueflame is None
        ):
            # Any page may ring any queue, not only the page in the queue's context: a doorbell only
            # makes the queue read its own doorbell record, which it may do at any time.
            qpn_ds: int
            (qpn_ds,) = _QPN_DS.unpack(data)
            self._ring(qpn_ds >> 8, offset, data)
        elif uar is None:
            # A driver that has disabled the interface may ring again while its queues still exist.
            level = logging.DEBUG if self._is_disabled() else logging.WARNING
            log.log(
                level, "doorbell ignored at %#x of UAR %#x, which is not allocated", offset, index
            )
        elif offset >= UAR_SEND:
            if offset >= PAGE:
                return  # the rest of a guest's page without uar_4k
            if self._blueflame is not None and self._blueflame.take(uar, index, offset, data):
                return
            if (number := send_number(offset, data)) is not None:
                self._ring(number, offset, data)
        elif offset >= UAR_SEND_NO_DBR:
            self._post(offset, data)
        elif offset == UAR_CQ_ARM and len(data) == 8:
            self._arm_cq(index, int.from_bytes(data[:4], "big"), data[4:])
        elif offset == UAR_CQ_ARM and len(data) == 4:
            uar.cq_arm = int.from_bytes(data, "big")
        elif offset == UAR_CQ_ARM_CQN and len(data) == 4:
            self._arm_cq(index, uar.cq_arm, data)
        elif offset in (UAR_EQ_ARM, UAR_EQ_CI) and len(data) == 4:
            value = int.from_bytes(data, "big")
            eq_engine.doorbell(
                self._hca.events,
                self._hca.eqs,
                index,
                value >> 24,
                value & eq_engine.INDEX_MASK,
                arm=offset == UAR_EQ_ARM,
            )
        else:
            log.debug("UAR %#x: write of %d bytes at %#x ignored", index, len(data), offset)

    def _arm_cq(self, index: int, command: int, cqn: Buffer) -> None:
        cq_engine.arm(
            self._hca.events, self._hca.cqs, index, int.from_bytes(cqn, "big") & 0xFFFFFF, command
        )

    def _post(self, offset: int, data: Buffer) -> None:
        """Record the posted index of a queue without a doorbell record, and schedule the queue.

        An incomplete doorbell, and one for any other queue, is ignored and logged.
        """
        number, index = send_number(offset, data), announced(offset, data)
        if number is None or index is None:
            log.debug("incomplete doorbell ignored at %#x: %s", offset, bytes(data).hex())
            return
        queue = self._hca.queues.holders.get(number)
        ring = queue.send_ring if isinstance(queue, Queue) else None
        if isinstance(queue, Queue) and isinstance(ring, DoorbellRing):
            ring.posted, ring.is_rung = index, True
            self._scheduler.schedule(queue)
        else:
            log.warning("doorbell for %#x ignored: no such queue without a doorbell record", number)

    def _ring(self, number: int, offset: int, data: Buffer) -> None:
        """Schedule the queue with this number, which then reads its doorbell record.

        While device memory is in use, the queue executes no WQE beyond the one in ``data``, the
        first bytes of a control segment. A number without a queue is ignored and logged.
        """
        queue = self._hca.queues.holders.get(number)
        if isinstance(queue, Queue):
            ring = queue.send_ring
            if ring is not None:
                ring.is_rung = True
                if ring.posted is not None:
                    ring.follow_record()
                memic = self._hca.memic
                if memic is not None and memic.was_used:
                    ring.rung = announced(offset, data) if memic.is_used else None
            self._scheduler.schedule(queue)
        else:
            log.warning("send doorbell for %#x ignored: no such queue", number)
