"""The frame check sequence: the CRC32 at the end of a frame on a cable (IEEE 802.3 3.2.9).

Frames here do not carry it. It is computed for receive queues that want it behind each packet
(rqc.scatter_fcs); a frame that was damaged on its way has the one that it left with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import Headers

_HeadersT = TypeVar("_HeadersT", bound=Headers)


def fcs_of(data: bytes) -> bytes:
    """The 4 bytes that follow a frame on the cable."""
    return crc32(data).to_bytes(4, "little")


@dataclass(slots=True)
class Damaged(Frame):
    """A frame whose bytes are not those that its check sequence was made for."""

    fcs: bytes = b""


class Wrong(Headers):
    """The headers of a damaged frame."""

    __slots__ = ("fcs",)

    fcs: bytes

    @classmethod
    def of(cls, headers: Headers, fcs: bytes) -> Wrong:
        """The same headers, with the check sequence that came."""
        wrong = _copy(cls, headers, headers.frame)
        wrong.fcs = fcs
        return wrong


def with_fcs(headers: Headers) -> Headers:
    """The packet with its check sequence behind it, where its end does not reach."""
    fcs = headers.fcs if isinstance(headers, Wrong) else fcs_of(headers.frame)
    return _copy(Headers, headers, headers.frame + fcs)


def _copy(kind: type[_HeadersT], headers: Headers, data: bytes) -> _HeadersT:
    return kind(
        data, headers.ethertype, headers.l3, headers.version, headers.protocol, headers.l4,
        headers.end, headers.fragment,
    )  # fmt: skip
