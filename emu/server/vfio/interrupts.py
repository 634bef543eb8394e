"""Interrupt vectors: eventfds that the client sets, and vectors latched without one.

Semantics of DEVICE_SET_IRQS: vfio-user specification and linux/vfio.h, struct vfio_irq_set. QEMU
sets the eventfds of MSI-X vectors one at a time, as the guest's driver enables them. The device may
raise a vector earlier. Like a real function, this module then sets the pending bit and sends the
vector later (PCIe base specification, MSI-X: Pending Bit Array).
"""

from __future__ import annotations

import errno
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from emu.server.vfio.protocol import NUM_IRQS, Irq, IrqSetFlag, VfioRequestError
from emu.server.vfio.waits.alarm import ALARM

logger = logging.getLogger(__name__)

_EVENTFD: Final = "anon_inode:[eventfd]"


class MsixVectors(ABC):
    """The function's view of the MSI-X vectors: :class:`emu.device.ports.Interrupts`, pending bits.

    A subclass sends the vectors.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on_blocked: Callable[[], None] = _ignore
        """Callback for a blocked write to a client's eventfd; no eventfd is written afterwards."""
        self._pending: set[int] = set()
        self._deliver: Callable[[int], bool] = self._send

    def resize(self, count: int) -> None:
        """Set the number of vectors; clear all pending bits."""
        self.count = count
        self._pending.clear()

    def trigger(self, vector: int) -> None:
        """Raise ``vector``: send it, or latch it in its pending bit.

        A vector is latched while the client has not set it up, or while :meth:`permit` withholds
        all. Raises IndexError for a vector that the function does not have.
        """
        if not 0 <= vector < self.count:
            raise IndexError(f"vector {vector} of {self.count}")
        if not self._deliver(vector):
            self._pending.add(vector)

    def pending(self, vector: int) -> bool:
        """Return whether ``vector`` is latched."""
        return vector in self._pending

    def clear_pending(self) -> None:
        """Clear the latched vectors, as a reset of the function does."""
        self._pending.clear()

    def clear(self) -> None:
        """Drop the latched vectors and the state of a client that has left."""
        self.clear_pending()

    def permit(self, allowed: bool) -> None:
        """Allow or forbid MSI-X messages, as bus mastering does; allowed at first.

        While forbidden, every triggered vector is latched. Permission sends the latched vectors
        that the client has set up, lowest first; the others stay latched.
        """
        self._deliver = self._send if allowed else _withhold
        self.send_pending()

    def send_pending(self) -> None:
        """Send the latched vectors that can be sent now, lowest first; clear their pending bits.

        Vectors that the client has not set up, or all while forbidden, stay latched.
        """
        for vector in sorted(self._pending):
            if self._deliver(vector):
                self._pending.discard(vector)

    @abstractmethod
    def _send(self, vector: int) -> bool:
        """Send ``vector``; return False when the client has not set it up."""


