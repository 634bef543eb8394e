"""``--net user``: the host's network without privileges, through a passt process.

passt translates frames into connections of its own. The guest gets an address by DHCP, NDP or
DHCPv6 and reaches the hosts that the host reaches; the gateway's address is the host's loopback.
passt gets an end of a socket pair: it needs no path, and ends when this process ends.

Observed with the versions of Debian 12 and 13: passt takes TCP super-frames of up to 65535 bytes
and any checksum. Debian 12's loses synchronization for ever when it reads a partial frame, so each
frame is one write. Debian 12's also treats padding behind a TCP segment as data. Frames from passt
have valid checksums.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import ClassVar

from emu.device.port.eth.frame import MIN_BYTES, Frame
from emu.device.port.eth.headers import ETHERNET_BYTES, TCP, FrameError, parse
from emu.device.port.eth.plain import plain
from emu.device.ports import Clock, Timer
from emu.host.user_error import UserError
from emu.server.net.eth.coalesce import super_frame, unfragmented
from emu.server.net.eth.framed import FramedUplink
from emu.server.net.eth.port import padded
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.poller import READ, Poller

log = logging.getLogger(__name__)

MAX_BYTES = 0xFFFF
"""Longest frame that passt takes, in bytes (tap.h: L2_MAX_LEN_PASST)."""
DEFAULT_MTU = 1500
"""MTU that passt announces to the guest; its default, 65520, exceeds every Ethernet port's."""
START_S = 0.25
"""Time within which a wrong option or a host without any network ends passt, in seconds."""
THEIR_BUFFER = 16 << 20
"""Bytes that passt can send before we read them, up to net.core.wmem_max.

passt sends a whole TCP window at once, drops the bytes that do not fit, and retransmits the window.
"""
RESTART_NS = 1_000_000_000
MAX_RESTARTS = 5
"""Maximum consecutive restarts, each within a minute of the last."""
_MINUTE_NS = 60_000_000_000
_PATIENCE_S = 2
_PLAIN_IPV4 = b"\x08\x00\x45"
"""Ethertype, version and header length of most packets."""
_MIN_IPV4 = ETHERNET_BYTES + 20
_IPV4_PROTOCOL = ETHERNET_BYTES + 9
_TAIL = 1000


class PasstError(UserError):
    """passt is missing or does not start."""


def program() -> str:
    """Return the path of passt. Raises PasstError if no such program is installed."""
    path = shutil.which("passt")
    if path is None:
        raise PasstError("--net user needs passt: apt-get install passt")
    return path


class PasstUplink(FramedUplink):
    """The socket to passt; calls ``gone`` after it was closed."""

    frames_per_write: ClassVar[int] = 1
    buffer_bytes: ClassVar[int] = 16 << 20

    def __init__(
        self, sock: socket.socket, switch: SegmentSwitch, poller: Poller,
        gone: Callable[[PasstUplink], None],
    ) -> None:  # fmt: skip
        self._gone = gone
        super().__init__("passt", sock, switch, poller)

    def frames(self, frame: Frame) -> list[bytes]:
        """Return TCP super-frames whole, UDP ones as single frames, and short frames unpadded.

        A TCP super-frame above MAX_BYTES is cut. Raises FrameError for another frame above
        MAX_BYTES, and for a super-frame that cannot be cut.
        """
        data = frame.data
        if len(data) <= MIN_BYTES:
            return [_unpadded(data)]
        if frame.gso_size and (len(data) > MAX_BYTES or not _is_tcp(data)):
            return plain(frame)
        if len(data) > MAX_BYTES:
            raise FrameError("longer than passt takes")
        return [data]

    def frame_at(
        self, buffer: memoryview, start: int, end: int, limit: int
    ) -> tuple[Frame, int, int]:
        """Return consecutive segments of a TCP stream as a super-frame, else one frame.

        The result has the end offset and the number of frames, as in the base class. passt's
        checksums count as valid.
        """
        several = super_frame(buffer, start, end, limit)
        if several is not None:
            return several
        data = padded(unfragmented(bytes(buffer[start:end])))
        return Frame(data, checked=True, filled=True), end, 1

    def closed(self, why: str) -> None:
        """Report to the owner that the socket is closed."""
        self._gone(self)


def _unpadded(data: bytes) -> bytes:
    """Return a short frame without the padding behind its IP packet; other frames unchanged."""
    if data[12:15] == _PLAIN_IPV4:
        end = ETHERNET_BYTES + int.from_bytes(data[16:18], "big")
        if _MIN_IPV4 <= end <= len(data):
            return data[:end]
    return data[: parse(data).end or len(data)]


