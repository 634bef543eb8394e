"""The blocks of a pcapng file (draft-ietf-opsawg-pcapng), little-endian.

Each interface states its link type. Ethernet frames appear as on the wire without FCS. InfiniBand
packets have an ERF header, the only type for them that Wireshark reads. Text without a packet is an
entry of the systemd journal, which Wireshark lists between packets and libpcap ignores.
"""

from __future__ import annotations

from struct import Struct

LINKTYPE_ETHERNET = 1
LINKTYPE_ERF = 197

_SECTION, _INTERFACE, _PACKET, _JOURNAL = 0x0A0D0D0A, 1, 6, 9
_MAGIC = 0x1A2B3C4D
_ANY_LENGTH = (1 << 64) - 1
_NANOSECONDS = b"\x09"

_HEAD = Struct("<II")
_LENGTH = Struct("<I")
_SECTION_BODY = Struct("<IHHQ")
_INTERFACE_BODY = Struct("<HHI")
_OPTION = Struct("<HH")

_COMMENT, _APPLICATION = 1, 4
_NAME, _DESCRIPTION, _MAC, _EUI, _RESOLUTION = 2, 3, 6, 7, 9
_FLAGS = 2
_INBOUND, _OUTBOUND = b"\1\0\0\0", b"\2\0\0\0"
_FRONT = Struct("<IIIIIII").pack
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_END = _OPTION.pack(0, 0)
_DIRECTION = {
    is_sent: _OPTION.pack(_FLAGS, 4) + flags
    for is_sent, flags in ((False, _INBOUND), (True, _OUTBOUND))
}
_MAX_TEXT = 1000
_IDENTIFIER = "SYSLOG_IDENTIFIER=mlx5emu"

_ERF_TIME = Struct("<Q").pack
_ERF_REST = Struct(">BBHHH").pack
_ERF_INFINIBAND, _ERF_VARYING = 21, 4
_ERF_BYTES = 16
_VCRC = bytes(2)
"""Zero: Wireshark does not check the VCRC."""
_NS = 1_000_000_000


def section(application: str) -> bytes:
    """Return the block that starts a file."""
    body = _SECTION_BODY.pack(_MAGIC, 1, 0, _ANY_LENGTH)
    return _block(_SECTION, body + _text(_APPLICATION, application) + _END)


def interface(link_type: int, name: str, description: str, address: bytes) -> bytes:
    """Return an interface block with nanosecond timestamps; interfaces count from 0.

    ``address`` is a MAC address of 6 bytes or a GUID of 8. Texts are cut after 1000 characters.
    """
    kind = _MAC if len(address) == 6 else _EUI
    options = (
        _text(_NAME, name)
        + _text(_DESCRIPTION, description)
        + _option(kind, address)
        + _option(_RESOLUTION, _NANOSECONDS)
    )
    return _block(_INTERFACE, _INTERFACE_BODY.pack(link_type, 0, 0) + options + _END)


def packet(number: int, time_ns: int, data: bytes, is_sent: bool, comment: str = "") -> bytes:
    """Return an enhanced packet block with direction, and the comment unless empty.

    ``number`` is the interface's. The bytes are stored whole.
    """
    size = len(data)
    options = _DIRECTION[is_sent] + (_text(_COMMENT, comment) if comment else b"") + _END
    padding = _PADDING[size & 3]
    length = 32 + size + len(padding) + len(options)
    front = _FRONT(_PACKET, length, number, time_ns >> 32, time_ns & 0xFFFFFFFF, size, size)
    return b"".join((front, data, padding, options, _LENGTH.pack(length)))


def journal_entry(time_ns: int, text: str) -> bytes:
    """Return text without a packet: a systemd Journal Export Block with one entry.

    Line ends in the text become spaces, and it is cut after 1000 characters.
    """
    message = " ".join(text[:_MAX_TEXT].splitlines())
    fields = f"__REALTIME_TIMESTAMP={time_ns // 1000}\nMESSAGE={message}\n{_IDENTIFIER}\n"
    body = fields.encode(errors="replace")
    return _block(_JOURNAL, body + _PADDING[len(body) & 3])


def erf(time_ns: int, data: bytes) -> bytes:
    """Return an InfiniBand packet as an ERF record, with a zero VCRC behind the packet.

    ``data`` begins with the local route header and ends with the invariant CRC. Source: Endace "ERF
    types", type 21.
    """
    size = len(data) + len(_VCRC)
    seconds, rest = divmod(time_ns, _NS)
    head = _ERF_TIME(seconds << 32 | (rest << 32) // _NS)
    tail = _ERF_REST(_ERF_INFINIBAND, _ERF_VARYING, _ERF_BYTES + size, 0, size)
    return b"".join((head, tail, data, _VCRC))


def _block(kind: int, body: bytes) -> bytes:
    length = _HEAD.size + len(body) + _LENGTH.size
    return _HEAD.pack(kind, length) + body + _LENGTH.pack(length)


def _option(code: int, value: bytes) -> bytes:
    return _OPTION.pack(code, len(value)) + value + _PADDING[len(value) & 3]


def _text(code: int, text: str) -> bytes:
    return _option(code, text[:_MAX_TEXT].encode(errors="replace"))
