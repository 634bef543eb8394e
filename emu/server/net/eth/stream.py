"""``--net stream=PATH``: NICs of foreign QEMUs, by ``-netdev stream``, on a segment.

The server listens and QEMU connects. A QEMU that accepts the connection itself would write with
blocking calls in its main loop, so that a slow peer would freeze its guest.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from socket import socket

from emu.host.listening import OWNER_ONLY, Acceptor, listen
from emu.server.net.eth.framed import FramedUplink
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.poller import Poller

log = logging.getLogger(__name__)

MAX_PEERS = 16
_BACKLOG = 16


class _Peer(FramedUplink):
    """The connection of a QEMU."""

    def __init__(self, name: str, sock: socket, owner: StreamListener) -> None:
        self._owner = owner
        super().__init__(name, sock, owner.switch, owner.poller)

    def closed(self, why: str) -> None:
        """Report the end of the connection to the listener."""
        self._owner.gone(self, why)


class StreamListener:
    """The socket that QEMUs connect to; each connection is a port of the segment."""

    def __init__(
        self, path: Path, switch: SegmentSwitch, poller: Poller, mode: int = OWNER_ONLY
    ) -> None:
        """Listen at ``path``; raise OSError with the path and a text for the user on failure."""
        self.switch = switch
        self.poller = poller
        self._path = path
        self._peers: set[_Peer] = set()
        self._count = 0
        try:
            self._sock = listen(path, _BACKLOG, mode)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        self._inode = path.lstat().st_ino
        self._acceptor = Acceptor(self._sock, f"stream {path}")
        poller.listen(self._sock.fileno(), self._accept)

    def _accept(self) -> None:
        """Accept one QEMU, and add a port for its connection to the segment.

        Close the connection with a warning if MAX_PEERS are open.
        """
        sock = self._acceptor.accept()
        if sock is None:
            return
        if len(self._peers) >= MAX_PEERS:
            log.warning("stream %s: a connection is refused: %d are open", self._path, MAX_PEERS)
            sock.close()
            return
        self._count += 1
        peer = _Peer(f"stream {self._path} {self._count}", sock, self)
        self._peers.add(peer)
        self.switch.add(peer)
        log.info("%s: connected", peer.name)

    def gone(self, peer: _Peer, why: str) -> None:
        """Remove the port of an ended connection; log ``why`` as a warning if not empty."""
        self._peers.discard(peer)
        self.switch.remove(peer)
        if why:
            log.warning("%s: connection dropped: %s", peer.name, why)
        else:
            log.info("%s: disconnected", peer.name)

    def close(self) -> None:
        """Disconnect all peers, stop listening, and unlink the path if it is still our socket's."""
        for peer in list(self._peers):
            peer.close("")
        self.poller.ignore(self._sock.fileno())
        self._acceptor.close()
        self._sock.close()
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
