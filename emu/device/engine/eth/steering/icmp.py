"""The ICMP and ICMPv6 fields that flow groups can match: misc_parameters_3.

A packet of one protocol lacks the fields of the other. The message is also found behind IPv6
extension headers: MLD messages have one in front (RFC 3810 5).

Sources: RFC 792, RFC 4443 2.1; mlx5_ifc.h: fte_match_set_misc3.
"""

from __future__ import annotations

from typing import Final

from emu.device.engine.eth.steering.match_field import MatchField, Read
from emu.device.port.eth.headers import ICMP, ICMPV6, Headers

_BYTES: Final = 8
"""Type, code, checksum, and a word that depends on the type."""


def _message(headers: Headers) -> bytes:
    """Return protocol, type, code and second word of an ICMP message; empty if there is none."""
    protocol, at = headers.protocol, headers.l4
    if protocol not in (ICMP, ICMPV6) or not at:
        return b""
    message = headers.frame[at : at + _BYTES]
    return bytes((protocol,)) + message[:2] + message[4:]


def _bytes_of(protocol: int, start: int, stop: int) -> Read:
    """Return a reader of some bytes of ``_message``; None for a packet of another protocol."""

    def read(headers: Headers) -> int | None:
        message = _message(headers)
        if not message or message[0] != protocol:
            return None
        return int.from_bytes(message[start:stop], "big")

    return read


FIELDS: Final[dict[str, MatchField]] = {
    f"{name}_{field}": MatchField(_bytes_of(protocol, start, stop), _message)
    for name, protocol in (("icmp", ICMP), ("icmpv6", ICMPV6))
    for field, start, stop in (("type", 1, 2), ("code", 2, 3), ("header_data", 3, 7))
}
"""Fields by their names in fte_match_set_misc3."""
