"""The two queues of a function: where they are, whether they run, what passes through them."""

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
"""Writes after which the driver is called to free their buffers; a read of its own frees them, too,
and an interrupt for each write would cost the guest more than the write."""
_ACCESS_BYTES: Final = DESCRIPTOR.size + PCIDEV_MESSAGE.size
_MSI: Final = int(PcidevOp.MSI)


class _Setup:
    """What the front end has said about a queue."""

    __slots__ = ("base", "places", "running", "size")

    def __init__(self) -> None:
        self.size = 0
        self.base = 0
        self.places: tuple[int, int, int] | None = None
        self.running: Virtqueue | None = None


class Queues:
    """The queues of one front end.

    Whoever sets one up while it runs breaks the protocol: everything raises
    :class:`VhostProtocolError` before anything changes.
    """

    def __init__(self, memory: DmaMap, device: PciDevice, hang_up: Callable[[str], None]) -> None:
        """``hang_up`` is told what is wrong while an interrupt is raised, which must not fail."""
        self._memory = memory
        self._device = device
        self._hang_up = hang_up
        self._setups = [_Setup() for _ in range(NUM_QUEUES)]
        self._call_fd = -1
        self._uncalled = 0

    @property
    def are_running(self) -> bool:
        """Whether one of them is enabled."""
        return any(setup.running for setup in self._setups)

    def close(self) -> None:
        """Stop both."""
        for index in range(NUM_QUEUES):
            self.stop(index)
        self.call_through(-1)
        self._hang_up = _nobody

    def call_through(self, fd: int) -> None:
        """The descriptor that calls go to, ours from now on; -1 for none."""
        if self._call_fd >= 0:
            os.close(self._call_fd)
        self._call_fd = fd
        if fd >= 0:
            os.set_blocking(fd, False)

    def set_size(self, index: int, size: int) -> None:
        """SET_VRING_NUM."""
        if not 0 < size <= MAX_QUEUE_SIZE or size & size - 1:
            raise VhostProtocolError(f"a queue of {size}")
        self._stopped(index).size = size

    def set_base(self, index: int, base: int) -> None:
        """SET_VRING_BASE."""
        if base > 0xFFFF:
            raise VhostProtocolError(f"base {base:#x}")
        self._stopped(index).base = base

    def place(self, index: int, desc: int, avail: int, used: int) -> None:
        """SET_VRING_ADDR, with the guest's addresses."""
        if desc % 16 or avail % 2 or used % 4:
            raise VhostProtocolError(f"a ring at {desc:#x}, {avail:#x}, {used:#x}: not aligned")
        self._stopped(index).places = desc, avail, used

    def start(self, index: int) -> None:
        """SET_VRING_ENABLE; one that runs goes on."""
        setup = self._setup(index)
        if setup.running is not None:
            return
        if setup.places is None or not setup.size or self._call_fd < 0:
            raise VhostProtocolError(f"queue {index} is enabled before it is set up")
        setup.running = Virtqueue(self._memory, setup.size, *setup.places, setup.base)

    def stop(self, index: int) -> int:
        """SET_VRING_ENABLE or GET_VRING_BASE; the index that it goes on from."""
        setup = self._setup(index)
        if setup.running is not None:
            setup.base = setup.running.next
            setup.running.release()
            setup.running = None
        return setup.base

    def run_commands(self, budget: int) -> int:
        """Do the accesses that are waiting, until they count ``budget`` bytes; what they count."""
        queue = self._setups[COMMANDS].running
        if queue is None:
            return 0
        done = 0
        command = self._device.command
        while done < budget and (chain := queue.take()) is not None:
            done += _ACCESS_BYTES + command(queue, chain)
            if chain.room:
                self._uncalled = 0
                continue
            self._uncalled += 1
            if self._uncalled >= min(_MAX_UNCALLED, queue.size >> 1):
                self._uncalled = 0
                self._call(COMMANDS, queue)
        return done

    def post(self, address: int, data: int) -> bool:
        """Send an MSI-X message; False when the driver has left no room for it now."""
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
        if index >= NUM_QUEUES:
            raise VhostProtocolError(f"queue {index}")
        return self._setups[index]

    def _stopped(self, index: int) -> _Setup:
        setup = self._setup(index)
        if setup.running is not None:
            raise VhostProtocolError(f"queue {index} is set up while it runs")
        return setup

    def _call(self, index: int, queue: Virtqueue) -> None:
        """Tell the driver about used buffers, unless it does not want to know."""
        if not queue.wants_calls:
            return
        ALARM.set()
        try:
            os.write(self._call_fd, _CALLS[index])
        except OSError:
            # Full, although each call answers buffers of the driver's; or it is closed.
            self._hang_up("the front end does not read its calls")


def _nobody(_why: str) -> None:
    """The front end after it has gone."""
