"""Somebody on a fabric's sockets who says whatever a test wants."""

from __future__ import annotations

import socket

from emu.server.net.fabric import protocol
from emu.server.net.fabric.protocol import HEADER, FrameKind


class Stranger:
    """A socket that says to a hub, or as a hub, whatever a test wants."""

    def __init__(self, lab, sock):
        self.lab, self.sock = lab, sock
        lab.cleanup.callback(sock.close)
        sock.setblocking(False)
        self._buffer = b""

    @classmethod
    def connected(cls, lab):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(lab.name.removeprefix("unix:"))
        lab.step()
        return cls(lab, sock)

    @classmethod
    def member(cls, lab, *wanted):
        """One that has been welcomed; ``identities`` are its numbers."""
        stranger = cls.connected(lab)
        wanted = wanted or (protocol.Identity(),)
        stranger.say(FrameKind.HELLO, protocol.hello(wanted))
        kind, body = stranger.hear()
        assert kind is FrameKind.WELCOME
        stranger.identities = protocol.read_welcome(memoryview(body), wanted)
        return stranger

    def say(self, kind, body):
        self.send(protocol.frame(kind, body))

    def send(self, data):
        """All of it, while the others go on; False when the other side has closed."""
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

    def hear(self):
        """The next frame: its kind and its body; None at the end."""
        return self.lab.until(self._frame) or None

    def _frame(self):
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

    def _size(self):
        return HEADER.size + HEADER.unpack_from(self._buffer)[0]

    def is_dropped(self):
        """Whether the other side ends the connection; what it says before is not listened to."""

        def gone():
            try:
                return not self.sock.recv(1 << 16)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        return self.lab.until(gone)

    def close(self):
        self.sock.close()
