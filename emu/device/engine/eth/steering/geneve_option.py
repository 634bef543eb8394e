"""The Geneve option that flow groups can match: misc_parameters_3.

A general object selects the option (``parser.geneve_option``).

Sources: RFC 8926 3.5; mlx5_ifc.h: fte_match_set_misc3; core/en/tc_tun_geneve.c.
"""

from __future__ import annotations

from typing import Final

from emu.device.engine.eth.steering.match_field import MatchField
from emu.device.port.eth.headers import UDP, Headers
from emu.device.port.eth.tunnel import GENEVE_PORT

_PORT: Final = GENEVE_PORT.to_bytes(2, "big")
_UDP_BYTES: Final = 8
_GENEVE_BYTES: Final = 8
_ALL_WORDS: Final = 0x3F
_OPTION_WORDS: Final = 0x1F
_WORD: Final = 4


def _data(headers: Headers) -> int | None:
    """Return the option's first four data bytes; None without it, or with a malformed header."""
    requested = headers.parser.geneve_option
    if requested is None or headers.protocol != UDP or headers.ports[2:] != _PORT:
        return None
    frame, at = headers.frame, headers.l4 + _UDP_BYTES
    if at + _GENEVE_BYTES > headers.end:
        return None
    end = at + _GENEVE_BYTES + (frame[at] & _ALL_WORDS) * _WORD
    if end > headers.end:
        return None
    at += _GENEVE_BYTES
    while at + _WORD < end:
        words = frame[at + 3] & _OPTION_WORDS
        if words == requested[3] and frame[at : at + 3] == requested[:3]:
            return int.from_bytes(frame[at + _WORD : at + 2 * _WORD], "big")
        at += (1 + words) * _WORD
    return None


FIELDS: Final[dict[str, MatchField]] = {"geneve_tlv_option_0_data": MatchField(_data, _data)}
"""Fields by their names in fte_match_set_misc3."""
