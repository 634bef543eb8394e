"""Lists of addresses in the form of commands: 64 bits each, big-endian."""

from __future__ import annotations

from collections.abc import Iterable


def pack64(values: Iterable[int]) -> bytes:
    """Pack each value, below 2**64, into eight bytes (OverflowError otherwise)."""
    return b"".join(value.to_bytes(8, "big") for value in values)


def unpack64(data: bytes) -> list[int]:
    """Return the values that ``pack64`` packed."""
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]