def _is_tcp(data: bytes) -> bool:
    """Return whether a frame is a TCP packet over IPv4 or IPv6."""
    if data[12:15] == _PLAIN_IPV4 and len(data) >= _MIN_IPV4:
        return data[_IPV4_PROTOCOL] == TCP
    return parse(data, whole=False).protocol == TCP


class _Tail:
    """The end of passt's error output; a :class:`emu.server.net.poller.Pollable`."""

    name = "passt"
    has_more = False

    def __init__(self, fd: int, poller: Poller) -> None:
        self._fd = fd
        self._said = b""
        os.set_blocking(fd, False)
        poller.watch(self, READ)

    def fileno(self) -> int:
        """Return the pipe's descriptor; -1 when closed."""
        return self._fd

    def on_writable(self) -> None:
        """Do nothing: the pipe is only read."""

    def take(self, limit: int) -> int:
        """Read up to 4096 bytes; return 1, or 0 without data or after the close.

        The last 1000 bytes are kept. End of file closes the pipe.
        """
        if self._fd < 0:
            return 0
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return 0
        if data:
            self._said = (self._said + data)[-_TAIL:]
        else:
            self.close("")
        return 1

    def close(self, why: str) -> None:
        """Close the pipe if open; ``why`` is not evaluated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def line(self) -> str:
        """Read what waits; return the last line without "syslog", or an empty text."""
        while self.take(1):
            pass
        lines = self._said.decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line and "syslog" not in line), "")


class Passt:
    """A passt process that is restarted when it ends, and its port of the segment."""

    def __init__(
        self, switch: SegmentSwitch, poller: Poller, clock: Clock, options: Sequence[str] = ()
    ) -> None:
        """Start passt with ``options``. Raises :class:`PasstError` if it ends within START_S."""
        self.switch = switch
        self._poller = poller
        self._clock = clock
        self._command = [program(), "--foreground", "--quiet", *options]
        self._timer: Timer | None = None
        self._started_ns = self._restarts = 0
        self._is_closed = False
        self._start()
        try:
            status = self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            return
        self.close()
        raise PasstError(f"passt ended with status {status}: {self._tail.line()}")

    @property
    def pid(self) -> int:
        """Process id of passt."""
        return self._process.pid

    def _start(self) -> None:
        """Start passt on a new socket pair, and add its port to the segment.

        Raises PasstError if the program cannot be executed.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # passt enlarges the buffers of sockets that it accepts, but not of an inherited one.
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, THEIR_BUFFER)
        out, into = os.pipe2(os.O_CLOEXEC)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*self._command, "--fd", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=into,
                )
            except OSError as error:
                ours.close()
                os.close(out)
                raise PasstError(f"passt: {error.strerror}") from None
            finally:
                os.close(into)
        self._tail = _Tail(out, self._poller)
        self._uplink = PasstUplink(ours, self.switch, self._poller, self._restart_later)
        self._started_ns = self._clock.now_ns()
        self.switch.add(self._uplink)

    def _restart_later(self, uplink: PasstUplink) -> None:
        """Remove the closed uplink, and schedule the restart of passt unless we close."""
        self.switch.remove(uplink)
        if not self._is_closed:
            self._timer = self._clock.call_later(RESTART_NS, self._restart)

    def _restart(self) -> None:
        """Collect the ended passt, log its last line, and start another.

        After MAX_RESTARTS, each within a minute of the last, or when the start fails, log an error
        and give up.
        """
        self._timer = None
        status = self._end()
        if self._clock.now_ns() - self._started_ns > _MINUTE_NS:
            self._restarts = 0
        self._restarts += 1
        line = self._tail.line()
        self._tail.close("")
        why = f"passt ended with status {status}" + f": {line}" * bool(line)
        if self._restarts > MAX_RESTARTS:
            log.error("%s, too often: --net user is down; restart the server", why)
            return
        log.warning("%s: passt restarts, its connections are lost", why)
        try:
            self._start()
        except PasstError as error:
            log.error("%s: --net user is down; restart the server", error)

    def _end(self) -> int:
        """Kill a passt that survives its closed socket; return its exit status."""
        if self._process.poll() is None:
            self._process.kill()
        return self._process.wait()

    def close(self) -> None:
        """Terminate passt and close its uplink, without a restart; kill it after two seconds."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._uplink.close("")
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._end()
        self._tail.take(1)
        self._tail.close("")
