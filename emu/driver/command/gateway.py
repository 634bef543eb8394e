"""Vendor-specific gateway, driven as by core/lib/pci_vsc.c."""

from __future__ import annotations

from typing import Protocol

from emu.driver.command.answer import expect

CONTROL, COUNTER, SEMAPHORE, ADDRESS, DATA = 0x4, 0x8, 0xC, 0x10, 0x14
FLAG, SYNDROME = 1 << 31, 1 << 30
ADDRESS_MASK = SYNDROME - 1
SPACE_SEMAPHORE = 0xA
VENDOR_CAPABILITY = 0x09


class ConfigBus(Protocol):
    """Configuration space of a function. Offsets and lengths are in bytes."""

    def get(self, offset: int, length: int) -> int:
        """Read a little-endian number."""

    def put(self, offset: int, length: int, value: int) -> None:
        """Write a little-endian number."""

    def capabilities(self) -> dict[int, int]:
        """Return the offsets of the capabilities by their ids."""


class Gateway:
    """Driver of the gateway; raises DriverError where the device would have to be awaited."""

    def __init__(self, bus: ConfigBus) -> None:
        self.bus = bus
        self.at = bus.capabilities()[VENDOR_CAPABILITY]

    def get(self, register: int) -> int:
        """Return a register of 32 bits."""
        return self.bus.get(self.at + register, 4)

    def put(self, register: int, value: int) -> None:
        """Write a register."""
        self.bus.put(self.at + register, 4, value)

    def lock(self) -> bool:
        """Try once to take the lock; return whether it was taken (mlx5_vsc_gw_lock).

        False means that another holds it, or has taken it in between.
        """
        if self.get(SEMAPHORE):
            return False
        ticket = self.get(COUNTER)
        self.put(SEMAPHORE, ticket)
        return self.get(SEMAPHORE) == ticket

    def unlock(self) -> None:
        """Release the lock (mlx5_vsc_gw_unlock)."""
        self.put(SEMAPHORE, 0)

    def set_space(self, space: int) -> int | None:
        """Select a space; return its size (mlx5_vsc_gw_set_space).

        The size is 0 when the device reports none. Returns None for an unknown space. The sizes are
        in bytes, as the device reports them.
        """
        self.put(CONTROL, self.get(CONTROL) & ~0xFFFF | space)
        control = self.get(CONTROL)
        if control >> 29 == 0:
            return None
        return self.get(ADDRESS) & ADDRESS_MASK if control & 1 << 28 else 0

    def write(self, address: int, value: int) -> None:
        """Write a word of the selected space; raise DriverError unless it completes at once."""
        self.put(DATA, value)
        self.put(ADDRESS, address | FLAG)
        expect(not self.get(ADDRESS) & FLAG, "the gateway's write does not complete")

    def read(self, address: int) -> int:
        """Return a word of the selected space; raise DriverError unless it completes at once."""
        self.put(ADDRESS, address)
        expect(self.get(ADDRESS) & FLAG, "the gateway's read does not complete")
        return self.get(DATA)

    def read_block(self, length: int) -> list[int]:
        """Return the words of the selected space from address 0 to below ``length``.

        The device advances the address (mlx5_vsc_gw_read_block_fast). Raises DriverError if an
        address does not advance.
        """
        words: list[int] = []
        at = 0
        while at < length:
            words.append(self.read(at))
            following = self.get(ADDRESS) & ADDRESS_MASK
            expect(following > at, "the device does not advance the address")
            at = following
        return words

    def set_semaphore(self, lock: int, *, take: bool) -> bool:
        """Take or release the semaphore at address ``lock``; return whether that succeeded.

        False means that another holds it. The semaphore space stays selected
        (mlx5_vsc_sem_set_space). Raises DriverError without that space.
        """
        expect(self.set_space(SPACE_SEMAPHORE) is not None, "the device has no semaphore space")
        expected = self.get(COUNTER) if take else 0
        self.write(lock, expected)
        return self.read(lock) == expected
