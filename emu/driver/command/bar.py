"""BAR 0 as a driver reaches it, and that of a function in this process."""

from __future__ import annotations

from typing import Protocol

from emu.device.ports import PciFunction
from emu.driver.command.answer import DriverError

POLL_ROUNDS = 1000
COMMAND = 0x04
MEMORY_SPACE, BUS_MASTER = 1 << 1, 1 << 2


class Bar(Protocol):
    """What a driver needs of the way to its function. Offsets and lengths are bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Registers, as they lie in the BAR: big-endian."""

    def write(self, offset: int, data: bytes) -> None:
        """Registers and doorbells."""

    def settle(self) -> None:
        """Return when the device has done all its work."""


class Runs(Protocol):
    """A function, or something that carries what functions send."""

    def run(self) -> bool:
        """Do some of the work that waits; False when there was none."""


class FunctionBar:
    """BAR 0 of a function in this process; what it sends, the ``others`` have to take.

    The function is enabled, as by pci_enable_device and pci_set_master.
    """

    def __init__(self, function: PciFunction, *others: Runs) -> None:
        self.function = function
        self.functions: tuple[Runs, ...] = (function, *others)
        enable(function)

    def read(self, offset: int, length: int) -> bytes:
        """BAR 0, ``length`` bytes from ``offset`` on."""
        return self.function.bar_read(0, offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """The doorbell is noted; its work is done when the function runs."""
        self.function.bar_write(0, offset, data)

    def settle(self) -> None:
        """Run the function and the others until nobody has work. Raises DriverError if never."""
        for _ in range(POLL_ROUNDS):
            if not any(function.run() for function in self.functions):
                return
        raise DriverError("the device never runs out of work")


class PartBar(FunctionBar):
    """A part of BAR 2: what a sub-function's driver has of its function (core/sf/dev/dev.c)."""

    def __init__(self, function: PciFunction, base: int) -> None:
        """``base`` is where the part begins."""
        super().__init__(function)
        self._base = base

    def read(self, offset: int, length: int) -> bytes:
        """As of BAR 0, from the part's beginning on."""
        return self.function.bar_read(2, self._base + offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """As to BAR 0."""
        self.function.bar_write(2, self._base + offset, data)


def enable(function: PciFunction, command: int = MEMORY_SPACE | BUS_MASTER) -> None:
    """Write the command register."""
    function.config_write(COMMAND, command.to_bytes(2, "little"))
