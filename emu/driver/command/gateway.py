"""The vendor-specific gateway, driven the way core/lib/pci_vsc.c does."""

from __future__ import annotations

from typing import Protocol

from emu.driver.command.answer import expect

CONTROL, COUNTER, SEMAPHORE, ADDRESS, DATA = 0x4, 0x8, 0xC, 0x10, 0x14
FLAG, SYNDROME = 1 << 31, 1 << 30
ADDRESS_MASK = SYNDROME - 1
SPACE_SEMAPHORE = 0xA
VENDOR_CAPABILITY = 0x09


class ConfigBus(Protocol):
    """A function's configuration space. Offsets and lengths are bytes."""

    def get(self, offset: int, length: int) -> int:
        """Read a little-endian number."""

    def put(self, offset: int, length: int, value: int) -> None:
        """Write one."""

    def capabilities(self) -> dict[int, int]:
        """Offsets of the capabilities, by their ids."""


class Gateway:
    """A driver of the gateway; a wait that would not end at once raises DriverError."""

    def __init__(self, bus: ConfigBus) -> None:
        self.bus = bus
        self.at = bus.capabilities()[VENDOR_CAPABILITY]

    def get(self, register: int) -> int:
        """A register of 32 bits."""
        return self.bus.get(self.at + register, 4)

    def put(self, register: int, value: int) -> None:
        """Write a register."""
        self.bus.put(self.at + register, 4, value)

    def lock(self) -> bool:
        """mlx5_vsc_gw_lock, one try."""
        if self.get(SEMAPHORE):
            return False
        ticket = self.get(COUNTER)
        self.put(SEMAPHORE, ticket)
        return self.get(SEMAPHORE) == ticket

    def unlock(self) -> None:
        """mlx5_vsc_gw_unlock."""
        self.put(SEMAPHORE, 0)

    def set_space(self, space: int) -> int | None:
        """mlx5_vsc_gw_set_space: the size, 0 when none is told, None for no such space."""
        self.put(CONTROL, self.get(CONTROL) & ~0xFFFF | space)
        control = self.get(CONTROL)
        if control >> 29 == 0:
            return None
        return self.get(ADDRESS) & ADDRESS_MASK if control & 1 << 28 else 0

    def write(self, address: int, value: int) -> None:
        """A word of the chosen space."""
        self.put(DATA, value)
        self.put(ADDRESS, address | FLAG)
        expect(not self.get(ADDRESS) & FLAG, "the write does not end")

    def read(self, address: int) -> int:
        """A word of the chosen space."""
        self.put(ADDRESS, address)
        expect(self.get(ADDRESS) & FLAG, "the read does not end")
        return self.get(DATA)

    def read_block(self, length: int) -> list[int]:
        """mlx5_vsc_gw_read_block_fast: the words, by the address that the device moves on."""
        words: list[int] = []
        at = 0
        while at < length:
            words.append(self.read(at))
            following = self.get(ADDRESS) & ADDRESS_MASK
            expect(following > at, "the address does not move on")
            at = following
        return words

    def set_lock(self, lock: int, *, take: bool) -> bool:
        """mlx5_vsc_sem_set_space: whether the lock now has the wanted value."""
        expect(self.set_space(SPACE_SEMAPHORE) is not None, "no space of semaphores")
        expected = self.get(COUNTER) if take else 0
        self.write(lock, expected)
        return self.read(lock) == expected
