"""Configuration registers as data: fields, the masks derived from them, and a register bank.

A capability is declared once, as registers made of fields. Four values of the same width follow
from the fields: the reset value, and the masks of the bits that software may write, that writing a
one clears, and that a function-level reset keeps (PCI Express Base 5.0, 7.4 "Configuration Register
Types": RO, RW, RW1C, and their sticky forms). The bank keeps these for the whole space, so one
masked write works for every register, size and alignment.

A register with side effects has hooks. Hooks access the registers of their block through a
:class:`RegisterWindow`, by name and without the masks, like the hardware behind the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from emu.device.ports import Buffer

SPACE_BYTES: Final = 4096


class WriteEffect(Enum):
    """The effect of a write from the bus on a field."""

    RO = "read-only"
    RW = "read-write"
    W1C = "write-1-to-clear"


@dataclass(frozen=True, slots=True)
class RegisterField:
    """Bits ``at`` to ``at + width - 1`` of a register."""

    name: str
    at: int
    width: int
    access: WriteEffect
    reset: int = 0
    sticky: bool = False
    """Whether a function-level reset keeps the field."""

    @property
    def mask(self) -> int:
        """Mask of the field in its register."""
        return (1 << self.width) - 1 << self.at

    @property
    def value(self) -> int:
        """Reset value of the field, shifted to its bits in the register."""
        return self.reset << self.at


def ro(name: str, at: int, width: int = 1, value: int = 1) -> RegisterField:
    """Return a field that software only reads."""
    return RegisterField(name, at, width, WriteEffect.RO, value)


def rw(
    name: str, at: int, width: int = 1, reset: int = 0, *, sticky: bool = False
) -> RegisterField:
    """Return a field that software reads and writes."""
    return RegisterField(name, at, width, WriteEffect.RW, reset, sticky)


def w1c(name: str, at: int, *, sticky: bool = False) -> RegisterField:
    """Return a status bit: the function sets it, software clears it by writing 1."""
    return RegisterField(name, at, 1, WriteEffect.W1C, 0, sticky)


@dataclass(frozen=True, slots=True)
class Register:
    """A register of ``size`` bytes at ``offset`` from its block's start.

    ``on_read`` runs before any byte of it is read. ``on_write`` runs after a write has been stored,
    with the value before the write. With ``trigger`` it runs only when a byte with one of those
    bits is written, so that a command made of several narrow writes starts once.
    """

    name: str
    offset: int
    size: int
    fields: tuple[RegisterField, ...] = ()
    on_read: Callable[[RegisterWindow], None] | None = None
    on_write: Callable[[RegisterWindow, int], None] | None = None
    trigger: int = 0
    reset_and_masks: tuple[bytes, bytes, bytes, bytes] = field(
        init=False, repr=False, compare=False
    )
    """Little-endian: the reset value, and the masks of the bits that software may write, that
    writing a one clears, and that a function-level reset keeps.
    """

    def __post_init__(self) -> None:
        bits = reset = writable = clearable = sticky = 0
        for one in self.fields:
            mask, value = one.mask, one.value
            if value & ~mask or mask >> 8 * self.size or mask & bits:
                raise ValueError(f"{self.name}.{one.name} does not fit")
            bits |= mask
            reset |= value
            if one.access is WriteEffect.RW:
                writable |= mask
            elif one.access is WriteEffect.W1C:
                clearable |= mask
            if one.sticky:
                sticky |= mask
        values = tuple(
            number.to_bytes(self.size, "little") for number in (reset, writable, clearable, sticky)
        )
        object.__setattr__(self, "reset_and_masks", values)


def word(name: str, offset: int, *fields: RegisterField) -> Register:
    """Return a register of 16 bits without side effects."""
    return Register(name, offset, 2, fields)


def dword(name: str, offset: int, *fields: RegisterField) -> Register:
    """Return a register of 32 bits without side effects."""
    return Register(name, offset, 4, fields)


@dataclass(frozen=True, slots=True)
class Block:
    """A group of registers: the header, or a capability."""

    name: str
    size: int
    registers: tuple[Register, ...]


class Bank:
    """Configuration space, 4096 bytes little-endian; bytes without a register read as zero."""

    def __init__(self, blocks: Iterable[tuple[int, Block]]) -> None:
        """Put each block at its address.

        Raises ValueError for a register outside its block or over another one.
        """
        self._value = bytearray(SPACE_BYTES)
        self._reset = bytearray(SPACE_BYTES)
        self._rw = bytearray(SPACE_BYTES)
        self._w1c = bytearray(SPACE_BYTES)
        self._sticky = bytearray(SPACE_BYTES)
        self._readers: list[tuple[range, RegisterWindow, Callable[[RegisterWindow], None]]] = []
        self._writers: list[
            tuple[range, RegisterWindow, Register, Callable[[RegisterWindow, int], None]]
        ] = []
        self._windows: dict[str, RegisterWindow] = {}
        used: set[int] = set()
        for base, block in blocks:
            window = self._windows[block.name] = RegisterWindow(self._value, base, block)
            for register in block.registers:
                self._add_register(register, window, used)
        self.reset()

    def _add_register(self, register: Register, window: RegisterWindow, used: set[int]) -> None:
        """Put a register's reset value, masks and hooks into the bank.

        Raises ValueError for a register over another one or outside its block.
        """
        span = window.span(register)
        if not used.isdisjoint(span) or register.offset + register.size > window.block.size:
            raise ValueError(f"{window.block.name}.{register.name} overlaps or leaves its block")
        used.update(span)
        whole = self._reset, self._rw, self._w1c, self._sticky
        for target, value in zip(whole, register.reset_and_masks):
            target[span.start : span.stop] = value
        if register.on_read:
            self._readers.append((span, window, register.on_read))
        if register.on_write:
            started_by = _trigger_span(register, span)
            self._writers.append((started_by, window, register, register.on_write))

    def __getitem__(self, block: str) -> RegisterWindow:
        """Return the registers of a block by name."""
        return self._windows[block]

    def read(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``, truncated at the end of the space.

        The ``on_read`` hook of each register in the range runs first.
        """
        for span, window, on_read in self._readers:
            if _overlap(span, offset, length):
                on_read(window)
        return bytes(self._value[offset : offset + length])

    def write(self, offset: int, data: Buffer) -> None:
        """Write the bytes that are inside the space, subject to the masks.

        The ``on_write`` hooks of the registers in the range run after the whole write is stored,
        each with the value before it.
        """
        data = bytes(data[: max(0, SPACE_BYTES - offset)])
        started = [
            (on_write, window, window[register.name])
            for span, window, register, on_write in self._writers
            if _overlap(span, offset, len(data))
        ]
        self._store(offset, data)
        for on_write, window, before in started:
            on_write(window, before)

    def _store(self, offset: int, data: bytes) -> None:
        """Store one write of any width: read-write bits take the data, and ones clear W1C bits.

        All other bits keep their value. No hook runs.
        """
        end = offset + len(data)
        given = int.from_bytes(data, "little")
        old, writable, clearable = (
            int.from_bytes(picture[offset:end], "little")
            for picture in (self._value, self._rw, self._w1c)
        )
        new = (old & ~writable | given & writable) & ~(given & clearable)
        self._value[offset:end] = new.to_bytes(len(data), "little")

    def reset(self, *, keep_sticky: bool = False) -> None:
        """Set every register to its reset value; sticky bits are kept with ``keep_sticky``.

        No hook runs.
        """
        old, fresh, sticky = (
            int.from_bytes(picture, "little")
            for picture in (self._value, self._reset, self._sticky)
        )
        sticky_bits = sticky if keep_sticky else 0
        self._value[:] = (old & sticky_bits | fresh & ~sticky_bits).to_bytes(SPACE_BYTES, "little")


