"""The protocol between the processes of a fabric: frames of a length, a kind and a body.

A process that connects sends HELLO: the protocol's version, and for each of its functions the kind
of its port, a LID and a GUID, 0 for any; an Ethernet port has no LID. The listener replies with
WELCOME and the assigned LIDs and GUIDs, or with REFUSED and the reason. From then on members report
their own InfiniBand ports (PORT), the listener tells each member about all ports but the member's
own (PORTS, and the GUIDs of Ethernet ports), and which multicast LIDs lead to a member's ports
(GROUP). Four kinds of frames go in both directions: PACKETs, from the local route header to the
invariant CRC; Ethernet frames, from the destination address to the payload's end, behind the number
of their segment and what the sender knows of them; and TRAINs of both (``emu.device.port.train``).
Between processes of one host the body of a train may stand in memory that both map (``shared.py``).

Everything from a socket is checked here before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
_HELLO = Struct(">8sHH")
_WELCOME = Struct(">HH")
_IDENTITY = Struct(">BHQ")
_GUID = Struct(">Q")
_GROUP = Struct(">H16s?")
"""MLID, the port's GID, and whether the one leads to the other."""
_FRAME = Struct(">BBH")
"""Segment, what is vouched for, segment size of a super-frame or 0."""
_SEGMENT = Struct(">B3x")
"""Of a train of RoCE packets."""
_MEMORY = Struct(">I")
_PLACED = Struct(">B3xIQ")
"""Kind of the frame, its bytes, and where they begin, counted over all that was ever placed."""
_FREED = Struct(">Q")
_CHECKED, _FILLED = 1, 2


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
"""The kinds that are dropped when the other side does not read."""
PACKETS = LOSABLE | {FrameKind.PLACED}
"""The kinds that packets travel in. A place in memory is not lost: its room would be, too."""

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
    """A frame whose body stands in memory that both processes map (``shared.py``)."""

    kind: FrameKind
    size: int
    start: int
    """Where the body begins, counted over all laps."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The LID and GUID of one function; 0 in a request means "any"."""

    lid: int = 0
    guid: int = 0
    is_ethernet: bool = False
    """Its port is an Ethernet port, which has no LID."""


def frame(kind: FrameKind, body: bytes) -> bytes:
    """The bytes of a frame."""
    return HEADER.pack(len(body), kind) + body


def frames(buffer: memoryview) -> Iterator[tuple[FrameKind, memoryview, int]]:
    """The whole frames in ``buffer``: kind, body, and the offset behind each.

    Raises :class:`FabricProtocolError` for an invalid header.
    """
    body, available = HEADER.size, len(buffer)
    while body <= available:
        length, code = HEADER.unpack_from(buffer, body - HEADER.size)
        kind, limit = _KINDS.get(code, _NO_KIND)
        if length > limit:
            what = f"frame of kind {code} with {length} bytes"
            raise FabricProtocolError(f"{what}, which no mlx5emu sends")
        end = body + length
        if end > available:
            return
        yield kind, buffer[body:end], end
        body = end + HEADER.size


def hello(requested: Sequence[Identity]) -> bytes:
    """The body of a HELLO."""
    return _HELLO.pack(MAGIC, VERSION, len(requested)) + _identities(requested)


def read_hello(body: memoryview) -> list[Identity]:
    """What a HELLO asks for. Raises :class:`FabricProtocolError`, whose text REFUSED can carry."""
    if len(body) < _HELLO.size:
        raise FabricProtocolError("HELLO is too short")
    magic, version, count = _HELLO.unpack_from(body)
    if magic != MAGIC:
        raise FabricProtocolError("no greeting of a fabric's member")
    if version != VERSION:
        raise FabricProtocolError(f"version {version} of the fabric's protocol, not {VERSION}")
    return _read_identities(body[_HELLO.size :], count)


def welcome(given: Sequence[Identity]) -> bytes:
    """The body of a WELCOME."""
    return _WELCOME.pack(VERSION, len(given)) + _identities(given)


