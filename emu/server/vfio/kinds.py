"""The transports by the names that users select."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from emu.host.listening import OWNER_ONLY
from emu.server.vfio.base import Transport
from emu.server.vfio.libvfio_user import LibvfioUserServer
from emu.server.vfio.vfio_user import VfioUserServer

DEFAULT_KIND: Final = "vfio-user"

_KINDS: Final[dict[str, Callable[..., Transport]]] = {
    DEFAULT_KIND: VfioUserServer,
    "libvfio-user": LibvfioUserServer,
}

KINDS: Final = tuple(_KINDS)


def make_transport(
    kind: str,
    path: str | os.PathLike[str],
    *,
    trust_unsealed: bool = False,
    socket_mode: int = OWNER_ONLY,
) -> Transport:
    """Return a new transport of one of :data:`KINDS` for ``path``.

    :meth:`Transport.listen` opens it. ``socket_mode`` is the path's mode: processes with write
    permission may connect. ``trust_unsealed`` accepts guest memory in files that may shrink; see
    ``emu.server.vfio.backing``. Raises :class:`emu.server.vfio.base.TransportError` when
    libvfio-user is missing, and KeyError for another ``kind``.
    """
    return _KINDS[kind](path, trust_unsealed=trust_unsealed, socket_mode=socket_mode)
