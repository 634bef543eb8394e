"""A guest's console log: a file of limited size, because a guest can write to its console for days.

QEMU writes to a pipe, and a thread copies that to the file. When the file exceeds its limit, its
middle is dropped. The file always has the start (the boot), a line with the number of dropped
bytes, and the end. A guest that writes faster than the file blocks, like at a real serial port.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from pathlib import Path
from typing import Final

HEAD: Final = 4 << 20
"""Bytes kept of the start."""
TAIL: Final = 4 << 20
"""Minimum number of bytes kept of the end; the file has up to twice that number."""
_CHUNK: Final = 64 << 10
_CLOSE_TIMEOUT: Final = 5.0


class BoundedFile:
    """A file to append to, whose middle is dropped above a limit."""

    def __init__(self, path: Path, head: int = HEAD, tail: int = TAIL) -> None:
        self._file = path.open("w+b", buffering=0)
        self._head = head
        self._tail = tail
        self._size = 0
        self._left_out = 0

    def write(self, data: bytes) -> None:
        """Append data; drop the file's middle when it exceeds its limit. Raises OSError."""
        self._file.write(data)
        self._size += len(data)
        if self._size > self._head + 2 * self._tail:
            self._shorten()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _shorten(self) -> None:
        """Keep the start, a note with the total of dropped bytes, and the last ``tail`` bytes."""
        self._file.seek(self._size - self._tail)
        end = self._file.read(self._tail)
        # The previous note is among the bytes dropped now.
        self._left_out += self._size - self._head - len(end) - len(self._note())
        note = self._note()
        self._file.seek(self._head)
        self._file.truncate()
        self._file.write(note + end)
        self._size = self._head + len(note) + len(end)

    def _note(self) -> bytes:
        if not self._left_out:
            return b""
        return b"\n[%d bytes of the console are left out here]\n" % self._left_out


class ConsoleLog:
    """The pipe that QEMU writes to, and the thread that copies it to the file."""

    def __init__(self, path: Path) -> None:
        self._file = BoundedFile(path)
        self._lock = threading.Lock()
        self._reader, self.fd = os.pipe()
        os.set_blocking(self._reader, False)
        self._thread = threading.Thread(target=self._copy, name="console log", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        """The file name for QEMU, which must inherit ``fd``."""
        return Path(f"/dev/fd/{self.fd}")

    def started(self) -> None:
        """Close our copy of ``fd`` after QEMU has inherited it; the log then ends with QEMU.

        Further calls do nothing.
        """
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def flush(self) -> None:
        """Copy everything written so far."""
        self._take()

    def close(self) -> None:
        """Wait up to 5 s for the copying thread, then copy the rest.

        Call it when QEMU has ended.
        """
        self.started()
        self._thread.join(_CLOSE_TIMEOUT)
        self._take()

    def _copy(self) -> None:
        """Copy in the thread until QEMU closes the pipe; then close our end and the file."""
        readable = select.poll()
        readable.register(self._reader, select.POLLIN)
        while self._take():
            readable.poll()
        with self._lock:
            os.close(self._reader)
            self._reader = -1
            self._file.close()

    def _take(self) -> bool:
        """Copy the pending bytes to the file; return False once the pipe has ended.

        Errors of writing, such as a full disk, are ignored, and those bytes are lost.
        """
        with self._lock:
            while self._reader >= 0:
                try:
                    data = os.read(self._reader, _CHUNK)
                except BlockingIOError:
                    return True
                if not data:
                    return False
                # On a full disk the guest continues without its log.
                with contextlib.suppress(OSError):
                    self._file.write(data)
        return False
