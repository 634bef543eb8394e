"""The control socket's server; misbehaving clients must not delay the server's loop.

Sockets are non-blocking. Limits apply to clients, bytes per request, requests per second and bytes
of unread answers. The server drops a client that exceeds a limit and logs one line.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from emu.device.rounds.costs import LOG_ANSWER_BYTES_PER_STEP, STEPS_PER_REQUEST
from emu.device.rounds.portions import Portions
from emu.device.state.containment import ContainedClock, contain
from emu.device.state.observers import ObserverErrors
from emu.host.listening import Acceptor, listen
from emu.server.control import protocol
from emu.server.control.protocol import MessageError
from emu.server.vfio.loop import Loop
from emu.version import version

logger = logging.getLogger(__name__)

Result = Mapping[str, object]
Streamed = Generator[bytes, None, None]
"""A long result: segments of its JSON text, one for each round of the loop."""
Method = Callable[[dict[str, object]], Result | Portions[Result] | Streamed]
"""Takes the params and returns the result, or a generator that works in steps, one a round.

Raises :class:`ControlRequestError`; a streamed result raises only before its first segment.
"""

MAX_CLIENTS: Final = 8
MAX_PER_SECOND: Final = 200
_CHUNK: Final = 64 << 10
_MAX_WAITING: Final = 2 * protocol.MAX_REQUEST
"""Maximum bytes of requests queued behind a request that takes several rounds."""
_SECOND_NS: Final = 1_000_000_000
_FLUSH_NS: Final = 5_000_000
_PATIENCE_NS: Final = 10 * _SECOND_NS


class ControlRequestError(Exception):
    """A request that cannot be fulfilled; its client receives the text."""


class ControlServer:
    """Listens on a Unix socket that only its owner may use."""

    def __init__(self, path: Path, loop: Loop, methods: Mapping[str, Method]) -> None:
        """Listen at ``path``; raise OSError with the path and a text for the user on failure."""
        self._loop = loop
        self._methods = methods
        self._path = path
        self._clients: set[_ControlClient] = set()
        self._errors = ObserverErrors("control")
        try:
            self._listener = listen(path, MAX_CLIENTS)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        self._inode = path.lstat().st_ino
        self._acceptor = Acceptor(self._listener, "control")
        loop.add_quiet_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Drop all clients, stop listening and remove the socket's path, unless it was replaced."""
        for client in list(self._clients):
            self.drop(client)
        self._loop.remove_reader(self._listener.fileno())
        self._acceptor.close()
        self._listener.close()
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    def _accept(self) -> None:
        """Accept a client and greet it with versions and methods; close it above MAX_CLIENTS."""
        sock = self._acceptor.accept()
        if sock is None:
            return
        if len(self._clients) >= MAX_CLIENTS:
            logger.warning("control: a client is refused: %d are connected", MAX_CLIENTS)
            sock.close()
            return
        client = _ControlClient(self, sock, self._loop)
        self._clients.add(client)
        self._loop.add_quiet_reader(sock.fileno(), partial(contain, client, client.readable))
        hello = {"mlx5emu": version(), "protocol": protocol.VERSION}
        client.send(hello | {"methods": sorted(self._methods)})

    def drop(self, client: _ControlClient, why: str = "") -> None:
        """End a connection, without sending queued output; log ``why`` unless it is empty.

        Does nothing for a connection that has ended.
        """
        if client in self._clients:
            self._clients.discard(client)
            if why:
                logger.warning("control: a client is dropped: %s", why)
            self._loop.remove_reader(client.sock.fileno())
            client.sock.close()

    def begin(self, message: Mapping[str, object]) -> Generator[bytes | None, None, None]:
        """Return a generator that executes a request in steps and yields segments of the answer.

        A step without output yields None; the last segment ends with a newline. Refusals of the
        method and internal errors become answers with ``error``. Raises MessageError at once for an
        invalid request.
        """
        method, params = protocol.request(message)
        head: dict[str, object] = {"id": message["id"]} if "id" in message else {}
        return self._execute(method, params, head)

    def _execute(
        self, method: str, params: dict[str, object], head: dict[str, object]
    ) -> Generator[bytes | None, None, None]:
        """Yield the answer of a request in segments: the method's result, or its error.

        An exception is answered as "internal error" and counted; after the first segment it is
        raised.
        """
        has_begun = False
        try:
            handler = self._methods.get(method)
            if handler is None:
                raise ControlRequestError(
                    f"no method {method!r}; methods: {', '.join(self._methods)}"
                )
            result = handler(params)
            if isinstance(result, Generator):
                work = result
                while True:
                    try:
                        segment = next(work)
                    except StopIteration as done:
                        result = done.value
                        break
                    if segment is not None and not has_begun:
                        has_begun = True
                        segment = protocol.opening(head) + segment
                    yield segment
            yield protocol.CLOSING if has_begun else protocol.encode(head | {"result": result})
        except ControlRequestError as error:
            yield protocol.encode(head | {"error": {"message": str(error)}})
        except Exception:
            if has_begun:
                raise
            self._errors.note(method)
            yield protocol.encode(head | {"error": {"message": "internal error"}})


