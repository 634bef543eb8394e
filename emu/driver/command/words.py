"""Lists of addresses as commands carry them: 64 bits each, big-endian."""

from __future__ import annotations


def pack64(values):
    return b"".join(value.to_bytes(8, "big") for value in values)


def unpack64(data):
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]
