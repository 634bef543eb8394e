"""Guards of block signatures: T10-DIF's CRC and checksum, CRC32, CRC32C and CRC64.

CRC32 is Ethernet's, computed by zlib. Python's standard library lacks the other polynomials: their
tables have 65536 entries, one lookup for every two bytes, built on first use.

Sources: T10 SBC-3 (CRC-16, polynomial 0x8BB7), RFC 3720 (CRC32C), the XP10 compression standard
(CRC64), RFC 1071 (IP checksum).
"""

from __future__ import annotations

import sys
import zlib
from array import array
from functools import cache
from typing import Final

_T10_POLYNOMIAL: Final = 0x8BB7
_CRC32C_REFLECTED: Final = 0x82F63B78
_XP10_REFLECTED: Final = 0x9A6C9329AC4BC9B5
_WORDS: Final = 1 << 16


def t10_crc(data: bytes, seed: int) -> int:
    """Return the 16-bit CRC of T10-DIF, most significant bit first, from register ``seed``."""
    table, crc = _t10_table(), seed
    words = _words(data, "big")
    for word in words:
        crc = table[crc ^ word]
    if len(data) % 2:
        crc = crc << 8 & 0xFFFF ^ table[crc >> 8 ^ data[-1]]
    return crc


def ip_checksum(data: bytes, seed: int) -> int:
    """Return the complement of the one's complement sum of ``seed`` and 16-bit words (RFC 1071).

    An odd last byte is padded with 0.
    """
    padded = data if len(data) % 2 == 0 else data + b"\0"
    total = seed + sum(_words(padded, "big"))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc32(data: bytes, seed: int) -> int:
    """Return the CRC32 of Ethernet; ``seed`` starts the register, the result is inverted."""
    return zlib.crc32(data, seed ^ 0xFFFFFFFF)


def crc32c(data: bytes, seed: int) -> int:
    """Return the CRC32C (Castagnoli); ``seed`` starts the register, the result is inverted."""
    return _reflected(data, _reflected_table(_CRC32C_REFLECTED), seed) ^ 0xFFFFFFFF


def crc64_xp10(data: bytes, seed: int) -> int:
    """Return the CRC64 of XP10; ``seed`` starts the register, the result is inverted."""
    return _reflected(data, _reflected_table(_XP10_REFLECTED), seed) ^ 0xFFFFFFFFFFFFFFFF


def _words(data: bytes, order: str) -> array[int]:
    words = array("H", data[: len(data) & ~1])
    if order != sys.byteorder:
        words.byteswap()
    return words


def _reflected(data: bytes, table: array[int], crc: int) -> int:
    """Return the register after ``data``, least significant bit first, not inverted."""
    for word in _words(data, "little"):
        crc = crc >> 16 ^ table[(crc ^ word) & 0xFFFF]
    if len(data) % 2:
        # Look up a single last byte as the upper half of a word.
        crc = crc >> 8 ^ table[((crc ^ data[-1]) & 0xFF) << 8]
    return crc


@cache
def _reflected_table(polynomial: int) -> array[int]:
    """Return the table of a reflected CRC for steps of 16 bits; the result is cached.

    The index is the register's low 16 bits XOR the next word of data. The next register is
    ``(register >> 16) ^ entry``. ``polynomial`` is reflected and has up to 64 bits.
    """
    by_byte = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        by_byte.append(value)
    table = array("Q", bytes(8 * _WORDS))
    for word in range(_WORDS):
        value = by_byte[word & 0xFF] ^ word >> 8
        table[word] = value >> 8 ^ by_byte[value & 0xFF]
    return table


@cache
def _t10_table() -> array[int]:
    """Return the table of T10-DIF's CRC for steps of 16 bits; the result is cached.

    The index is the register XOR the next big-endian word of data. The entry is the next register.
    """
    by_byte = []
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1 ^ (_T10_POLYNOMIAL if value & 0x8000 else 0)) & 0xFFFF
        by_byte.append(value)
    table = array("H", bytes(2 * _WORDS))
    for word in range(_WORDS):
        value = by_byte[word >> 8] ^ (word << 8 & 0xFFFF)
        table[word] = value << 8 & 0xFFFF ^ by_byte[value >> 8]
    return table
