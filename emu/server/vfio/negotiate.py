"""VFIO_USER_VERSION: the first message of a client and our reply to it.

vfio-user specification, "VFIO_USER_VERSION": the reply has the client's major version, a minor one
no higher, and a subset of the proposed capabilities. QEMU requires JSON that ends in a NUL, and a
reply no longer than its request (hw/vfio-user/proxy.c:vfio_user_validate_version).
"""

from __future__ import annotations

import errno
import json
from typing import Final

from emu.server.vfio.protocol import (
    MAJOR,
    MAX_DATA_XFER_SIZE,
    MAX_DMA_MAPS,
    MAX_MSG_FDS,
    MAX_VERSION_DATA,
    MINOR,
    PAGE_SIZE,
    VERSION,
    VfioRequestError,
)

_NUMBERS: Final = {
    "max_msg_fds": MAX_MSG_FDS,
    "max_data_xfer_size": MAX_DATA_XFER_SIZE,
    "max_dma_maps": MAX_DMA_MAPS,
    "pgsizes": PAGE_SIZE,
}


def negotiate(payload: bytes) -> bytes:
    """Return the reply's payload for a VERSION message: major, minor, and the agreed capabilities.

    The minor version is the lower one. Without data in ``payload`` the reply has no JSON. Raises
    :class:`VfioRequestError` with EINVAL for a short message, another major version, or invalid
    data; the caller then ends the connection.
    """
    if len(payload) < VERSION.size:
        raise _invalid(f"VERSION has {len(payload)} bytes")
    major, minor = VERSION.unpack_from(payload)
    if major != MAJOR:
        raise _invalid(f"the client has version {major}.{minor}, the server {MAJOR}.{MINOR}")
    reply = VERSION.pack(MAJOR, min(minor, MINOR))
    data = payload[VERSION.size :]
    if not data:
        return reply
    agreed = json.dumps({"capabilities": _agree(_parse(data))}, separators=(",", ":"))
    return reply + agreed.encode() + b"\0"


def _parse(data: bytes) -> dict[str, object]:
    """Return the capabilities that the client proposes; empty if it names none.

    Raises :class:`VfioRequestError` with EINVAL: over 4096 bytes, no NUL at the end, no JSON
    object, or ``capabilities`` that are no object.
    """
    if len(data) > MAX_VERSION_DATA or data[-1]:
        raise _invalid("the version data are too long or do not end in NUL")
    try:
        proposal = json.loads(data[:-1])
    except (ValueError, RecursionError) as error:
        raise _invalid(f"the version data are not JSON: {error}") from None
    capabilities = proposal.get("capabilities", {}) if isinstance(proposal, dict) else None
    if not isinstance(capabilities, dict):
        raise _invalid("the version data have no object of capabilities")
    return capabilities


def _agree(proposed: dict[str, object]) -> dict[str, int]:
    """Return our values of the proposed capabilities that we support; omit the others.

    ``max_dma_maps`` is the lower value of both sides; the other numbers are ours. Omits
    ``write_multiple``: QEMU 10.1 and 10.2 then pass every message, replies to reads included,
    through another thread (VFIO_PROXY_USE_MULTI has VFIO_PROXY_FORCE_QUEUED's bit there). Raises
    :class:`VfioRequestError` with EINVAL for a value of the wrong type.
    """
    agreed: dict[str, int] = {}
    for name, ours in _NUMBERS.items():
        if name not in proposed:
            continue
        theirs = proposed[name]
        if type(theirs) is not int or not 0 <= theirs < 1 << 64:
            raise _invalid(f"capability {name} is no 64-bit number")
        agreed[name] = min(ours, theirs) if name == "max_dma_maps" else ours
    return agreed


def _invalid(why: str) -> VfioRequestError:
    return VfioRequestError(errno.EINVAL, why)
