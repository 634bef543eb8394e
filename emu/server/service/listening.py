"""Addresses that options name to listen on, tried before anything is started.

Another process may take an address in between; the server refuses it then.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from emu.host.listening import why_not_listening
from emu.server.net.eth.spec import NetSpec, NetSpecError
from emu.server.net.fabric.address import FabricError, unix_path

_SOCKETS: Final = {
    "--tcp-ports": ("tcp", socket.SOCK_STREAM),
    "--udp-ports": ("udp", socket.SOCK_DGRAM),
}
"""By passt's options, as :attr:`NetSpec.forwards` has them."""


def check_uplinks(specs: Iterable[NetSpec]) -> None:
    """Refuse uplinks whose ports are taken, or whose sockets cannot be made.

    Returns nothing on success and keeps no port or socket. Raises :class:`NetSpecError` with the
    option; also for a port that two of the uplinks forward.
    """
    with contextlib.ExitStack() as taken:
        for spec in specs:
            if spec.kind == "stream" and (why := why_not_listening(Path(spec.what))):
                raise NetSpecError(f"--net 'stream={spec.what}': {why}")
            for option, forward in spec.forwards:
                _take(taken, option, forward)


def check_fabric(name: str) -> None:
    """Refuse a fabric's name that is invalid, or a path where no socket can be made.

    Accepts a path on which another process listens, because a fabric is joined. TCP addresses are
    parsed only. Raises :class:`FabricError`; creates nothing.
    """
    path = unix_path(name)
    if path is not None and (why := why_not_listening(path, is_shared=True)):
        raise FabricError(f"fabric unix:{path}: {why}")


def _take(taken: contextlib.ExitStack, option: str, forward: str) -> None:
    """Bind a port of the host's until ``taken`` closes; listen as well if TCP.

    Raises :class:`NetSpecError` with the reason when the port is in use or the address is not the
    host's.
    """
    protocol, kind = _SOCKETS[option]
    address, _, ports = forward.rpartition("/")
    port = ports.partition(":")[0]
    try:
        family, _, _, _, where = socket.getaddrinfo(
            address, port, type=kind, flags=socket.AI_NUMERICHOST
        )[0]
        sock = taken.enter_context(socket.socket(family, kind))
        # Connections that a listener before has left behind do not matter; passt does the same.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        if kind == socket.SOCK_STREAM:
            sock.listen(1)
    except OSError as error:
        raise NetSpecError(
            f"--net forward: {protocol} port {port} of {address}{_reason(error)}"
        ) from None


def _reason(error: OSError) -> str:
    """Return the end of the sentence about a port that cannot be taken, from the error's errno."""
    if error.errno == errno.EADDRINUSE:
        return " is in use already"
    if error.errno == errno.EADDRNOTAVAIL:
        return " is not available: the host has no such address"
    return f": {error.strerror or error}"