def read_welcome(body: memoryview, requested: Sequence[Identity]) -> list[Identity]:
    """The LIDs and GUIDs that a WELCOME assigns. Raises :class:`FabricProtocolError`."""
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
    """The body of GUIDS: those of the Ethernet ports among the identities."""
    return b"".join(_GUID.pack(one.guid) for one in identities if one.is_ethernet)


def read_guids(body: memoryview) -> list[Identity]:
    """The Ethernet ports in the body of GUIDS. Raises :class:`FabricProtocolError`."""
    if len(body) % _GUID.size:
        raise FabricProtocolError("a GUID is cut off")
    return [Identity(0, guid, True) for (guid,) in _GUID.iter_unpack(body)]


def ethernet(segment: int, frame: Frame) -> bytes:
    """The body of FRAME."""
    flags = _CHECKED * frame.checked | _FILLED * frame.filled
    return _FRAME.pack(segment, flags, frame.gso_size) + frame.data


def read_ethernet(body: memoryview) -> tuple[int, Frame]:
    """The segment and the frame in the body of FRAME. Raises :class:`FabricProtocolError`."""
    if len(body) < _FRAME.size:
        raise FabricProtocolError("an Ethernet frame is cut off")
    segment, flags, gso_size = _FRAME.unpack_from(body)
    if flags & ~(_CHECKED | _FILLED):
        raise FabricProtocolError(f"an Ethernet frame with flags {flags:#x}")
    checked, filled = flags & _CHECKED != 0, flags & _FILLED != 0
    return segment, Frame(bytes(body[_FRAME.size :]), gso_size, checked, filled)


def segment(number: int) -> bytes:
    """The front of FRAME_TRAIN."""
    return _SEGMENT.pack(number)


def read_train(body: memoryview) -> tuple[int, memoryview]:
    """The segment and the frame in the body of FRAME_TRAIN. Raises FabricProtocolError."""
    if len(body) < _SEGMENT.size:
        raise FabricProtocolError("a train is cut off")
    return _SEGMENT.unpack_from(body)[0], body[_SEGMENT.size :]


def memory(size: int) -> bytes:
    """The body of MEMORY, with which a descriptor comes."""
    return _MEMORY.pack(size)


def read_memory(body: memoryview) -> int:
    """The size that MEMORY tells. Raises :class:`FabricProtocolError`."""
    (size,) = _exactly(_MEMORY, body)
    return int(size)


def placed(frame: Placed) -> bytes:
    """The body of PLACED."""
    return _PLACED.pack(*frame)


def read_placed(body: memoryview) -> Placed:
    """The frame that PLACED stands for. Raises :class:`FabricProtocolError`."""
    code, size, start = _exactly(_PLACED, body)
    kind, _ = _KINDS.get(code, _NO_KIND)
    return Placed(kind, size, start)


def freed(up_to: int) -> bytes:
    """The body of FREED."""
    return _FREED.pack(up_to)


def read_freed(body: memoryview) -> int:
    """Up to where memory is free. Raises :class:`FabricProtocolError`."""
    (up_to,) = _exactly(_FREED, body)
    return int(up_to)


def _exactly(layout: Struct, body: memoryview) -> tuple[int, ...]:
    if len(body) != layout.size:
        raise FabricProtocolError(f"{len(body)} bytes in place of {layout.size}")
    return layout.unpack(body)


def reason(text: str) -> bytes:
    """The body of a REFUSED."""
    return text.encode()[:MAX_REASON]


def read_reason(body: memoryview) -> str:
    """The text of a REFUSED, fit for a log."""
    text = bytes(body).decode(errors="replace")
    return "".join(char if char.isprintable() else "?" for char in text)


def group(mlid: int, gid: bytes, listens: bool) -> bytes:
    """The body of a GROUP."""
    return _GROUP.pack(mlid, gid, listens)


def read_group(body: memoryview) -> tuple[int, bytes, bool]:
    """What a GROUP says. Raises :class:`FabricProtocolError`."""
    if len(body) != _GROUP.size:
        raise FabricProtocolError(f"GROUP of {len(body)} bytes")
    mlid, gid, listens = _GROUP.unpack(body)
    if not MULTICAST_LID <= mlid < PERMISSIVE_LID:
        raise FabricProtocolError(f"GROUP with LID {mlid:#x}")
    return mlid, gid, listens
