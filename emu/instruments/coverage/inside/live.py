"""Work of a User-Mode Linux guest on bound functions, without starting a process.

The counted task does all of it: interfaces down and up, frames, ethtool commands, sysfs files.
Failures are ignored, as an injected fault may cause them.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_DEVICES = Path("/sys/bus/pci/devices")
_GET_FLAGS, _SET_FLAGS, _SET_ADDRESS, _SET_MASK, _SET_MTU = 0x8913, 0x8914, 0x8916, 0x891C, 0x8922
_ETHTOOL = 0x8946
_UP = 1
_DATAGRAM_PORT = 9
_SIZES = (18, 1400, 60, 700)
_SETTLE_SECONDS = 0.004
_MAX_REPLY_BYTES = 1 << 16
_STATISTICS = 0x1D
_EEPROM = 0x43
_QUESTIONS = (
    *(0x03, 0x05, 0x0A, 0x0E, 0x10, 0x12, _STATISTICS, 0x27, 0x3C, 0x41, 0x42, _EEPROM, 0x44),
    *(0x46, 0x4C, 0x4E, 0x50),
)
"""Driver, wake on LAN, link, coalescing, rings, pause, statistics, private flags, channels, time
stamps, module and its EEPROM, EEE, RSS, link settings, PHY tunables, FEC
(include/uapi/linux/ethtool.h)."""
_MAX_FILES = 200
_MAX_FILE_BYTES = 4096


def _interfaces(slots: Sequence[str]) -> list[str]:
    return [one.name for slot in slots for one in sorted((_DEVICES / slot).glob("net/*"))]


def _call(link: socket.socket, request: int, name: str, rest: bytes) -> bytes:
    """Issue an ioctl on an interface (struct ifreq); return the structure's union."""
    data = struct.pack("16s24s", name.encode(), rest)
    return fcntl.ioctl(link, request, data)[16:]


def _set_up(link: socket.socket, name: str, is_up: bool) -> None:
    """Set an interface up or down; ignore a failure."""
    with contextlib.suppress(OSError):
        (flags,) = struct.unpack_from("h", _call(link, _GET_FLAGS, name, b""))
        _call(link, _SET_FLAGS, name, struct.pack("h", flags | _UP if is_up else flags & ~_UP))


def _address(number: int, last: int) -> str:
    return f"10.{100 + number}.0.{last}"


def _set_address(link: socket.socket, name: str, number: int) -> None:
    """Set an interface's IPv4 address and mask, 10.(100 + ``number``).0.1/24; ignore failures."""
    for request, address in ((_SET_ADDRESS, _address(number, 1)), (_SET_MASK, "255.255.255.0")):
        raw = struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(address))
        with contextlib.suppress(OSError):
            _call(link, request, name, raw)


def frames(slots: Sequence[str]) -> None:
    """Set up each interface of these PCI functions, and send four broadcasts from it.

    Gives each an IPv4 address first. Ignores failures; waits 4 ms for the frames. ``slots`` are
    names below /sys/bus/pci/devices.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        link.setblocking(False)
        names = _interfaces(slots)
        for number, name in enumerate(names):
            _set_address(link, name, number)
            _set_up(link, name, True)
        for size in _SIZES:
            for number in range(len(names)):
                with contextlib.suppress(OSError):
                    link.sendto(bytes(size), (_address(number, 255), _DATAGRAM_PORT))
    time.sleep(_SETTLE_SECONDS)


def links(slots: Sequence[str]) -> None:
    """Set each interface down, change its MTU to 1400 to 1499 and set it up; ignore failures."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        for name in _interfaces(slots):
            _set_up(link, name, False)
            with contextlib.suppress(OSError):
                _call(
                    link, _SET_MTU, name, struct.pack("i", 1400 + int(time.monotonic() * 10) % 100)
                )
            _set_up(link, name, True)


def questions(slots: Sequence[str]) -> None:
    """Issue ethtool's query commands on each interface; ignore the answers and failures."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        for name in _interfaces(slots):
            for command in _QUESTIONS:
                asked = array.array("I", bytes(_MAX_REPLY_BYTES))
                asked[0] = command
                if command == _EEPROM:
                    asked[3] = 256
                where, _ = asked.buffer_info()
                with contextlib.suppress(OSError):
                    _call(link, _ETHTOOL, name, struct.pack("P", where))


def files(slots: Sequence[str]) -> None:
    """Read at most 200 sysfs files of RDMA devices, ports, counters and sensors.

    Ignore failures.
    """
    for path, _ in zip(_files(slots), range(_MAX_FILES)):
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.read(_MAX_FILE_BYTES)


def _files(slots: Sequence[str]) -> Iterator[Path]:
    """Yield the existing sysfs files to read, of these PCI functions."""
    for slot in slots:
        for pattern in (
            *("infiniband/*/*", "infiniband/*/hw_counters/*", "infiniband/*/ports/*/*"),
            *("infiniband/*/ports/*/*counters/*", "infiniband/*/ports/*/pkeys/[01]"),
            *("infiniband/*/ports/*/gids/[01]", "hwmon/*/*", "net/*/statistics/*"),
        ):
            yield from (one for one in (_DEVICES / slot).glob(pattern) if one.is_file())


WORKS: dict[str, Callable[[Sequence[str]], None]] = {
    "frames": frames,
    "links": links,
    "questions": questions,
    "files": files,
}
