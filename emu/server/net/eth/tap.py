"""``--net tap=NAME``: a TAP device, whose peer is the host's network stack.

Each frame follows a virtio network header, which lets super-frames and unfinished checksums pass to
the kernel unchanged. Frames from the kernel are finished: the kernel cuts a super-frame cheaper
than this process, and the guest's receive requests hold single frames anyway.

Sources: linux/if_tun.h, linux/virtio_net.h (struct virtio_net_hdr_v1), drivers/net/tun.c.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from struct import Struct
from typing import Final

from emu.device.port.eth.checksum import CHECKSUM_AT, MODULUS, insert, pseudo_header
from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.headers import TCP, FrameError, Headers, parse
from emu.device.port.eth.plain import plain, transport_bytes
from emu.host.user_error import UserError
from emu.server.net.eth.framed import PAUSE_NS
from emu.server.net.eth.port import SegmentPort, padded
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.poller import READ, Poller

log = logging.getLogger(__name__)

DEVICE: Final = "/dev/net/tun"
MAX_NAME: Final = 15
"""IFNAMSIZ without the NUL."""

_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
_IFREQ = Struct("@16sH22x")

_VNET = Struct("@BBHHHHH")
"""flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, num_buffers, in host byte order."""
_NEEDS_CSUM, _DATA_VALID = 1, 2
_GSO_TCPV4, _GSO_TCPV6, _GSO_ECN = 1, 4, 0x80
_CWR = 0x80
_PLAIN = bytes(_VNET.size)


class TapError(UserError):
    """A TAP device that cannot be used; the text gives the reason."""


class Tap(SegmentPort):
    """A port that leads to a TAP device; a :class:`emu.server.net.poller.Pollable`."""

    is_uplink = True
    has_more = False

    def __init__(self, name: str, switch: SegmentSwitch, poller: Poller) -> None:
        """Attach to the device, and create it if permitted. Raises :class:`TapError`."""
        super().__init__(f"tap {name}")
        self._switch = switch
        self._poller = poller
        self._fd = open_tap(name)
        self._was_down = False
        switch.add(self)
        poller.watch(self, READ)

    @property
    def is_up(self) -> bool:
        """Whether the descriptor is open; the device may be down."""
        return self._fd >= 0

    def fileno(self) -> int:
        """Return the device's descriptor; -1 when closed."""
        return self._fd

    def deliver(self, frame: Frame) -> None:
        """Write a frame to the kernel, as one or several frames of :func:`offloaded`.

        Count "malformed" for a frame that cannot be converted, "queue full" for a full device, and
        "refused" for other errors. A device that is down is logged once.
        """
        try:
            pieces = offloaded(frame)
        except FrameError:
            self.dropped["malformed"] += 1
            return
        for header, data in pieces:
            try:
                os.writev(self._fd, (header, data))
            except BlockingIOError:
                self.dropped["queue full"] += 1
            except OSError as error:
                self.dropped["refused"] += 1
                self._note(error)
            else:
                self.sent += 1
                self._was_down = False

    def _note(self, error: OSError) -> None:
        """Log once that the device is down (EIO); other errors are not logged."""
        if error.errno == errno.EIO and not self._was_down:
            self._was_down = True
            name = self.name.removeprefix("tap ")
            log.warning("%s is down, frames are lost: ip link set %s up", self.name, name)

    def on_writable(self) -> None:
        """Do nothing: the device is never polled for writing."""

    def take(self, limit: int) -> int:
        """Forward up to ``limit`` frames from the kernel; return their number.

        Without receive requests, pause for PAUSE_NS and return 0. An OSError closes the device and
        counts as a frame.
        """
        credits = self._switch.credits()
        if not credits:
            self._poller.pause(self, PAUSE_NS)
            return 0
        taken = 0
        while taken < min(limit, credits) and self._fd >= 0:
            try:
                data = os.read(self._fd, _VNET.size + MAX_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                self.close(error.strerror or str(error))
                return taken + 1
            self._switch.forward(self, received(data))
            taken += 1
        return taken

    def close(self, why: str) -> None:
        """Remove the port from the segment and close the descriptor; a non-empty ``why`` is logged.

        The kernel removes a device that this process created.
        """
        if self._fd < 0:
            return
        if why:
            log.warning("%s: closed: %s", self.name, why)
        self._switch.remove(self)
        os.close(self._fd)
        self._fd = -1


def open_tap(name: str) -> int:
    """Return a non-blocking descriptor of the TAP device, created if permitted.

    Raises TapError with advice for missing privileges, for a device in use, and for other errors.
    """
    try:
        fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise TapError(f"tap {name}: {DEVICE}: {error.strerror}") from None
    try:
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(fd, _TUNSETIFF, _IFREQ.pack(name.encode(), flags))
        fcntl.ioctl(fd, _TUNSETVNETHDRSZ, _VNET.size.to_bytes(4, "little"))
        fcntl.ioctl(fd, _TUNSETOFFLOAD, 0)
    except OSError as error:
        os.close(fd)
        raise TapError(_why_not(name, error)) from None
    return fd


def _why_not(name: str, error: OSError) -> str:
    """Return the text for the user about a failed TUNSETIFF: privileges, in use, or other."""
    if error.errno == errno.EPERM:
        made = f"ip tuntap add {name} mode tap user $USER && ip link set {name} up"
        return f"tap {name}: only root may create the device; as root: {made}"
    if error.errno == errno.EBUSY:
        return f"tap {name}: another process uses it"
    return f"tap {name}: {error.strerror}"


def received(data: bytes) -> Frame:
    """Return the frame behind a virtio network header that the kernel wrote, padded.

    A checksum that the kernel checked or left unfinished counts as valid.
    """
    flags, gso_type, _, gso_size, _, _, _ = _VNET.unpack_from(data)
    checked = bool(flags & (_NEEDS_CSUM | _DATA_VALID))
    filled = checked and not flags & _NEEDS_CSUM
    return Frame(padded(data[_VNET.size :]), gso_size if gso_type else 0, checked, filled)


def offloaded(frame: Frame) -> list[tuple[bytes, bytes]]:
    """Return a frame in the kernel's format: pairs of virtio network header and frame.

    A TCP super-frame with unfinished checksums stays whole; UDP ones are cut, because kernels
    before 6.2 refuse them. Raises FrameError for a super-frame that cannot be cut.
    """
    if not frame.checked or frame.filled:
        return [(_PLAIN, data) for data in plain(frame)]
    headers = parse(frame.data)
    if not headers.l4 or headers.protocol not in CHECKSUM_AT:
        return [(_PLAIN, data) for data in plain(frame)]
    gso_type = 0
    if frame.gso_size:
        if headers.protocol != TCP:
            return [(_PLAIN, data) for data in plain(frame)]
        gso_type = _gso_type(headers)
    length = headers.l4 + transport_bytes(headers)
    offset = CHECKSUM_AT[headers.protocol]
    header = _VNET.pack(_NEEDS_CSUM, gso_type, length, frame.gso_size, headers.l4, offset, 0)
    return [(header, _with_pseudo_header(headers, offset))]


def _gso_type(headers: Headers) -> int:
    gso_type = _GSO_TCPV4 if headers.version == 4 else _GSO_TCPV6
    return gso_type | (_GSO_ECN if headers.frame[headers.l4 + 13] & _CWR else 0)


def _with_pseudo_header(headers: Headers, offset: int) -> bytes:
    """Return the frame with the pseudo-header's sum as L4 checksum, as the kernel requires.

    The IP header's own checksum is complete.
    """
    frame = insert(headers, l3=True, l4=False)
    number = pseudo_header(headers, headers.end - headers.l4) % MODULUS
    at = headers.l4 + offset
    return b"".join((frame[:at], number.to_bytes(2, "big"), frame[at + 2 :]))
