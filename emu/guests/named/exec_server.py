"""Serves a guest's commands to other processes, over a Unix socket for each guest.

The protocol is that of the program inside the guest (:mod:`emu.guests.channel.frames`), so a client
is a :class:`GuestChannel`. When a client disconnects, its commands are killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from emu.guests.channel import frames
from emu.guests.channel.job import GuestJob, Sink
from emu.guests.errors import GuestError, LabError, as_reported
from emu.guests.guest.states import UP
from emu.guests.named.inbox import Inbox
from emu.guests.named.outbox import Outbox
from emu.host import listening

logger = logging.getLogger(__name__)

_BACKLOG = 16
_MAX_JOBS = 64
_MAX_CLIENTS = 64


class GuestHandle(Protocol):
    """The operations that an exec server needs of :class:`emu.guests.Guest`."""

    kernel_release: str
    directory: str | None
    """Directory in which commands begin; None for root's home."""

    @property
    def state(self) -> str:
        """One of :data:`emu.guests.guest.states.STATES`."""

    @property
    def control_socket(self) -> Path:
        """The control socket of the server of its functions. Raises LabError."""

    @property
    def console(self) -> str:
        """The output of its console."""

    @property
    def log_files(self) -> Mapping[str, Path]:
        """The files of its logs, by the logs' names."""

    @property
    def server_failure(self) -> GuestError | None:
        """The error that the server of its functions has reported."""

    def popen(
        self,
        command: str | Sequence[str],
        *,
        has_input: bool = False,
        environ: Mapping[str, str] | None = None,
        sink: Sink | None = None,
    ) -> GuestJob:
        """Start a command and return its job. Raises GuestError."""

    def wait(self, job: GuestJob, timeout: float | None = None) -> int:
        """Wait for a command; return its exit status."""

    def await_boot(self) -> None:
        """Wait until it has booted."""

    def reboot(self, *, hard: bool = False) -> None:
        """Reboot it and wait until it is up; ``hard`` resets the machine."""

    def dump(self, path: Path) -> None:
        """Write the guest's memory into a file."""

    def mark_clock(self) -> None:
        """Write our clock into the log of the guest's kernel."""


