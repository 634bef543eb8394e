"""The protocol between the processes of a fabric: frames of a length, a kind and a body.

A connecting process sends HELLO: the protocol's version, and for each of its functions the port's
kind, a LID and a GUID. A LID or GUID of 0 requests any; an Ethernet port has no LID. The listener
replies with WELCOME and the assigned LIDs and GUIDs, or with REFUSED and the reason.

Members then report their own InfiniBand ports (PORT). The listener reports to each member all ports
but the member's own: PORTS, and GUIDS for Ethernet ports. GROUP reports which multicast LIDs lead
to a member's ports.

Four kinds of frames travel in both directions. PACKET holds a packet from the local route header to
the invariant CRC. FRAME holds the segment's number, the checksum state and an Ethernet frame
without FCS. TRAIN and FRAME_TRAIN hold trains of both (``emu.device.port.train``). Between
processes of a host the body of a train may be in memory that both map (``shared.py``).

All bytes from a socket are checked here before use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from emu.device.port.eth.frame import MAX_BYTES as MAX_FRAME
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce import trains as roce_trains
from emu.device.port.ib import framing
from emu.device.port.ib.port import SM_LID
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.port_frames import MAX_PORT_BYTES, MAX_PORTS
from layouts.wire.bth import MULTICAST_LID, PERMISSIVE_LID

VERSION = 5
MAGIC = b"mlx5fab\n"
MAX_REASON = 400

HEADER = Struct(">IB3x")
_HEADER_BYTES = HEADER.size
_read_header = HEADER.unpack_from
_HELLO = Struct(">8sHH")
_WELCOME = Struct(">HH")
_IDENTITY = Struct(">BHQ")
_GUID = Struct(">Q")
_GROUP = Struct(">H16s?")
"""MLID, the port's GID, and whether the MLID leads to the port."""
_FRAME = Struct(">BBH")
"""Segment, checksum flags, segment size of a super-frame or 0."""
_SEGMENT = Struct(">B3x")
"""Segment of a train of RoCE packets."""
_MEMORY = Struct(">I")
_PLACED = Struct(">B3xIQ")
"""Kind of the frame, its bytes, and its start, counted over all bytes ever placed."""
_FREED = Struct(">Q")
_CHECKED, _FILLED = 1, 2
_UNKNOWN_FLAGS = ~(_CHECKED | _FILLED)
_FRAME_BYTES = _FRAME.size
_read_frame_header = _FRAME.unpack_from


class FrameKind(IntEnum):
    """The kind of a frame."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    PORTS = 4
    PORT = 5
    PACKET = 6
    FRAME = 7
    GUIDS = 8
    GROUP = 9
    TRAIN = 10
    FRAME_TRAIN = 11
    MEMORY = 12
    PLACED = 13
    FREED = 14


LOSABLE = frozenset({FrameKind.PACKET, FrameKind.FRAME, FrameKind.TRAIN, FrameKind.FRAME_TRAIN})
"""The kinds that are dropped when the peer does not read."""
PACKETS = LOSABLE | {FrameKind.PLACED}
"""The kinds that carry packets. PLACED is never dropped: its memory would never be freed."""

MAX_BODY = {
    FrameKind.HELLO: _HELLO.size + MAX_PORTS * _IDENTITY.size,
    FrameKind.WELCOME: _WELCOME.size + MAX_PORTS * _IDENTITY.size,
    FrameKind.REFUSED: MAX_REASON,
    FrameKind.PORTS: MAX_PORTS * MAX_PORT_BYTES,
    FrameKind.PORT: MAX_PORT_BYTES,
    FrameKind.PACKET: framing.MAX_BYTES,
    FrameKind.FRAME: _FRAME.size + MAX_FRAME,
    FrameKind.GUIDS: MAX_PORTS * _GUID.size,
    FrameKind.GROUP: _GROUP.size,
    FrameKind.TRAIN: framing.MAX_TRAIN_BYTES,
    FrameKind.FRAME_TRAIN: _SEGMENT.size + roce_trains.MAX_TRAIN_BYTES,
    FrameKind.MEMORY: _MEMORY.size,
    FrameKind.PLACED: _PLACED.size,
    FrameKind.FREED: _FREED.size,
}


_KINDS = {kind.value: (kind, limit) for kind, limit in MAX_BODY.items()}
_NO_KIND = FrameKind.HELLO, -1


class Placed(NamedTuple):
    """A frame whose body is in memory that both processes map (``shared.py``)."""

    kind: FrameKind
    size: int
    start: int
    """Position of the body, counted over all laps."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The LID and GUID of a function; 0 in a request means "any"."""

    lid: int = 0
    guid: int = 0
    is_ethernet: bool = False
    """Whether the function's port is an Ethernet port, which has no LID."""


