"""The frame check sequence: the CRC32 at the end of a frame on a cable (IEEE 802.3 3.2.9).

Frames in this process do not carry it. The device computes the sequence for receive queues that
request it behind each packet (rqc.scatter_fcs). A frame damaged in transit has the sequence of the
original frame.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar
from zlib import crc32

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import Headers, Marked

_HeadersT = TypeVar("_HeadersT", bound=Headers)


def fcs_of(data: bytes) -> bytes:
    """Return the 4 bytes that follow a frame on the cable."""
    return crc32(data).to_bytes(4, "little")


@dataclass(slots=True)
class Damaged(Frame):
    """A frame whose bytes differ from those that the check sequence covers."""

    fcs: bytes = b""

    @classmethod
    def of(cls, frame: Frame, fcs: bytes) -> Damaged:
        """Return the same frame with the check sequence of other bytes."""
        values = {one.name: getattr(frame, one.name) for one in fields(Frame)}
        return cls(**values, fcs=fcs)


class Wrong(Headers):
    """The headers of a damaged frame."""

    __slots__ = ("fcs",)

    fcs: bytes

    @classmethod
    def of(cls, headers: Headers, fcs: bytes) -> Wrong:
        """Return the same headers with the received check sequence."""
        wrong = _copy(cls, headers, headers.frame)
        wrong.fcs = fcs
        return wrong


def with_fcs(headers: Headers) -> Headers:
    """Return the packet with its check sequence appended, outside its ``end``.

    Registers, source and the device's parser stay: changes of the packet read them.
    """
    fcs = headers.fcs if isinstance(headers, Wrong) else fcs_of(headers.frame)
    whole = _copy(Headers, headers, headers.frame + fcs)
    whole.copy_state(headers)
    if isinstance(headers, Marked):
        return Marked(whole, headers.registers, headers.source)
    return whole


def _copy(kind: type[_HeadersT], headers: Headers, data: bytes) -> _HeadersT:
    return kind(
        data, headers.ethertype, headers.l3, headers.version, headers.protocol, headers.l4,
        headers.end, headers.fragment,
    )  # fmt: skip
