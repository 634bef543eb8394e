"""VLAN actions of flow table entries: pop a tag, push a tag.

A pop leaves an untagged packet unchanged.

Source: mlx5_ifc.h: vlan; core/en/tc/act/vlan.c, core/eswitch_offloads.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.errors import BadParamError
from emu.device.objects.eth.reshape import Reshape
from emu.device.port.eth.headers import MAX_TAGS, TAG_BYTES, TPIDS, Headers

if TYPE_CHECKING:
    from layouts.steering.fte import vlan

_MACS: Final = 12
_BEHIND_BYTES: Final = 64
"""Bytes matched behind a third tag after a pop."""


def _popped(headers: Headers) -> bytes:
    frame = headers.frame
    return frame[:_MACS] + frame[_MACS + TAG_BYTES :] if headers.tags else frame


def third_tag(headers: Headers) -> bytes:
    """Return the bytes behind two tags where a third tag follows, else empty bytes."""
    if headers.tags < MAX_TAGS or headers.ethertype not in TPIDS:
        return b""
    return headers.frame[headers.l3 : headers.l3 + _BEHIND_BYTES]


POP: Final = Reshape("pop a tag", _popped, frozenset({third_tag}))


def push(tag: vlan) -> Reshape:
    """Return a step that inserts a tag before all others.

    Raises BAD_PARAM_ERR for an EtherType that is not a VLAN tag's.
    """
    if tag.ethtype not in TPIDS:
        raise BadParamError("ethtype of the tag to push is not a VLAN tag's", f"{tag.ethtype:#x}")
    octets = bytes(tag)
    return Reshape(
        f"push tag {octets.hex()}",
        lambda headers: headers.frame[:_MACS] + octets + headers.frame[_MACS:],
    )