def frame(kind: FrameKind, body: bytes) -> bytes:
    """Return the bytes of a frame."""
    return HEADER.pack(len(body), kind) + body


def next_frame(
    buffer: memoryview, at: int, available: int
) -> tuple[FrameKind, memoryview, int] | None:
    """Return kind, body and end offset of the frame at ``at``; None for one that is incomplete.

    ``available`` is the end of the received bytes. Raises FabricProtocolError for an unknown kind,
    or a length above the kind's limit.
    """
    body = at + _HEADER_BYTES
    if body > available:
        return None
    length, code = _read_header(buffer, at)
    kind, limit = _KINDS.get(code, _NO_KIND)
    if length > limit:
        what = f"frame of kind {code} with {length} bytes"
        raise FabricProtocolError(f"{what}, which no mlx5emu sends")
    end = body + length
    return None if end > available else (kind, buffer[body:end], end)


def hello(requested: Sequence[Identity]) -> bytes:
    """Return the body of a HELLO."""
    return _HELLO.pack(MAGIC, VERSION, len(requested)) + _identities(requested)


def read_hello(body: memoryview) -> list[Identity]:
    """Return the LIDs and GUIDs that a HELLO requests; 0 requests any.

    Raises FabricProtocolError for another magic number or version, a wrong length, or invalid
    identities; REFUSED can carry its text.
    """
    if len(body) < _HELLO.size:
        raise FabricProtocolError("HELLO is too short")
    magic, version, count = _HELLO.unpack_from(body)
    if magic != MAGIC:
        raise FabricProtocolError("HELLO without the fabric's magic number")
    if version != VERSION:
        raise FabricProtocolError(f"version {version} of the fabric's protocol, not {VERSION}")
    return _read_identities(body[_HELLO.size :], count)


def welcome(given: Sequence[Identity]) -> bytes:
    """Return the body of a WELCOME."""
    return _WELCOME.pack(VERSION, len(given)) + _identities(given)


def read_welcome(body: memoryview, requested: Sequence[Identity]) -> list[Identity]:
    """Return the LIDs and GUIDs that a WELCOME assigns to the ``requested`` functions, in order.

    Raises FabricProtocolError for another version, a wrong length, missing numbers, or numbers
    other than the requested ones.
    """
    if len(body) < _WELCOME.size:
        raise FabricProtocolError("WELCOME is too short")
    version, count = _WELCOME.unpack_from(body)
    if version != VERSION:
        raise FabricProtocolError(f"version {version} of the fabric's protocol, not {VERSION}")
    given = _read_identities(body[_WELCOME.size :], count)
    if len(given) != len(requested) or any(
        not (got.lid or got.is_ethernet)
        or not got.guid
        or want.is_ethernet is not got.is_ethernet
        or want.lid not in (0, got.lid)
        or want.guid not in (0, got.guid)
        for got, want in zip(given, requested)
    ):
        raise FabricProtocolError("WELCOME does not answer our HELLO")
    return given


def _identities(identities: Iterable[Identity]) -> bytes:
    return b"".join(_IDENTITY.pack(one.is_ethernet, one.lid, one.guid) for one in identities)


def _read_identities(body: memoryview, count: int) -> list[Identity]:
    """Return the ``count`` identities in the body.

    Raises FabricProtocolError for more than MAX_PORTS, a wrong length, a LID from SM_LID on, an
    unknown port kind, or an Ethernet port with a LID.
    """
    if count > MAX_PORTS or len(body) != count * _IDENTITY.size:
        raise FabricProtocolError(f"{count} functions in {len(body)} bytes")
    identities = []
    for kind, lid, guid in _IDENTITY.iter_unpack(body):
        if lid >= SM_LID:
            raise FabricProtocolError("a LID is too high")
        if kind > 1 or (kind and lid):
            raise FabricProtocolError(f"a port of kind {kind} with LID {lid:#x}")
        identities.append(Identity(lid, guid, bool(kind)))
    return identities


def guids(identities: Iterable[Identity]) -> bytes:
    """Return the body of GUIDS: the GUIDs of the Ethernet ports among the identities."""
    return b"".join(_GUID.pack(one.guid) for one in identities if one.is_ethernet)


