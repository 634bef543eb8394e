"""The two queues of a function: their addresses, their state and their buffers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from emu.server.vfio.memory import DmaMap
from emu.server.vfio.waits.alarm import ALARM
from emu.server.vhost.pcidev import COMMANDS, INTERRUPTS, NUM_QUEUES, PciDevice
from emu.server.vhost.protocol import (
    BACKEND_VRING_CALL,
    DESCRIPTOR,
    HEADER,
    MAX_QUEUE_SIZE,
    PCIDEV_MESSAGE,
    VERSION,
    VRING_STATE,
    PcidevOp,
    VhostProtocolError,
)
from emu.server.vhost.virtqueue import Virtqueue

_CALLS: Final = tuple(
    HEADER.pack(BACKEND_VRING_CALL, VERSION, VRING_STATE.size) + VRING_STATE.pack(index, 0)
    for index in range(NUM_QUEUES)
)
_MAX_UNCALLED: Final = 64
"""Number of writes after which the driver is called to free their buffers. A read of the driver
frees them as well, and an interrupt for each write would cost the guest more than the write."""
_ACCESS_BYTES: Final = DESCRIPTOR.size + PCIDEV_MESSAGE.size
_MSI: Final = int(PcidevOp.MSI)


class _Setup:
    """The front end's settings of a queue."""

    __slots__ = ("base", "rings", "running", "size")

    def __init__(self) -> None:
        self.size = 0
        self.base = 0
        self.rings: tuple[int, int, int] | None = None
        self.running: Virtqueue | None = None


