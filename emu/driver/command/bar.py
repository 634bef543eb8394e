"""BAR 0 from the driver's side, and BAR 0 of a function in this process."""

from __future__ import annotations

from typing import Protocol

from emu.device.ports import Clock, PciFunction
from emu.driver.command.answer import DriverError

POLL_ROUNDS = 1000
COMMAND = 0x04
MEMORY_SPACE, BUS_MASTER = 1 << 1, 1 << 2


class Bar(Protocol):
    """Access of a driver to its function. Offsets and lengths are in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return registers as they are in the BAR: big-endian."""

    def write(self, offset: int, data: bytes) -> None:
        """Write registers and doorbells."""

    def settle(self) -> None:
        """Return when the device has done all its work."""


class Polled(Protocol):
    """Function, or a carrier of what functions send."""

    def poll(self) -> bool:
        """Do some of the pending work; return False when there was none."""


class ClockedFunction(PciFunction, Protocol):
    """Function in this process."""

    @property
    def clock(self) -> Clock:
        """Return the clock with the budget of its rounds."""


class FunctionBar:
    """BAR 0 of a function in this process; the ``others`` carry what it sends.

    The function is enabled, as by pci_enable_device and pci_set_master.
    """

    def __init__(self, function: ClockedFunction, *others: Polled) -> None:
        self.function = function
        self.functions: tuple[Polled, ...] = (function, *others)
        enable(function)

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of BAR 0 from ``offset`` on."""
        return self.function.bar_read(0, offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """Write BAR 0; a doorbell's work is done when the function runs."""
        self.function.bar_write(0, offset, data)

    def settle(self) -> None:
        """Run rounds until neither the function nor one of the others has work.

        Raises DriverError if that never happens. Each round polls all of them once; the limit is
        1000 rounds.
        """
        budget = self.function.clock.budget
        for _ in range(POLL_ROUNDS):
            budget.begin()
            busy = [each.poll() for each in self.functions]
            if not any(busy):
                return
        raise DriverError("the device never runs out of work")


class PartBar(FunctionBar):
    """Range of BAR 2 that a sub-function's driver uses (core/sf/dev/dev.c)."""

    def __init__(self, function: ClockedFunction, base: int) -> None:
        """Use the range that starts at ``base``."""
        super().__init__(function)
        self._base = base

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes as from BAR 0, relative to the range's start."""
        return self.function.bar_read(2, self._base + offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes as to BAR 0, relative to the range's start."""
        self.function.bar_write(2, self._base + offset, data)


def enable(function: PciFunction, command: int = MEMORY_SPACE | BUS_MASTER) -> None:
    """Write the command register."""
    function.config_write(COMMAND, command.to_bytes(2, "little"))
