"""Guest memory that a vfio-user client grants."""

from __future__ import annotations

import fcntl
import mmap
import os


class GuestRam:
    """Guest memory like QEMU's memory-backend-memfd: a memfd of fixed size.

    ``bytes`` is the guest's own view of it.
    """

    def __init__(self, size: int, *, sealed: bool = True) -> None:
        self.size = size
        self.fd = os.memfd_create("guest-ram", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        if sealed:
            seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self.bytes = mmap.mmap(self.fd, size)

    def close(self) -> None:
        """Release the memory; the server's mapping of it stays valid."""
        self.bytes.close()
        os.close(self.fd)
