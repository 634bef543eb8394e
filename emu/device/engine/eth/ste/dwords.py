"""Words of 32 bits that STE actions change; some of their bits are fields of a packet.

The two formats differ only in the numbers of registers. Bits without a field in the packet are
unchanged.

Source: core/steering/dr_ste_v1.c: dr_ste_v1_action_modify_field_arr; dr_ste_v2.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from emu.device.engine.eth.steering.fields import FIELDS
from emu.device.engine.eth.steering.match_field import Part
from emu.device.engine.eth.steering.rewrite import ABSENT, PLACES, Change, Changing, FieldPosition
from emu.device.port.eth.headers import REG_A, TCP, Headers, Marked
from layouts.enums.modify_header import ModifyField as F


class _Bits(Protocol):
    """A field of a packet."""

    @property
    def bits(self) -> int: ...

    @property
    def part(self) -> Part | None:
        """Key part that decides the value, besides ``fields.base``."""

    def get(self, packet: Changing, /) -> int | None:
        """Return the value; None when the packet lacks the field."""

    def put(self, packet: Changing, value: int, /) -> None: ...


def register_a(headers: Headers) -> int:
    """Return register A; 0 for a packet without registers."""
    return headers.registers.get(REG_A, 0) if isinstance(headers, Marked) else 0


class _RegisterA(NamedTuple):
    bits: int = 32
    part: Part | None = register_a

    def get(self, packet: Changing) -> int | None:
        return packet.registers.get(REG_A, 0)

    def put(self, packet: Changing, value: int) -> None:
        packet.registers[REG_A] = value


class Word(NamedTuple):
    """The fields of a word, each with the position of its lowest bit."""

    fields: tuple[tuple[int, _Bits], ...]
    in_frame: bool = True

    @property
    def parts(self) -> frozenset[Part]:
        """Key parts that decide the value, besides ``fields.base``."""
        return frozenset(field.part for _, field in self.fields if field.part is not None)

    def get(self, packet: Changing) -> int:
        """Return the word's value; bits without a field, or of a field the packet lacks, are 0."""
        word = 0
        for low, field in self.fields:
            value = field.get(packet)
            if value is not None:
                word |= value << low
        return word

    def put(self, packet: Changing, mask: int, value: int) -> None:
        """Change the bits of ``mask`` to those of ``value``; skip fields that the packet lacks."""
        for low, field in self.fields:
            own = (1 << field.bits) - 1
            selected = mask >> low & own
            if not selected:
                continue
            old = field.get(packet)
            if old is not None:
                field.put(packet, old & ~selected | value >> low & selected)


def _in_ip(version: int, start: int, shift: int, bits: int) -> FieldPosition:
    def at(headers: Headers) -> int:
        return headers.l3 + start if headers.version == version else ABSENT

    return FieldPosition(at, 2, shift, bits, FIELDS["outer_headers.ip_ecn"].part)


def _in_tcp(start: int) -> FieldPosition:
    def at(headers: Headers) -> int:
        return headers.l4 + start if headers.l4 and headers.protocol == TCP else ABSENT

    def part(headers: Headers) -> bytes:
        return headers.frame[at(headers) : at(headers) + 4] if at(headers) != ABSENT else b""

    return FieldPosition(at, 4, 0, 32, part)


_TCI: Final = FieldPosition(lambda headers: 14 if headers.tags else ABSENT, 2, 0, 16, None)


def _word(*fields: tuple[int, F]) -> Word:
    return Word(tuple((low, PLACES[field]) for low, field in fields))


def _registers(first: int) -> dict[int, Word]:
    """Return the words of registers C, the last pair first."""
    return {
        first + 2 * pair + low: Word(
            ((0, PLACES[F.METADATA_REG_C_0 + 2 * (2 - pair) + low]),), False
        )
        for pair in range(3)
        for low in range(2)
    }


