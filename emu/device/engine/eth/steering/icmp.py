"""The fields of ICMP and of ICMPv6 that flow groups can match: misc_parameters_3.

A packet of one of them has no field of the other. Behind IPv6 extension headers the message is
found as well: MLD's messages have one in front (RFC 3810 5).

Sources: RFC 792, RFC 4443 2.1; mlx5_ifc.h: fte_match_set_misc3.
"""

from __future__ import annotations

from typing import Final

from emu.device.engine.eth.steering.match_field import MatchField, Read
from emu.device.port.eth.headers import ICMP, ICMPV6, Headers

_BYTES: Final = 8
"""Type, code, checksum, and a word that the type decides."""


def _message(headers: Headers) -> bytes:
    """The header of a message with its protocol, without the checksum; empty if there is none."""
    protocol, at = headers.protocol, headers.l4
    if protocol not in (ICMP, ICMPV6) or not at:
        return b""
    message = headers.frame[at : at + _BYTES]
    return bytes((protocol,)) + message[:2] + message[4:]


def _part(of: int, start: int, stop: int) -> Read:
    """Some bytes of ``_message``, of a message of this protocol."""

    def read(headers: Headers) -> int | None:
        message = _message(headers)
        if not message or message[0] != of:
            return None
        return int.from_bytes(message[start:stop], "big")

    return read


FIELDS: Final[dict[str, MatchField]] = {
    f"{name}_{what}": MatchField(_part(protocol, start, stop), _message)
    for name, protocol in (("icmp", ICMP), ("icmpv6", ICMPV6))
    for what, start, stop in (("type", 1, 2), ("code", 2, 3), ("header_data", 3, 7))
}
"""By their names in fte_match_set_misc3."""
