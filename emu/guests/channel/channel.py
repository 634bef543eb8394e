"""The host's end of the port into the guest: sends commands, receives their output and status.

One thread reads; any thread may start commands and wait for them. If the receiver of the output is
slow, the reader blocks and so do the guest's commands: no buffer grows without bound.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from emu.guests.channel import frames
from emu.guests.channel.job import GuestJob, Sink
from emu.guests.errors import ChannelClosedError, GuestError, GuestHungError, reported_failure
from emu.host.printable import one_line

logger = logging.getLogger(__name__)

PING_INTERVAL = 5.0
CLOSE_TIMEOUT = 2.0
_MAX_RELEASE_LENGTH = 64
"""Maximum length in bytes of the kernel's release: struct new_utsname."""


class GuestChannel:
    """A connection to the program inside the guest; it survives reboots."""

    def __init__(self, connection: socket.socket, hang_timeout: float) -> None:
        self._connection = connection
        self._hang_timeout = hang_timeout
        # Sending to a stopped guest must not block for ever.
        connection.settimeout(hang_timeout)
        self._decoder = frames.FrameDecoder()
        self._send_lock = threading.Lock()
        self._changed = threading.Condition()
        self._jobs: dict[int, GuestJob] = {}
        self._last_number = 0
        self._release: str | None = None
        self._failure: BaseException | None = None
        self._reading = True
        self._ping_sent: float | None = None
        self._clock = b""
        self._thread = threading.Thread(target=self._read, name="guest channel", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether the connection to the guest is up, as far as is known."""
        return self._failure is None

    @property
    def is_ready(self) -> bool:
        """Whether the guest is up, since its last reboot as well."""
        return self._release is not None

    def wait_ready(self, timeout: float) -> str | None:
        """Wait until the guest is up; return its kernel release, or None after ``timeout`` seconds.

        Raises the channel's failure (:meth:`fail`), such as ChannelClosedError of a guest that has
        ended. The guest is not pinged meanwhile, so a hung boot ends only by ``timeout`` (seconds).
        """
        with self._changed:
            self._changed.wait_for(lambda: self._release or self._failure, timeout)
            self._raise_failure()
            return self._release

    def start(
        self,
        name: str,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        has_input: bool = False,
        sink: Sink | None = None,
    ) -> GuestJob:
        """Send a command to the guest and return its job at once, without waiting for its start.

        Without ``has_input`` the command reads end of file. Without ``sink`` the job collects the
        output. Raises the channel's failure (:meth:`fail`), or GuestHungError when the guest
        accepts no data. A guest that is still booting loses the command.
        """
        settings = [f"{name}={value}" for name, value in environ.items()]
        payload = frames.encode_command(list(argv), settings, has_input)
        return self._begin(frames.RUN, payload, name, sink)

    def ask(self, what: str, **about: str) -> GuestJob:
        """Send a request to the guest's exec server (:mod:`emu.guests.named.exec_server`).

        Return its job without waiting for the answer. Raises as :meth:`start` does.
        """
        payload = json.dumps({"what": what, **about}).encode()
        return self._begin(frames.ASK, payload, what, None)

    def mark_clock(self) -> None:
        """Write our clock into the log of the guest's kernel, beside the kernel's time.

        Wait up to ``hang_timeout`` for the guest's echo; a missing echo is ignored. Raises the
        channel's failure.
        """
        stamp = frames.encode_clock(time.monotonic_ns())
        self.send(frames.CLOCK, 0, stamp)
        self.wait_for(lambda: self._clock == stamp, self._hang_timeout)

    def _begin(self, kind: int, payload: bytes, name: str, sink: Sink | None) -> GuestJob:
        """Register a new job, send its first frame, and return the job.

        Numbers count from 1 to 65535 and wrap without a check: an old job of that number is
        replaced. Raises the channel's failure (:meth:`fail`) before anything is sent, and the
        GuestHungError or ChannelClosedError of :meth:`send`.
        """
        with self._changed:
            self._raise_failure()
            self._last_number = self._last_number % 0xFFFF + 1
            job = GuestJob(self, self._last_number, name, sink)
            self._jobs[job.number] = job
        self.send(kind, job.number, payload)
        return job

    def power(self, action: str) -> None:
        """Make the guest ``reboot`` or ``poweroff``; it sends nothing more until it is up again.

        Raises as :meth:`send` does.
        """
        self.send(frames.POWER, 0, action.encode())

    def expect_reboot(self) -> None:
        """Ignore everything received until the guest has booted again.

        :attr:`is_ready` is false until then. All running jobs end with a GuestError ("the guest was
        rebooted").
        """
        with self._changed:
            self._decoder.hunt()
            self._release = None
            self._end_jobs(GuestError("the guest was rebooted"))

    def fail(self, error: BaseException) -> None:
        """Raise ``error`` in all present and future waiters; only the first call has an effect.

        The connection stays open.
        """
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def give_up(self, job: GuestJob, error: BaseException) -> None:
        """Record ``error`` as the failure of ``job``, unless it has one, and wake the waiters.

        The command in the guest is not killed by this.
        """
        with self._changed:
            job.failure = job.failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Close the connection; waiters get ChannelClosedError.

        Wait up to 2 s for the reader thread.
        """
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(CLOSE_TIMEOUT)  # it may be blocked in a receiver of output
        self._connection.close()

    def wait_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Return True once ``condition`` holds, False after ``timeout`` seconds (None: no limit).

        Ping the guest every 5 s meanwhile. Raises the channel's failure (:meth:`fail`), and
        GuestHungError when a ping has no answer within ``hang_timeout``.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = PING_INTERVAL
            if deadline is not None:
                left = min(left, max(0.0, deadline - time.monotonic()))
            with self._changed:
                if self._changed.wait_for(lambda: condition() or self._failure is not None, left):
                    if not condition():
                        self._raise_failure()
                    return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._ping()

    def send(self, kind: int, job: int = 0, payload: bytes = b"") -> None:
        """Send one frame; wait while the guest accepts no data.

        Raises GuestHungError after ``hang_timeout``. On a closed connection the whole channel fails
        with ChannelClosedError, unless it failed before; that failure is raised.
        """
        data = frames.encode(kind, job, payload)
        try:
            with self._send_lock:
                self._connection.sendall(data)
        except TimeoutError as error:
            raise GuestHungError("the guest accepts no more input") from error
        except OSError as error:
            self.fail(ChannelClosedError("the guest has ended"))
            with self._changed:
                self._raise_failure()
            raise AssertionError from error

    def _ping(self) -> None:
        """Ping a guest that has no ping outstanding; any data received counts as the answer.

        Raises :class:`GuestHungError` if nothing was received for ``hang_timeout`` since the ping.
        No error is raised while a slow receiver of output blocks our reader thread.
        """
        asked = self._ping_sent
        if asked is None:
            self._ping_sent = time.monotonic()
            self.send(frames.PING)
        elif self._reading and time.monotonic() - asked > self._hang_timeout:
            raise GuestHungError(f"the guest did not answer for {self._hang_timeout:g} s")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _read(self) -> None:
        """Read frames in the reader thread until the end; fail the channel on any exception."""
        try:
            self._read_frames()
        except Exception:
            logger.exception("the guest's messages cannot be read any more")
            self.fail(GuestError("reading the guest's messages failed; the log has the cause"))

    def _read_frames(self) -> None:
        """Receive and handle frames until the connection ends, then fail the channel.

        The failure is ChannelClosedError at the end of file or when a reply cannot be sent, and
        GuestError for an invalid frame.
        """
        while True:
            self._reading = True
            try:
                data = self._connection.recv(4 * frames.CHUNK)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            self._reading = False
            self._ping_sent = None
            if not data:
                self.fail(ChannelClosedError("the guest has ended"))
                return
            try:
                for frame in self._decoder.feed(data):
                    self._handle(frame)
            except frames.ChannelFrameError as error:
                self.fail(GuestError(f"the guest sent an invalid message: {error}"))
                return
            except (OSError, GuestError):  # sending a reply has failed
                self.fail(ChannelClosedError("the guest has ended"))
                return

    def _handle(self, frame: frames.ChannelFrame) -> None:
        """Act on one frame of the guest.

        HELLO is answered and makes the channel ready; BYE drops everything until the next HELLO;
        CLOCK is recorded. Output and results go to the frame's job. Frames for unknown jobs are
        dropped.
        """
        job = self._jobs.get(frame.job)
        if frame.kind == frames.HELLO:
            with self._send_lock:
                self._connection.sendall(frames.encode(frames.HELLO, 0, frames.MARK))
            rest = frame.payload[len(frames.MARK) :][:_MAX_RELEASE_LENGTH]
            release = one_line(rest.decode("utf-8", "replace"))
            with self._changed:
                self._release = release
                self._changed.notify_all()
        elif frame.kind == frames.BYE:
            self._decoder.hunt()
        elif frame.kind == frames.CLOCK:
            with self._changed:
                self._clock = frame.payload
                self._changed.notify_all()
        elif job is None:
            if frame.kind != frames.PONG:
                logger.debug("frame %d for no command (%d)", frame.kind, frame.job)
        elif frame.kind in (frames.STDOUT, frames.STDERR):
            job.deliver(frame.kind, frame.payload)
            with self._changed:
                self._changed.notify_all()
        else:
            self._record(job, frame)

    def _record(self, job: GuestJob, frame: frames.ChannelFrame) -> None:
        """Record a job's EXIT status, its FAILED reason or the input it consumed; wake waiters.

        EXIT and FAILED remove the job from the channel. A CREDIT beyond the bytes sent is clamped.
        """
        with self._changed:
            if frame.kind == frames.CREDIT:
                consumed = job.consumed + frames.decode_count(frame.payload)
                job.consumed = min(consumed, job.sent)
            elif frame.kind == frames.FAILED:
                job.failure = job.failure or reported_failure(frame.payload)
                self._jobs.pop(job.number, None)
            elif frame.kind == frames.EXIT and frame.payload:
                job.status = frame.payload[0]
                self._jobs.pop(job.number, None)
            self._changed.notify_all()

    def _end_jobs(self, error: GuestError) -> None:
        """Fail all running jobs with ``error``, forget them and wake their waiters."""
        for job in self._jobs.values():
            job.failure = job.failure or error
        self._jobs.clear()
        self._changed.notify_all()
