"""The control socket's server; misbehaving clients must not delay the server's loop.

Everything is non-blocking and bounded: clients, bytes per request, requests per second, bytes of
unread answers. A client that exceeds a limit is dropped with one line in the log.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from emu.control import protocol
from emu.control.protocol import MessageError
from emu.device.containment import ContainedClock, contain
from emu.host.listening import Acceptor, listen
from emu.version import version
from emu.vfio.loop import Loop

logger = logging.getLogger(__name__)

Method = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Takes the params and returns the result. Raises :class:`RequestError`."""

MOST_CLIENTS: Final = 8
MOST_PER_SECOND: Final = 200
_CHUNK: Final = 64 << 10
_SECOND_NS: Final = 1_000_000_000
_FLUSH_NS: Final = 5_000_000
_PATIENCE_NS: Final = 10 * _SECOND_NS


class RequestError(Exception):
    """A request that cannot be fulfilled; the text is sent to the client."""


class ControlServer:
    """Listens on a Unix socket that only its owner may use."""

    def __init__(self, path: Path, loop: Loop, methods: Mapping[str, Method]) -> None:
        """Raises OSError, with the path and a text for the user, when the socket cannot be made."""
        self._loop = loop
        self._methods = methods
        self._path = path
        self._clients: set[_Client] = set()
        try:
            self._listener = listen(path, MOST_CLIENTS)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        self._inode = path.lstat().st_ino
        self._acceptor = Acceptor(self._listener, "control")
        loop.add_quiet_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Drop all clients and stop listening."""
        for client in list(self._clients):
            self.drop(client)
        self._loop.remove_reader(self._listener.fileno())
        self._acceptor.close()
        self._listener.close()
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    def _accept(self) -> None:
        sock = self._acceptor.accept()
        if sock is None:
            return
        if len(self._clients) >= MOST_CLIENTS:
            logger.warning("control: more than %d clients: one is refused", MOST_CLIENTS)
            sock.close()
            return
        client = _Client(self, sock, self._loop)
        self._clients.add(client)
        self._loop.add_quiet_reader(sock.fileno(), partial(contain, client, client.readable))
        hello = {"mlx5emu": version(), "protocol": protocol.VERSION}
        client.send(hello | {"methods": sorted(self._methods)})

    def drop(self, client: _Client, why: str = "") -> None:
        """End a connection; ``why`` goes to the log."""
        if client in self._clients:
            self._clients.discard(client)
            if why:
                logger.warning("control: a client is dropped: %s", why)
            self._loop.remove_reader(client.sock.fileno())
            client.sock.close()

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request; return the answer. Raises MessageError for an invalid request."""
        method, params = protocol.request(message)
        answer: dict[str, Any] = {"id": message["id"]} if "id" in message else {}
        handler = self._methods.get(method)
        try:
            if handler is None:
                raise RequestError(f"no method {method!r}; there are {', '.join(self._methods)}")
            answer["result"] = handler(params)
        except RequestError as error:
            answer["error"] = {"message": str(error)}
        except Exception:
            logger.exception("control: %s failed", method)
            answer["error"] = {"message": "internal error"}
        return answer


class _Client:
    """One connection."""

    def __init__(self, server: ControlServer, sock: socket.socket, loop: Loop) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._server = server
        self._clock = ContainedClock(loop, self)
        self._in = bytearray()
        self._out = bytearray()
        self._second_ns = 0
        self._requests = 0
        self._since_ns: int | None = None
        """Since when the client has read none of the output; None while none waits."""

    @property
    def has_failed(self) -> bool:
        """Whether the connection has ended."""
        return self.sock.fileno() < 0

    def fail(self) -> None:
        """End the connection because of the exception that is being handled."""
        logger.exception("control: internal error")
        self._server.drop(self, "internal error")

    def readable(self) -> None:
        """Read what has arrived and answer the complete requests."""
        try:
            data = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._server.drop(self, str(error))
            return
        if not data:
            self._server.drop(self, "it left in the middle of a request" if self._in else "")
            return
        self._in += data
        while (end := self._in.find(b"\n")) >= 0:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            if not self._take(line):
                return
        if len(self._in) > protocol.MOST_REQUEST:
            self._server.drop(self, f"more than {protocol.MOST_REQUEST >> 10} KiB without an end")

    def _take(self, line: bytes) -> bool:
        """Answer one line; False if the client is dropped because of it."""
        now = self._clock.now_ns()
        if now - self._second_ns > _SECOND_NS:
            self._second_ns, self._requests = now, 0
        self._requests += 1
        if self._requests > MOST_PER_SECOND:
            self._server.drop(self, f"more than {MOST_PER_SECOND} requests in a second")
            return False
        try:
            if len(line) > protocol.MOST_REQUEST:
                raise MessageError("a line that is too long")
            answer = self._server.answer(protocol.decode(line))
        except MessageError as error:
            self.send({"error": {"message": str(error)}})
            self._server.drop(self, str(error))
            return False
        self.send(answer)
        return self.sock.fileno() >= 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, now or later as the client reads."""
        was_waiting = bool(self._out)
        self._out += protocol.encode(message)
        if len(self._out) > protocol.MOST_ANSWER:
            self._server.drop(self, "it does not read its answers")
        elif not was_waiting:
            self._flush()

    def _flush(self) -> None:
        if self.sock.fileno() < 0:
            return
        try:
            sent = self.sock.send(self._out)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._server.drop(self)
            return
        del self._out[:sent]
        now = self._clock.now_ns()
        if not self._out:
            self._since_ns = None
            return
        if sent or self._since_ns is None:
            self._since_ns = now
        if now - self._since_ns > _PATIENCE_NS:
            self._server.drop(self, "it does not read its answers")
        else:
            self._clock.call_later(_FLUSH_NS, self._flush)