class IrqTable(MsixVectors):
    """The eventfds of every interrupt type; the function raises MSI-X vectors only."""

    def __init__(self) -> None:
        super().__init__()
        self._fds: list[list[int]] = [[] for _ in range(NUM_IRQS)]
        self._msix: list[int] = []
        self.resize(0)

    def resize(self, count: int) -> None:
        """Set up ``count`` MSI-X vectors, one ERR and one REQ interrupt, without eventfds.

        Closes all earlier eventfds and clears all pending bits. INTx and MSI have no interrupts.
        """
        self.clear()
        super().resize(count)
        counts = {Irq.MSIX: count, Irq.ERR: 1, Irq.REQ: 1}
        self._fds = [[-1] * counts.get(Irq(index), 0) for index in range(NUM_IRQS)]
        self._msix = self._fds[Irq.MSIX]

    def counts(self, index: int) -> int:
        """Return the number of interrupts of a type (an :class:`Irq`)."""
        return len(self._fds[index])

    def clear(self) -> None:
        """Drop every eventfd and every latched vector of a client that has left."""
        self.clear_pending()
        self._drop_eventfds()

    def _drop_eventfds(self) -> None:
        """Close and remove every eventfd of every interrupt type; latched vectors stay."""
        for index, fds in enumerate(self._fds):
            self._assign(index, range(len(fds)), [])

    def set(
        self, index: int, flags: int, start: int, count: int, data: bytes, fds: list[int]
    ) -> None:
        """Execute a DEVICE_SET_IRQS: set eventfds (DATA_EVENTFD), remove them, or signal them.

        DATA_EVENTFD takes over ``fds``, clears the list and sends latched vectors; an empty list
        removes the eventfds of the range. DATA_NONE with ``count`` 0 removes all of the type.
        DATA_NONE and DATA_BOOL otherwise signal the chosen interrupts; those without an eventfd are
        ignored.

        Raises :class:`VfioRequestError` with EINVAL before any eventfd changes: invalid ``flags``,
        masking, range, data length, number of descriptors, or a descriptor that is no eventfd.
        """
        vectors = self._check(index, flags, start, count)
        data_type = flags & IrqSetFlag.DATA_MASK
        if len(data) != (count if data_type == IrqSetFlag.DATA_BOOL else 0):
            raise _invalid(f"{len(data)} bytes of data for {count} interrupts")
        if fds and (data_type != IrqSetFlag.DATA_EVENTFD or len(fds) != count):
            raise _invalid(f"{len(fds)} descriptors for {count} interrupts, flags {flags:#x}")
        if data_type == IrqSetFlag.DATA_EVENTFD:
            for fd in fds:
                _check_eventfd(fd)
            self._assign(index, vectors, fds)
            fds.clear()
            self.send_pending()
        elif count == 0:
            self._assign(index, range(len(self._fds[index])), [])
        else:
            values = data or b"\1" * count
            for vector in (vector for vector, on in zip(vectors, values) if on):
                self._signal(self._fds[index][vector])

    def _check(self, index: int, flags: int, start: int, count: int) -> range:
        """Return the interrupts that a DEVICE_SET_IRQS refers to; empty for ``count`` 0.

        Raises :class:`VfioRequestError` with EINVAL: unknown type, not exactly one DATA flag, or
        another action than TRIGGER. EINVAL also for a range past the type's interrupts, or
        ``count`` 0 that is not DATA_NONE from 0.
        """
        if index >= NUM_IRQS:
            raise _invalid(f"interrupt type {index}")
        data_type, action = flags & IrqSetFlag.DATA_MASK, flags & IrqSetFlag.ACTION_TYPE_MASK
        if flags != data_type | action or data_type.bit_count() != 1:
            raise _invalid(f"flags {flags:#x}")
        if action != IrqSetFlag.ACTION_TRIGGER:
            raise _invalid(f"flags {flags:#x}: masking is not supported")
        total = len(self._fds[index])
        if start >= total or start + count > total:
            raise _invalid(f"interrupts {start}+{count} of {total}")
        if count == 0 and (start or data_type != IrqSetFlag.DATA_NONE):
            raise _invalid(f"count 0 with start {start}, flags {flags:#x}")
        return range(start, start + count)

    def _assign(self, index: int, vectors: range, fds: Sequence[int]) -> None:
        """Set the eventfds of ``vectors``, or remove them when ``fds`` is empty.

        Close the replaced ones.
        """
        table = self._fds[index]
        for position, vector in enumerate(vectors):
            if table[vector] >= 0:
                os.close(table[vector])
            table[vector] = fds[position] if fds else -1

    def _send(self, vector: int) -> bool:
        return self._signal(self._msix[vector])

    def _signal(self, fd: int) -> bool:
        """Add one to an eventfd's counter; return False without an eventfd (``fd`` -1), else True.

        A full counter counts as signalled. When a blocked write ends by the alarm, all eventfds are
        closed and ``on_blocked`` is called: the client cleared O_NONBLOCK.
        """
        if fd < 0:
            return False
        ALARM.set()
        try:
            os.eventfd_write(fd, 1)
        except BlockingIOError:
            logger.debug("eventfd %d: counter full; signalled already", fd)
        except InterruptedError:
            self._drop_eventfds()
            self.on_blocked()
        return True


def _ignore() -> None:
    """Do nothing: the initial callback."""


def _withhold(_vector: int) -> bool:
    """Return False instead of sending a vector, while sending is not permitted."""
    return False


def _check_eventfd(fd: int) -> None:
    """Set O_NONBLOCK on an eventfd, because a write must never block.

    Raises :class:`VfioRequestError` with EINVAL for a descriptor that is no eventfd.
    """
    if os.readlink(f"/proc/self/fd/{fd}") != _EVENTFD:
        raise _invalid("a descriptor that is no eventfd")
    os.set_blocking(fd, False)


def _invalid(why: str) -> VfioRequestError:
    return VfioRequestError(errno.EINVAL, why)
