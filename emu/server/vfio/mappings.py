"""The file behind an address of this process: proc(5), /proc/pid/maps and /proc/pid/fd.

libvfio-user maps the client's memory and reports the address, but not the descriptor.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def find_backing(address: int) -> tuple[int, int] | None:
    """Return an open descriptor of the file mapped at ``address``, and the file's offset there.

    The descriptor is not a new one: it belongs to the code that opened it. One with read and write
    access is preferred. Returns None when the address is not mapped from a file that is still open
    here.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, device, inode, *_ = line.split()
        start, end = (int(bound, 16) for bound in span.split("-"))
        if start <= address < end:
            major, minor = (int(part, 16) for part in device.split(":"))
            fd = _find_open_file(os.makedev(major, minor), int(inode))
            return None if fd is None else (fd, int(offset, 16) + address - start)
    return None


def _find_open_file(device: int, inode: int) -> int | None:
    """Return a descriptor of this process for the file, one with O_RDWR if possible.

    None without any.
    """
    fd = None
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:  # the descriptor of the directory listing
            continue
        if (status.st_dev, status.st_ino) != (device, inode):
            continue
        fd = int(name)
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
            break
    return fd
