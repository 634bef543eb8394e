"""Lists of addresses as commands carry them: 64 bits each, big-endian."""

from __future__ import annotations

from collections.abc import Iterable


def pack64(values: Iterable[int]) -> bytes:
    """Eight bytes for each value, which is below 2**64 (OverflowError otherwise)."""
    return b"".join(value.to_bytes(8, "big") for value in values)


def unpack64(data: bytes) -> list[int]:
    """The values of ``pack64``."""
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]
