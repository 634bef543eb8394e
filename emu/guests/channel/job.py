"""A command in the guest, seen from the host."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Protocol

from emu.guests.channel import frames
from emu.guests.errors import CommandTimeoutError, GuestError
from emu.host.printable import LONGEST_LINE, one_line

Sink = Callable[[int, bytes], None]
"""Called with output as it arrives: ``frames.STDOUT`` or ``frames.STDERR``, and the bytes."""

OUTPUT_LIMIT = 256 << 20  # bytes that a command without a sink may write
KILL_GRACE = 3.0
_MAX_NAME_LENGTH = 200
"""Maximum length in characters of a command in a message."""


class JobChannel(Protocol):
    """The operations that a command needs from the connection to its guest."""

    def send(self, kind: int, job: int = 0, payload: bytes = b"") -> None:
        """Send one frame."""

    def wait_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``condition`` holds; False after ``timeout``."""

    def give_up(self, job: GuestJob, error: BaseException) -> None:
        """Raise ``error`` in the waiters for ``job``."""


class GuestJob:
    """A command in the guest."""

    def __init__(self, channel: JobChannel, number: int, name: str, sink: Sink | None) -> None:
        self._channel = channel
        self._is_collected = sink is None
        self._sink = sink or self._collect
        self.number = number
        self.name = name
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.status: int | None = None
        self.failure: BaseException | None = None
        self.default_timeout: float | None = None
        """Default time limit in seconds of :meth:`wait` and :meth:`write`."""
        # Two counters with one writer each: us, and the channel's reader thread.
        self.sent = self.consumed = 0

    def wait(
        self, timeout: float | None = None, at_timeout: Callable[[], None] | None = None
    ) -> int:
        """Wait for the command; return its exit status as a shell reports it (128 + signal).

        After ``timeout`` seconds, by default :attr:`default_timeout`, ``at_timeout`` is called. The
        command then gets SIGTERM, 3 s later SIGKILL, and :class:`CommandTimeoutError` is raised,
        with its output and its last line. Other errors: the guest has ended or hangs, the sink
        raised an exception, or the collected output exceeded 256 MiB.
        """
        timeout = self.default_timeout if timeout is None else timeout
        if not self._channel.wait_for(self._is_over, timeout):
            if at_timeout is not None:
                at_timeout()
            self.kill(signal.SIGTERM)
            if not self._channel.wait_for(self._is_over, KILL_GRACE):
                self.kill()
            name = one_line(self.name, _MAX_NAME_LENGTH)
            message = f"the command timed out: {name} was still running after {timeout:g} s"
            message += self._printed_last()
            raise CommandTimeoutError(message, bytes(self.stdout), bytes(self.stderr))
        if self.failure is not None:
            raise self.failure
        assert self.status is not None
        return self.status

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Send standard input; wait while 256 KiB are unread.

        Return silently, with data unsent, once the command has ended or after ``timeout`` seconds.
        Raises the channel's failure.
        """
        timeout = self.default_timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        view = memoryview(data)
        while view and not self._is_over():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._channel.wait_for(lambda: self._credits() > 0 or self._is_over(), left):
                return  # wait() will report it
            part = view[: min(self._credits(), frames.CHUNK)]
            self.sent += len(part)
            self._channel.send(frames.STDIN, self.number, bytes(part))
            view = view[len(part) :]

    def close_input(self) -> None:
        """End the command's standard input."""
        self._channel.send(frames.STDIN, self.number)

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send a signal to the command's process group; do nothing after its exit status."""
        if self.status is None:
            self._channel.send(frames.SIGNAL, self.number, bytes([signum]))

    def pause(self, paused: bool) -> None:
        """Stop or resume the guest's reads of its output; a paused command's writes block."""
        if not self._is_over():
            self._channel.send(frames.PAUSE, self.number, bytes([paused]))

    def _printed_last(self) -> str:
        """Return "; it printed last: ..." for a message; "; it printed nothing" without output.

        Return an empty text if a sink consumes the output.
        """
        if not self._is_collected:
            return ""
        ends = [_last_line(data) for data in (self.stdout, self.stderr)]
        said = "; ".join(filter(None, ends))
        return f"; it printed last: {said}" if said else "; it printed nothing"

    def _credits(self) -> int:
        """Return the bytes of input that the guest can accept now."""
        return frames.WINDOW - (self.sent - self.consumed)

    def _is_over(self) -> bool:
        return self.status is not None or self.failure is not None

    def deliver(self, kind: int, data: bytes) -> None:
        """Deliver output to the sink or the buffer; the channel's reader thread calls it.

        An exception of the sink becomes the job's failure and kills the command. Output after a
        failure is dropped.
        """
        if self.failure is not None:
            return
        try:
            self._sink(kind, data)
        except Exception as error:  # from a caller's sink: raised in the waiter
            self._channel.give_up(self, error)
            self.kill()

    def _collect(self, kind: int, data: bytes) -> None:
        (self.stdout if kind == frames.STDOUT else self.stderr).extend(data)
        if len(self.stdout) + len(self.stderr) > OUTPUT_LIMIT:
            raise GuestError(f"{self.name}: output exceeds {OUTPUT_LIMIT >> 20} MiB")


def _last_line(data: bytearray) -> str:
    """Return the last non-blank line of an output, without terminal control characters."""
    text = bytes(data[-LONGEST_LINE:]).decode(errors="replace").rstrip()
    return one_line(text.splitlines()[-1]) if text else ""