class VhostQueues:
    """The queues of a front end.

    Setting one up while it runs breaks the protocol: every method then raises
    :class:`VhostProtocolError` before anything changes.
    """

    def __init__(self, memory: DmaMap, device: PciDevice, hang_up: Callable[[str], None]) -> None:
        """Store the callback ``hang_up``, which gets a reason when raising an interrupt fails."""
        self._memory = memory
        self._device = device
        self._hang_up = hang_up
        self._setups = [_Setup() for _ in range(NUM_QUEUES)]
        self._call_fd = -1
        self._uncalled = 0

    @property
    def are_running(self) -> bool:
        """Whether a queue is enabled."""
        return any(setup.running for setup in self._setups)

    def close(self) -> None:
        """Stop both queues, close the descriptor for calls, and report no failure any more."""
        for index in range(NUM_QUEUES):
            self.stop(index)
        self.set_call_fd(-1)
        self._hang_up = _ignore

    def set_call_fd(self, fd: int) -> None:
        """Send calls to this descriptor and own it; -1 for none. Closes the one before.

        Makes the descriptor non-blocking.
        """
        if self._call_fd >= 0:
            os.close(self._call_fd)
        self._call_fd = fd
        if fd >= 0:
            os.set_blocking(fd, False)

    def set_size(self, index: int, size: int) -> None:
        """Handle SET_VRING_NUM: set the size of a stopped queue.

        Raises :class:`VhostProtocolError` unless it is a power of two up to 1024, the queue exists
        and is stopped.
        """
        if not 0 < size <= MAX_QUEUE_SIZE or size & size - 1:
            raise VhostProtocolError(f"a queue of {size}: no power of two to {MAX_QUEUE_SIZE}")
        self._stopped(index).size = size

    def set_base(self, index: int, base: int) -> None:
        """Handle SET_VRING_BASE: set the next index of a stopped queue.

        Raises :class:`VhostProtocolError` above 16 bits, or for a running or missing queue.
        """
        if base > 0xFFFF:
            raise VhostProtocolError(f"base {base:#x}")
        self._stopped(index).base = base

    def set_rings(self, index: int, desc: int, avail: int, used: int) -> None:
        """Handle SET_VRING_ADDR with guest addresses: store the rings of a stopped queue.

        Raises :class:`VhostProtocolError` for an unaligned ring, or a running or missing queue.
        Whether the memory exists is checked by :meth:`start`.
        """
        if desc % 16 or avail % 2 or used % 4:
            raise VhostProtocolError(f"a ring at {desc:#x}, {avail:#x}, {used:#x}: not aligned")
        self._stopped(index).rings = desc, avail, used

    def start(self, index: int) -> None:
        """Handle SET_VRING_ENABLE: start a queue; do nothing if it is running.

        Raises :class:`VhostProtocolError` before size, rings and the descriptor for calls are set,
        and for rings outside the memory.
        """
        setup = self._setup(index)
        if setup.running is not None:
            return
        if setup.rings is None or not setup.size or self._call_fd < 0:
            raise VhostProtocolError(f"queue {index} is enabled before its setup")
        setup.running = Virtqueue(self._memory, setup.size, *setup.rings, setup.base)

    def stop(self, index: int) -> int:
        """Stop a queue for SET_VRING_ENABLE or GET_VRING_BASE; return its next index.

        A stopped queue stays so and returns its base. Releases the views of the rings. Raises
        :class:`VhostProtocolError` for a missing queue.
        """
        setup = self._setup(index)
        if setup.running is not None:
            setup.base = setup.running.next
            setup.running.release()
            setup.running = None
        return setup.base

    def run_commands(self, budget: int) -> int:
        """Execute waiting accesses up to a cost of ``budget`` bytes.

        Return the cost, 0 if none waits. Calls the driver (VHOST_USER_BACKEND_VRING_CALL) after a
        number of writes. Raises :class:`VhostProtocolError` for an invalid ring or buffer. Returns
        0 while the queue is stopped.
        """
        queue = self._setups[COMMANDS].running
        if queue is None:
            return 0
        done = 0
        command = self._device.command
        while done < budget and (chain := queue.take()) is not None:
            done += _ACCESS_BYTES + command(queue, chain)
            if chain.writable:
                self._uncalled = 0
                continue
            self._uncalled += 1
            if self._uncalled >= min(_MAX_UNCALLED, queue.size >> 1):
                self._uncalled = 0
                self._call(COMMANDS, queue)
        return done

    def post(self, address: int, data: int) -> bool:
        """Send an MSI-X message and call the driver; return False when no buffer for it is free.

        False also while the interrupt queue is stopped; the caller latches the vector. An invalid
        ring or a failed call hangs up the connection and returns True.
        """
        queue = self._setups[INTERRUPTS].running
        message = PCIDEV_MESSAGE.pack(_MSI, 0, 0, 4, address) + data.to_bytes(4, "little")
        try:
            chain = queue.take() if queue is not None else None
            if queue is None or chain is None:
                return False
            queue.give(chain, message[: chain.capacity])
        except VhostProtocolError as error:
            self._hang_up(str(error))
            return True
        self._call(INTERRUPTS, queue)
        return True

    def _setup(self, index: int) -> _Setup:
        """Return the settings of a queue. Raises :class:`VhostProtocolError` for a missing one."""
        if index >= NUM_QUEUES:
            raise VhostProtocolError(f"queue {index}")
        return self._setups[index]

    def _stopped(self, index: int) -> _Setup:
        """Return the settings of a stopped queue.

        Raises :class:`VhostProtocolError` if the queue runs or is missing.
        """
        setup = self._setup(index)
        if setup.running is not None:
            raise VhostProtocolError(f"queue {index} is set up while it runs")
        return setup

    def _call(self, index: int, queue: Virtqueue) -> None:
        """Notify the driver of used buffers, unless the driver has disabled calls.

        Hangs up the connection if the call cannot be written at once.
        """
        if not queue.wants_calls:
            return
        ALARM.set()
        try:
            os.write(self._call_fd, _CALLS[index])
        except OSError:
            # Full, although each call answers buffers of the driver's; or closed.
            self._hang_up("the front end does not read its calls")


def _ignore(_why: str) -> None:
    """Do nothing: the front end has left."""
