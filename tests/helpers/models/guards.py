"""Guards of block signatures as their standards define them, byte by byte."""

from __future__ import annotations

from functools import cache

ONES32, ONES64 = (1 << 32) - 1, (1 << 64) - 1
_T10, _CASTAGNOLI, _XP10 = 0x8BB7, 0x82F63B78, 0x9A6C9329AC4BC9B5


def t10_crc(data, seed):
    """T10 SBC-3: 16 bits, polynomial 0x8BB7, the most significant bit first."""
    crc = seed
    for byte in data:
        crc = crc << 8 & 0xFFFF ^ _upwards(crc >> 8 ^ byte)
    return crc


@cache
def _upwards(byte):
    value = byte << 8
    for _ in range(8):
        value = (value << 1 ^ (_T10 if value & 0x8000 else 0)) & 0xFFFF
    return value


def ip_checksum(data, seed):
    """RFC 1071, over whole words of 16 bits."""
    total = seed
    for at in range(0, len(data), 2):
        total += int.from_bytes(data[at : at + 2], "big")
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def crc32c(data, seed):
    """RFC 3720: Castagnoli's polynomial, inverted at the end."""
    return _reflected(data, _CASTAGNOLI, seed) ^ ONES32


def crc64_xp10(data, seed):
    """XP10's CRC of 64 bits, inverted at the end."""
    return _reflected(data, _XP10, seed) ^ ONES64


def _reflected(data, polynomial, crc):
    for byte in data:
        crc = crc >> 8 ^ _downwards(polynomial, (crc ^ byte) & 0xFF)
    return crc


@cache
def _downwards(polynomial, byte):
    for _ in range(8):
        byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
    return byte