_PACKET: Final[dict[int, Word]] = {
    0x00: _word((0, F.OUT_DMAC_47_16)),
    0x01: _word((16, F.OUT_DMAC_15_0)),
    0x02: Word(((0, _TCI),)),
    0x08: _word((0, F.OUT_SMAC_47_16)),
    0x09: _word((16, F.OUT_SMAC_15_0)),
    0x0E: Word(
        (
            (8, PLACES[F.OUT_IP_TTL]), (8, PLACES[F.OUT_IPV6_HOPLIMIT]),
            (18, PLACES[F.OUT_IP_DSCP]), (16, _in_ip(4, 0, 0, 2)), (16, _in_ip(6, 0, 4, 2)),
        )
    ),
    0x18: _word(
        (16, F.OUT_TCP_SPORT), (16, F.OUT_UDP_SPORT), (0, F.OUT_TCP_DPORT), (0, F.OUT_UDP_DPORT)
    ),
    0x19: _word((16, F.OUT_TCP_FLAGS)),
    0x40: _word((0, F.OUT_SIPV4)),
    0x41: _word((0, F.OUT_DIPV4)),
    **{0x44 + n: _word((0, F(F.OUT_DIPV6_127_96 + n))) for n in range(4)},
    **{0x4C + n: _word((0, F(F.OUT_SIPV6_127_96 + n))) for n in range(4)},
    0x5E: Word(((0, _in_tcp(4)),)),
    0x5F: Word(((0, _in_tcp(8)),)),
    0x7B: Word(((0, PLACES[F.METADATA_REG_B]),), False),
    0x7C: Word(((0, _RegisterA()),), False),
}  # fmt: skip

Words = Mapping[int, Word]
"""Words by number."""

WORDS: Final[Mapping[int, Words]] = {
    1: {**_PACKET, **_registers(0x8C)},
    2: {**_PACKET, **_registers(0x90)},
}
"""Words by format number and by word number (destination_dw_offset)."""


class Changed(NamedTuple):
    """The change that an action makes, and whether it affects the frame's bytes."""

    change: Change
    in_frame: bool
    parts: frozenset[Part] = frozenset()
    """Key parts that decide the new value, besides those of the old value."""


class UnknownWordError(Exception):
    """An action names an unknown word, or bits outside it."""


def _bits(shift: int, length: int) -> int:
    if not 0 < length <= 32 - shift:
        raise UnknownWordError(f"{length} bits from {shift} exceed a word")
    return (1 << length) - 1 << shift


def _of(words: Words, number: int) -> Word:
    """Return the word with a number. Raises UnknownWordError for an unknown one."""
    word = words.get(number)
    if word is None:
        raise UnknownWordError(f"word {number:#x} not supported")
    return word


def set_word(words: Words, number: int, shift: int, length: int, data: int) -> Changed:
    """Return a change that sets some bits of a word."""
    word, mask = _of(words, number), _bits(shift, length)
    return Changed(lambda packet: word.put(packet, mask, data << shift), word.in_frame)


def add_to_word(words: Words, number: int, shift: int, length: int, data: int) -> Changed:
    """Return a change that adds to the number in some bits of a word, modulo its length.

    Raises UnknownWordError for an unknown word or bits outside it.
    """
    word, mask = _of(words, number), _bits(shift, length)
    return Changed(
        lambda packet: word.put(packet, mask, word.get(packet) + (data << shift)),
        word.in_frame,
        word.parts,
    )


def copy_word(
    words: Words, target: tuple[int, int], length: int, source: tuple[int, int]
) -> Changed:
    """Return a change that copies bits between words; each is (word number, lowest bit).

    Raises UnknownWordError for an unknown word or bits outside it. Bits of fields that the packet
    lacks read as 0.
    """
    word, mask = _of(words, target[0]), _bits(target[1], length)
    from_word, low, high = _of(words, source[0]), source[1], target[1]
    _bits(low, length)

    def change(packet: Changing) -> None:
        word.put(packet, mask, from_word.get(packet) >> low << high)

    return Changed(change, word.in_frame, from_word.parts)
