"""What entries of flow tables do with VLAN tags: one is taken away, or put in front.

A packet without a tag has none to take away, and stays as it is.

Source: mlx5_ifc.h: vlan; core/en/tc/act/vlan.c, core/eswitch_offloads.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.errors import CmdError
from emu.device.objects.eth.reshape import Reshape
from emu.device.port.eth.headers import ETH_CTAG, ETH_STAG, MAX_TAGS, TAG_BYTES, Headers
from layouts.enums import Status

if TYPE_CHECKING:
    from layouts.steering.fte import Vlan

_MACS: Final = 12
_TPIDS: Final = (ETH_CTAG, ETH_STAG)
_BEHIND_BYTES: Final = 64
"""How much is matched behind a tag that was one too many before."""


def _popped(headers: Headers) -> bytes:
    frame = headers.frame
    return frame[:_MACS] + frame[_MACS + TAG_BYTES :] if headers.tags else frame


def third_tag(headers: Headers) -> bytes:
    """What comes to light behind two tags, when there are more."""
    if headers.tags < MAX_TAGS or headers.ethertype not in _TPIDS:
        return b""
    return headers.frame[headers.l3 : headers.l3 + _BEHIND_BYTES]


POP: Final = Reshape("pop a tag", _popped, frozenset({third_tag}))


def push(tag: Vlan) -> Reshape:
    """Put a tag in front of all others. Raises BAD_PARAM_ERR for a type that is no tag's."""
    if tag.ethtype not in _TPIDS:
        raise CmdError(
            Status.BAD_PARAM_ERR, "tag to push has no type of a VLAN tag", f"{tag.ethtype:#x}"
        )
    octets = bytes(tag)
    return Reshape(
        f"push tag {octets.hex()}",
        lambda headers: headers.frame[:_MACS] + octets + headers.frame[_MACS:],
    )