def read_guids(body: memoryview) -> list[Identity]:
    """Return the Ethernet ports in GUIDS. Raises FabricProtocolError for a partial GUID."""
    if len(body) % _GUID.size:
        raise FabricProtocolError("a GUID is cut off")
    return [Identity(0, guid, True) for (guid,) in _GUID.iter_unpack(body)]


def ethernet(segment: int, frame: Frame) -> bytes:
    """Return the body of FRAME."""
    flags = _CHECKED * frame.checked | _FILLED * frame.filled
    return _FRAME.pack(segment, flags, frame.gso_size) + frame.data


def read_ethernet(body: memoryview) -> tuple[int, Frame]:
    """Return segment and frame in the body of FRAME; the frame's content is not checked.

    Raises FabricProtocolError for a truncated header or unknown flags.
    """
    if len(body) < _FRAME_BYTES:
        raise FabricProtocolError("an Ethernet frame is cut off")
    segment, flags, gso_size = _read_frame_header(body)
    if flags & _UNKNOWN_FLAGS:
        raise FabricProtocolError(f"an Ethernet frame with flags {flags:#x}")
    checked, filled = flags & _CHECKED != 0, flags & _FILLED != 0
    return segment, Frame(bytes(body[_FRAME_BYTES:]), gso_size, checked, filled)


def segment(number: int) -> bytes:
    """Return the header of FRAME_TRAIN."""
    return _SEGMENT.pack(number)


def read_train(body: memoryview) -> tuple[int, memoryview]:
    """Return the segment and the unparsed train in the body of FRAME_TRAIN.

    Raises FabricProtocolError for a truncated header.
    """
    if len(body) < _SEGMENT.size:
        raise FabricProtocolError("a train is cut off")
    return _SEGMENT.unpack_from(body)[0], body[_SEGMENT.size :]


def memory(size: int) -> bytes:
    """Return the body of MEMORY, which a descriptor accompanies."""
    return _MEMORY.pack(size)


def read_memory(body: memoryview) -> int:
    """Return the size in MEMORY. Raises :class:`FabricProtocolError`."""
    (size,) = _exactly(_MEMORY, body)
    return int(size)


def placed(frame: Placed) -> bytes:
    """Return the body of PLACED."""
    return _PLACED.pack(*frame)


def read_placed(body: memoryview) -> Placed:
    """Return the frame that PLACED refers to; an unknown kind becomes HELLO, refused later.

    Raises FabricProtocolError for a wrong length. Size and position are not checked here.
    """
    code, size, start = _exactly(_PLACED, body)
    kind, _ = _KINDS.get(code, _NO_KIND)
    return Placed(kind, size, start)


def freed(up_to: int) -> bytes:
    """Return the body of FREED."""
    return _FREED.pack(up_to)


def read_freed(body: memoryview) -> int:
    """Return the position up to which memory is free. Raises :class:`FabricProtocolError`."""
    (up_to,) = _exactly(_FREED, body)
    return int(up_to)


def _exactly(layout: Struct, body: memoryview) -> tuple[int, ...]:
    """Unpack a body. Raises FabricProtocolError unless the length is exactly that of ``layout``."""
    if len(body) != layout.size:
        raise FabricProtocolError(f"{len(body)} bytes in place of {layout.size}")
    return layout.unpack(body)


def reason(text: str) -> bytes:
    """Return the body of a REFUSED."""
    return text.encode()[:MAX_REASON]


def read_reason(body: memoryview) -> str:
    """Return the text of a REFUSED with unprintable characters replaced, for the log."""
    text = bytes(body).decode(errors="replace")
    return "".join(char if char.isprintable() else "?" for char in text)


def group(mlid: int, gid: bytes, listens: bool) -> bytes:
    """Return the body of a GROUP."""
    return _GROUP.pack(mlid, gid, listens)


def read_group(body: memoryview) -> tuple[int, bytes, bool]:
    """Return MLID, port GID and membership in a GROUP.

    Raises FabricProtocolError for a wrong length or a LID that is not multicast.
    """
    if len(body) != _GROUP.size:
        raise FabricProtocolError(f"GROUP of {len(body)} bytes")
    mlid, gid, listens = _GROUP.unpack(body)
    if not MULTICAST_LID <= mlid < PERMISSIVE_LID:
        raise FabricProtocolError(f"GROUP with LID {mlid:#x}")
    return mlid, gid, listens
