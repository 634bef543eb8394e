"""All transports by the names that users select."""

from __future__ import annotations

import os
from typing import Final

from emu.host.listening import OWNER_ONLY
from emu.server.vfio import kinds
from emu.server.vfio.base import Transport
from emu.server.vhost.vhost_user import VhostUserServer

VHOST_USER: Final = "vhost-user"
"""Transport for User-Mode Linux; the others are for QEMU."""

DEVICE_ID: Final = 1234
"""The virtio device of PCI over virtio: the kernel's CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID."""

TRANSPORTS: Final = (*kinds.KINDS, VHOST_USER)


def make_transport(
    name: str, path: str | os.PathLike[str], *, socket_mode: int = OWNER_ONLY
) -> Transport:
    """Return a new transport of one of :data:`TRANSPORTS` for ``path``.

    Its ``listen`` opens the socket. ``socket_mode`` is the path's mode: processes with write
    permission may connect. Raises :class:`emu.server.vfio.base.TransportError` when libvfio-user is
    missing, KeyError for another ``name``.
    """
    if name == VHOST_USER:
        return VhostUserServer(path, socket_mode=socket_mode)
    return kinds.make_transport(name, path, socket_mode=socket_mode)
