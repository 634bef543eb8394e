"""Peer on a fabric's sockets that sends arbitrary protocol frames."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Self

from emu.driver.transport.fabric import Fabric
from emu.server.net.fabric import protocol
from emu.server.net.fabric.protocol import HEADER, FrameKind


class RawPeer:
    """Socket that sends any frames to a hub, or as a hub."""

    def __init__(self, lab: Fabric, sock: socket.socket) -> None:
        self.lab, self.sock = lab, sock
        self.identities: Sequence[protocol.Identity] = ()
        lab.cleanup.callback(sock.close)
        sock.setblocking(False)
        self._buffer = b""

    @classmethod
    def connected(cls, lab: Fabric) -> Self:
        """Return a peer that has connected to the fabric's Unix socket, and has sent nothing.

        Runs one step of the fabric.
        """
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(lab.name.removeprefix("unix:"))
        lab.step()
        return cls(lab, sock)

    @classmethod
    def member(cls, lab: Fabric, *requested: protocol.Identity) -> Self:
        """Return a peer that the hub has accepted by HELLO and WELCOME.

        ``identities`` are its numbers. Raises AssertionError for another answer and EOFError when
        the hub refuses.
        """
        peer = cls.connected(lab)
        requested = requested or (protocol.Identity(),)
        peer.say(FrameKind.HELLO, protocol.hello(requested))
        kind, body = peer.hear()
        assert kind is FrameKind.WELCOME
        peer.identities = protocol.read_welcome(memoryview(body), requested)
        return peer

    def say(self, kind: FrameKind, body: bytes) -> None:
        """Send a frame of the protocol."""
        self.send(protocol.frame(kind, body))

    def send(self, data: bytes) -> bool:
        """Send all bytes while the fabric runs.

        Return False when the other side has closed, else True.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                return False
            self.lab.step()
        return True

    def hear(self) -> tuple[FrameKind, bytes]:
        """Run the fabric until the next frame has arrived; return its kind and its body.

        Raises EOFError when the other side has closed, and AssertionError after 20 s.
        """
        frame = self.lab.until(self._frame)
        assert frame is not None
        return frame

    def _frame(self) -> tuple[FrameKind, bytes] | None:
        """Return the next complete frame, or None before that. Raises EOFError at the end."""
        while len(self._buffer) < HEADER.size or len(self._buffer) < self._size():
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._buffer += data
        size = self._size()
        _, code = HEADER.unpack_from(self._buffer)
        body, self._buffer = self._buffer[HEADER.size : size], self._buffer[size:]
        return FrameKind(code), body

    def _size(self) -> int:
        length: int = HEADER.unpack_from(self._buffer)[0]
        return HEADER.size + length

    def is_dropped(self) -> bool:
        """Run the fabric until the other side ends the connection; return True.

        Discards all frames before the end. Raises AssertionError, instead of returning False, if
        the connection lasts for 20 s.
        """

        def gone() -> bool:
            try:
                return not self.sock.recv(1 << 16)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        return self.lab.until(gone)

    def close(self) -> None:
        """Close the socket without a farewell frame."""
        self.sock.close()