class _ControlClient:
    """A client's connection."""

    def __init__(self, server: ControlServer, sock: socket.socket, loop: Loop) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._server = server
        self._clock = ContainedClock(loop, self)
        self._in = bytearray()
        self._out = bytearray()
        self._second_ns = 0
        self._requests = 0
        self._work: Generator[bytes | None, None, None] | None = None
        """The request in execution; later requests wait behind it."""
        self._is_late = False
        """Whether its requests wait for a round with budget."""
        self._since_ns: int | None = None
        """Time since when the client has read no output; None while no output waits."""

    @property
    def has_failed(self) -> bool:
        """Whether the connection has ended."""
        return self.sock.fileno() < 0

    def fail(self) -> None:
        """Log the current exception and drop the client."""
        logger.exception("control: internal error")
        self._server.drop(self, "internal error")

    def readable(self) -> None:
        """Read once and execute the complete requests; do nothing without data.

        Drops the client when it has closed or the socket fails; a close inside a request is logged.
        """
        try:
            data = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._server.drop(self, str(error))
            return
        if not data:
            self._server.drop(self, "the client left amid a request" if self._in else "")
            return
        self._in += data
        self._go_on()

    def _go_on(self) -> None:
        """Execute requests: the first step of each at once, later steps in the next rounds.

        Stops at a request that needs more steps; the next requests wait behind it. When the round's
        budget is used up, they wait for the next round. Drops the client above 256 KiB without a
        newline, or 512 KiB of waiting requests.
        """
        budget = self._clock.budget
        while self._work is None and (end := self._in.find(b"\n")) >= 0:
            if budget.exhausted(budget.limit):
                if not self._is_late:
                    self._is_late = True
                    self._clock.call_later(0, self._go_on_late)
                break
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            if not self._take(line):
                return
        waits = len(self._in) - (self._in.rfind(b"\n") + 1)
        if waits > protocol.MAX_REQUEST:
            self._server.drop(self, f"more than {protocol.MAX_REQUEST >> 10} KiB without a newline")
        elif len(self._in) > _MAX_WAITING:
            self._server.drop(self, f"more than {_MAX_WAITING >> 10} KiB of unanswered requests")

    def _go_on_late(self) -> None:
        self._is_late = False
        self._go_on()

    def _take(self, line: bytes) -> bool:
        """Start to answer a line; return False if its client is dropped.

        Drops the client above MAX_PER_SECOND requests a second. An invalid or too long line gets an
        error without an id first.
        """
        now = self._clock.now_ns()
        if now - self._second_ns > _SECOND_NS:
            self._second_ns, self._requests = now, 0
        self._requests += 1
        if self._requests > MAX_PER_SECOND:
            self._server.drop(self, f"more than {MAX_PER_SECOND} requests in a second")
            return False
        try:
            if len(line) > protocol.MAX_REQUEST:
                raise MessageError(f"a line has more than {protocol.MAX_REQUEST >> 10} KiB")
            work = self._server.begin(protocol.decode(line))
        except MessageError as error:
            self.send({"error": {"message": str(error)}})
            self._server.drop(self, str(error))
            return False
        self._work = work
        self._step(work)
        return self.sock.fileno() >= 0

    def _step(self, work: Iterator[bytes | None]) -> None:
        """Execute a step of the request and send its output, unless much unread output waits.

        Schedules the next step unless the request is complete. Charges the budget.
        """
        if len(self._out) <= _CHUNK:
            try:
                segment = next(work)
            except StopIteration:
                self._work = None
                return
            self._clock.budget.charge(STEPS_PER_REQUEST)
            if segment is not None:
                self._clock.budget.charge(len(segment) >> LOG_ANSWER_BYTES_PER_STEP)
                self._send(segment)
                if segment.endswith(b"\n"):
                    self._work = None
                    return
        again = partial(self._next_step, work)
        self._clock.call_later(0 if len(self._out) <= _CHUNK else _FLUSH_NS, again)

    def _next_step(self, work: Iterator[bytes | None]) -> None:
        self._step(work)
        self._go_on()

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message; queue the bytes that the socket does not accept."""
        self._send(protocol.encode(message))

    def _send(self, data: bytes) -> None:
        """Queue and send bytes; drop the client when over 16 MiB wait for it to read."""
        was_waiting = bool(self._out)
        self._out += data
        if len(self._out) > protocol.MAX_ANSWER:
            self._server.drop(self, "the client does not read its answers")
        elif not was_waiting:
            self._flush()

    def _flush(self) -> None:
        """Send queued bytes, and try again in 5 ms while some are left.

        Drops the client after 10 s without progress, or when the socket fails. Does nothing when
        closed.
        """
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
            self._server.drop(self, "the client does not read its answers")
        else:
            self._clock.call_later(_FLUSH_NS, self._flush)
