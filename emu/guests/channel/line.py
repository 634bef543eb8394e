"""A serial line of User-Mode Linux as the port into the guest: the host's end of it.

A line stops for ever when its reader falls 4 KiB behind: the terminal throttles it, and the kernel
never polls its descriptor again (arch/um/drivers/line.c: line_throttle, line_unthrottle, Linux
6.12). The program inside therefore reports the bytes that it has read, by CREDIT frames for command
0. A thread on the host sends no more than the terminal buffers.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Final

from emu.guests.channel import frames

WINDOW: Final = 2048
"""Maximum number of unread bytes in flight: half of the terminal's buffer (N_TTY_BUF_SIZE)."""


class SerialLine:
    """A thread that forwards between two sockets: the serial line, and the channel's connection."""

    def __init__(self, line: socket.socket) -> None:
        """Take ownership of ``line`` and start the thread."""
        self._line = line
        self.connection, self._channel = socket.socketpair()
        """The socket for :class:`emu.guests.channel.channel.GuestChannel`."""
        self._unread = 0
        self._decoder = frames.FrameDecoder()
        self._thread = threading.Thread(target=self._run, name="serial line", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and close both ends and :attr:`connection`. May be called twice."""
        for one in (self._line, self._channel):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (self._line, self._channel, self.connection):
            one.close()

    def _run(self) -> None:
        """Forward in the thread until either side ends or sends an invalid frame.

        Both sides are shut down then.
        """
        with contextlib.suppress(OSError, frames.ChannelFrameError):
            while self._forward():
                pass
        for one in (self._line, self._channel):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _forward(self) -> bool:
        """Wait for bytes of either side and forward them; return False at the end of either side.

        Bytes to the guest wait while 2048 are unread there.
        """
        credit = WINDOW - self._unread
        requested = [self._line, self._channel] if credit > 0 else [self._line]
        ready, _, _ = select.select(requested, [], [])
        if self._channel in ready:
            data = self._channel.recv(credit)
            if not data:
                return False
            self._unread += len(data)
            self._line.sendall(data)
        return self._line not in ready or self._from_line()

    def _from_line(self) -> bool:
        """Forward the frames that the guest has sent; return False at the end of the line.

        CREDIT frames for command 0 lower the count of unread bytes and are not forwarded.
        """
        data = self._line.recv(4 * frames.CHUNK)
        if not data:
            return False
        for frame in self._decoder.feed(data):
            if frame.kind == frames.CREDIT and not frame.job:
                self._unread -= min(self._unread, frames.decode_count(frame.payload))
            else:
                self._channel.sendall(frames.encode(frame.kind, frame.job, frame.payload))
        return True
