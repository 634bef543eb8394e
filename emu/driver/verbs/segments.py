"""The segments of work requests, as bytes."""

from __future__ import annotations

from layouts.wqe import (
    DATA,
    DS,
    XRC,
)

PAGE = 4096
SIGNALED = 0b10 << 2
SOLICITED = 1 << 1
FENCE = 2 << 5
_END_OF_LIST = DATA.pack(0, 0x100, 0)


def inline(data):
    """An inline data segment: its header, the bytes, padding."""
    segment = (1 << 31 | len(data)).to_bytes(4, "big") + data
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")


def _data(sges):
    """Data segments; bytes go inline. A provider leaves out empty ones, for 0 means 2 GiB."""
    return [
        inline(sge) if isinstance(sge, bytes) else DATA.pack(*sge)
        for sge in sges
        if isinstance(sge, bytes) or sge[0]
    ]


def _xrc(srqn):
    return [] if srqn is None else [XRC.pack(srqn)]