class RegisterWindow:
    """One block's registers by name and without the masks: the function's own access to them."""

    __slots__ = ("_base", "_registers", "_value", "block")

    def __init__(self, value: bytearray, base: int, block: Block) -> None:
        self._value = value
        self._base = base
        self._registers = {register.name: register for register in block.registers}
        self.block = block

    def span(self, register: Register) -> range:
        """Return the addresses of the register's bytes in the space."""
        return range(self._base + register.offset, self._base + register.offset + register.size)

    def __getitem__(self, name: str) -> int:
        span = self.span(self._registers[name])
        return int.from_bytes(self._value[span.start : span.stop], "little")

    def __setitem__(self, name: str, value: int) -> None:
        span = self.span(self._registers[name])
        self._value[span.start : span.stop] = value.to_bytes(len(span), "little")


def _trigger_span(register: Register, span: range) -> range:
    """Return the addresses whose write runs a register's hook: all of ``span`` without a trigger.

    With a trigger, the bytes that contain its bits.
    """
    if not register.trigger:
        return span
    lowest = (register.trigger & -register.trigger).bit_length() - 1
    return span[lowest // 8 : (register.trigger.bit_length() + 7) // 8]


def _overlap(span: range, offset: int, length: int) -> bool:
    return offset < span.stop and span.start < offset + length
