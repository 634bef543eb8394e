"""``--net user``: the host's network without privileges, by passt, a program that we start.

passt turns frames into connections of its own: the guest gets an address by DHCP, NDP or DHCPv6 and
reaches whatever the host reaches; the gateway's address is the host's loopback. We hand passt one
end of a socket pair, so it needs no path and ends when we do, however that happens.

What it takes was tried with the versions of Debian 12 and 13: TCP super-frames of up to 65535 bytes
as they are, and any checksum. Debian 12's loses its place for ever when a frame does not come in
one piece, so each frame is one write; and it takes padding behind a TCP segment for data. What it
sends has right checksums.
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
"""Bytes of the longest frame that passt takes (tap.h: L2_MAX_LEN_PASST)."""
DEFAULT_MTU = 1500
"""What passt tells the guest. Its own default, 65520, is more than any Ethernet port has."""
START_S = 0.25
"""A wrong option or a host without any network ends passt within this time."""
THEIR_BUFFER = 16 << 20
"""Bytes that passt can send before we read them, as far as net.core.wmem_max allows.

It sends a whole TCP window at once, drops what does not fit, and then sends all of it again.
"""
RESTART_NS = 1_000_000_000
MAX_RESTARTS = 5
"""In a row, each within a minute of the one before."""
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
    """The path of passt. Raises :class:`PasstError`."""
    path = shutil.which("passt")
    if path is None:
        raise PasstError("--net user needs passt: apt-get install passt")
    return path


class PasstUplink(FramedUplink):
    """The socket to passt; ``gone`` is called when it has been closed."""

    frames_per_write: ClassVar[int] = 1
    buffer_bytes: ClassVar[int] = 16 << 20

    def __init__(
        self, sock: socket.socket, switch: SegmentSwitch, poller: Poller,
        gone: Callable[[PasstUplink], None],
    ) -> None:  # fmt: skip
        self._gone = gone
        super().__init__("passt", sock, switch, poller)

    def frames(self, frame: Frame) -> list[bytes]:
        """TCP super-frames go whole; UDP ones would be taken for one datagram. No padding."""
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
        """A stream's segments that follow each other as one; passt's checksums are right."""
        several = super_frame(buffer, start, end, limit)
        if several is not None:
            return several
        data = padded(unfragmented(bytes(buffer[start:end])))
        return Frame(data, checked=True, filled=True), end, 1

    def closed(self, why: str) -> None:
        """passt has ended, or we have."""
        self._gone(self)


def _unpadded(data: bytes) -> bytes:
    """A short frame without its padding. Most are TCP's acknowledgements over IPv4."""
    if data[12:15] == _PLAIN_IPV4:
        end = ETHERNET_BYTES + int.from_bytes(data[16:18], "big")
        if _MIN_IPV4 <= end <= len(data):
            return data[:end]
    return data[: parse(data).end or len(data)]


def _is_tcp(data: bytes) -> bool:
    if data[12:15] == _PLAIN_IPV4 and len(data) >= _MIN_IPV4:
        return data[_IPV4_PROTOCOL] == TCP
    return parse(data, whole=False).protocol == TCP


class _Tail:
    """The last of what passt has said; a :class:`emu.server.net.poller.Pollable`."""

    name = "passt"
    has_more = False

    def __init__(self, fd: int, poller: Poller) -> None:
        self._fd = fd
        self._said = b""
        os.set_blocking(fd, False)
        poller.watch(self, READ)

    def fileno(self) -> int:
        """The pipe."""
        return self._fd

    def room(self) -> None:
        """Nothing is written here."""

    def take(self, limit: int) -> int:
        """Read what there is."""
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
        """Close the pipe."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def line(self) -> str:
        """The last line, without what passt says about its own log."""
        while self.take(1):
            pass
        lines = self._said.decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line and "syslog" not in line), "")


class Passt:
    """A passt that is kept running, and the port of the segment that leads to it."""

    def __init__(
        self, switch: SegmentSwitch, poller: Poller, clock: Clock, options: Sequence[str] = ()
    ) -> None:
        """``options`` of passt. Raises :class:`PasstError` when it does not start."""
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
        """The process."""
        return self._process.pid

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # passt does this to sockets that it accepts, not to one that it is given.
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
        """The socket has been closed: start another passt in a while."""
        self.switch.remove(uplink)
        if not self._is_closed:
            self._timer = self._clock.call_later(RESTART_NS, self._restart)

    def _restart(self) -> None:
        self._timer = None
        status = self._end()
        if self._clock.now_ns() - self._started_ns > _MINUTE_NS:
            self._restarts = 0
        self._restarts += 1
        line = self._tail.line()
        self._tail.close("")
        why = f"passt ended with status {status}" + f": {line}" * bool(line)
        if self._restarts > MAX_RESTARTS:
            log.error("%s, too often: --net user leads nowhere now, restart the server", why)
            return
        log.warning("%s: it is started again, its connections are lost", why)
        try:
            self._start()
        except PasstError as error:
            log.error("%s: --net user leads nowhere now, restart the server", error)

    def _end(self) -> int:
        """The status of a passt whose socket has been closed; it should have ended long ago."""
        if self._process.poll() is None:
            self._process.kill()
        return self._process.wait()

    def close(self) -> None:
        """End passt."""
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
