"""Writes the archive that a kernel unpacks as its initramfs.

Format: Documentation/driver-api/early-userspace/buffer-format.rst ("newc").
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field

_TRAILER = "TRAILER!!!"


@dataclass
class Archive:
    """Entries in the order in which they were added; everything belongs to root."""

    _chunks: list[bytes] = field(default_factory=list)
    _directories: set[str] = field(default_factory=set)
    _count: int = 0

    def directory(self, path: str) -> None:
        """Add a directory and its parents, unless they exist."""
        if path and path not in self._directories:
            self.directory(path.rpartition("/")[0])
            self._directories.add(path)
            self._add(path, stat.S_IFDIR | 0o755)

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Add a regular file, and its parents."""
        self.directory(path.rpartition("/")[0])
        self._add(path, stat.S_IFREG | mode, data)

    def character_device(self, path: str, major: int, minor: int) -> None:
        """Add a device node, and its parents."""
        self.directory(path.rpartition("/")[0])
        self._add(path, stat.S_IFCHR | 0o600, device=(major, minor))

    def pack(self) -> bytes:
        """Return the archive's bytes, with the trailer."""
        return b"".join([*self._chunks, self._entry(_TRAILER, 0)])

    def _add(
        self, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        self._count += 1
        self._chunks.append(self._entry(path, mode, data, device))

    def _entry(
        self, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> bytes:
        """Return the bytes of one entry; ``mode`` 0 is the trailer.

        Each entry has its own inode.
        """
        name = path.encode() + b"\0"
        numbers = (
            self._count if mode else 0,  # inode: unique, so that no entry is a hard link
            mode,
            *(0, 0),  # uid, gid
            2 if stat.S_ISDIR(mode) else 1,  # links
            0,  # time
            len(data),
            *(0, 0),  # device that holds the file
            *device,
            len(name),
            0,  # checksum, unused in this format
        )
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name
        return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