class ExecServer:
    """Listens at ``path`` for clients of one guest, until :meth:`close`. Raises OSError."""

    def __init__(self, guest: GuestHandle, path: Path) -> None:
        self._guest = guest
        self._socket = listening.listen(path, _BACKLOG)
        self._socket.setblocking(True)
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="exec server", daemon=True).start()

    def close(self) -> None:
        """Accept no more clients, and close the present connections, whose commands are killed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for client in self._clients:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        """Serve each client in a thread, until :meth:`close`; refuse more than 64 clients."""
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                is_full = len(self._clients) >= _MAX_CLIENTS
                if not is_full:
                    self._clients.add(client)
            if is_full:
                logger.warning("client refused: %d clients of one guest is the limit", _MAX_CLIENTS)
                client.close()
            else:
                threading.Thread(
                    target=self._serve, args=(client,), name="session", daemon=True
                ).start()

    def _serve(self, client: socket.socket) -> None:
        """Serve one client until it disconnects or sends an invalid frame; log the reason."""
        with client:
            try:
                ExecSession(self._guest, client).serve()
            except (OSError, ValueError, frames.ChannelFrameError) as error:
                logger.info("a client has disconnected: %s", error)
            finally:
                with self._lock:
                    self._clients.discard(client)


class ExecSession:
    """The commands of one client."""

    def __init__(self, guest: GuestHandle, client: socket.socket) -> None:
        self._guest = guest
        self._client = client
        self._outbox = Outbox(client.sendall, self._hold)
        self._jobs: dict[int, tuple[GuestJob, Inbox]] = {}
        self._hold_lock = threading.Lock()
        self._is_held = False
        self._is_asked = False

    def serve(self) -> None:
        """Serve the client until it disconnects, then kill its commands (SIGHUP, SIGKILL).

        Raises OSError when the connection fails, ChannelFrameError for an invalid frame.
        """
        decoder = frames.FrameDecoder()
        self._send(frames.HELLO, 0, frames.MARK + self._guest.kernel_release.encode())
        try:
            while data := self._client.recv(4 * frames.CHUNK):
                for frame in decoder.feed(data):
                    self._handle(frame)
        finally:
            self._outbox.close()
            for job, given in list(self._jobs.values()):
                given.end()
                with contextlib.suppress(GuestError):
                    job.kill(signal.SIGHUP)
                    job.kill(signal.SIGKILL)

    def _send(self, kind: int, job: int = 0, payload: bytes = b"") -> None:
        self._outbox.put(frames.encode(kind, job, payload))

    def _hold(self, paused: bool) -> None:
        """Pause or resume the output of this client's commands, while the client does not read."""
        with self._hold_lock:
            self._is_held = paused
            for job, _ in list(self._jobs.values()):
                with contextlib.suppress(GuestError):
                    job.pause(paused)

    def _handle(self, frame: frames.ChannelFrame) -> None:
        """Act on one frame of the client; ignore frames for a command that has ended.

        Raises ChannelFrameError for invalid frames, too many commands or input beyond the window.
        """
        known = self._jobs.get(frame.job)
        if frame.kind == frames.PING:
            self._send(frames.PONG)
        elif frame.kind == frames.RUN and known is None:
            self._start(frame)
        elif frame.kind == frames.ASK:
            self._ask(frame)
        elif known is None:
            return  # the command has just ended
        elif frame.kind == frames.STDIN:
            known[1].give(frame.payload)
        elif frame.kind == frames.SIGNAL and frame.payload:
            with contextlib.suppress(GuestError):
                known[0].kill(frame.payload[0])

    def _start(self, frame: frames.ChannelFrame) -> None:
        """Start a command in the guest, with two threads for its input and its end.

        A GuestError is answered by FAILED. Raises ChannelFrameError above 64 commands.
        """
        if len(self._jobs) >= _MAX_JOBS:
            raise frames.ChannelFrameError(f"more than {_MAX_JOBS} commands at once")
        argv, settings, has_input = frames.decode_command(frame.payload)
        environ = dict(setting.split("=", 1) for setting in settings)
        sink = partial(self._send_output, frame.job)
        try:
            job = self._guest.popen(argv, has_input=has_input, environ=environ, sink=sink)
        except GuestError as error:
            self._fail(frame.job, error)
            return
        given = Inbox()
        with self._hold_lock:
            self._jobs[frame.job] = job, given
            if self._is_held:
                with contextlib.suppress(GuestError):
                    job.pause(True)
        for work in (self._finish, self._feed):
            arguments = (frame.job, job, given)
            threading.Thread(target=work, args=arguments, name="job", daemon=True).start()

    def _send_output(self, number: int, kind: int, data: bytes) -> None:
        for at in range(0, len(data), frames.MAX_PAYLOAD):
            self._send(kind, number, data[at : at + frames.MAX_PAYLOAD])

    def _feed(self, number: int, job: GuestJob, given: Inbox) -> None:
        """Write the client's input to the command until its end; report consumption by CREDIT."""

        def credit(count: int) -> None:
            self._send(frames.CREDIT, number, frames.encode_count(count))

        with contextlib.suppress(GuestError, OSError):
            given.forward(job, credit)

    def _finish(self, number: int, job: GuestJob, given: Inbox) -> None:
        """Wait for the command and send its EXIT status, or FAILED with the guest's error."""
        with contextlib.suppress(OSError):
            try:
                status = self._guest.wait(job)
                self._send(frames.EXIT, number, bytes([status]))
            except Exception as error:
                self._fail(number, error)
        self._jobs.pop(number, None)
        given.end()

    def _ask(self, frame: frames.ChannelFrame) -> None:
        """Start a request to this server in a separate thread, one at a time.

        Raises ChannelFrameError for an unknown request, or while another one runs.
        """
        try:
            work = self._request(**json.loads(frame.payload))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise frames.ChannelFrameError("an invalid request") from None
        if self._is_asked:
            raise frames.ChannelFrameError("more than one request at once")
        self._is_asked = True
        arguments = (frame.job, work)
        threading.Thread(target=self._do, args=arguments, name="request", daemon=True).start()

    def _request(self, what: str, path: str = "") -> Callable[[], str | None]:
        """Return the function that answers a request, without calling it.

        Raises KeyError for an unknown request, ValueError for a missing or needless path.
        """
        if (what == "dump") != bool(path):
            raise ValueError("a dump needs a path, other requests have none")
        works: dict[str, Callable[[], str | None]] = {
            "dump": partial(self._guest.dump, Path(path)),
            "clock": self._guest.mark_clock,
            "boot": self._guest.await_boot,
            "reboot": self._guest.reboot,
            "reset": partial(self._guest.reboot, hard=True),
            "control": lambda: str(self._guest.control_socket),
            "state": self._state,
            "console": lambda: self._guest.console,
            "logs": lambda: json.dumps({of: str(p) for of, p in self._guest.log_files.items()}),
        }
        return works[what]

    def _state(self) -> str:
        """Return the guest's state; of an up guest that has lost its functions, the reason."""
        state, failure = self._guest.state, self._guest.server_failure
        return state if failure is None or state != UP else f"down: {failure}"

    def _do(self, number: int, work: Callable[[], str | None]) -> None:
        """Do a request and send its answer as output and status 0, or FAILED with the error."""
        with contextlib.suppress(OSError):
            try:
                answer = work()
            except Exception as error:
                self._is_asked = False
                self._fail(number, error)
            else:
                self._send_output(number, frames.STDOUT, (answer or "").encode())
                self._is_asked = False
                self._send(frames.EXIT, number, b"\0")

    def _fail(self, number: int, error: Exception) -> None:
        """Send FAILED with an error; log one that is neither a LabError nor an OSError."""
        if not isinstance(error, LabError | OSError):
            logger.error("internal error in a guest's request", exc_info=error)
            error = LabError(f"internal error: {error!r}")
        self._send(frames.FAILED, number, as_reported(error))
