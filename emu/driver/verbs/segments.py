"""Segments of WQEs, as bytes."""

from __future__ import annotations

from collections.abc import Iterable

from layouts.rings.wqe import DATA, DS, XRC

PAGE = 4096
SIGNALED = 0b10 << 2
SOLICITED = 1 << 1
FENCE = 2 << 5
END_OF_LIST = DATA.pack(0, 0x100, 0)
"""Segment behind the last data segment of a receive WQE with unused segments."""

Sge = tuple[int, int, int]
"""Range of memory: bytes, key, virtual address."""
Remote = tuple[int, int]
"""Start of a peer's memory: rkey, virtual address."""


def inline(data: bytes) -> bytes:
    """Return an inline data segment: its header, the bytes, padding."""
    segment = (1 << 31 | len(data)).to_bytes(4, "big") + data
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")


def data_segments(sges: Iterable[Sge | bytes]) -> list[bytes]:
    """Return data segments; bytes become inline ones.

    A range of 0 bytes is left out, as by a provider, because 0 means 2 GiB.
    """
    return [
        inline(sge) if isinstance(sge, bytes) else DATA.pack(*sge)
        for sge in sges
        if isinstance(sge, bytes) or sge[0]
    ]


def xrc_segments(srqn: int | None) -> list[bytes]:
    """Return the segment that names a shared queue, for WQEs that need one."""
    return [] if srqn is None else [XRC.pack(srqn)]
