"""A pcapng file that is being written: buffered, bounded, and never in the way.

Blocks are written once a buffer is full or some of them have waited for a moment. When writing
fails or the file has its size, the capture ends with one line in the log, and the device goes on. A
pipe that is full costs packets, which the end of the file tells.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from emu.host.userfiles import open_outfile
from emu.net.pcap import blocks
from emu.ports import Clock, Timer

log = logging.getLogger(__name__)

FLUSH_BYTES = 1 << 18
FLUSH_NS = 200_000_000
MOST_WAITING = 8 << 20
"""Bytes that may wait for the reader of a pipe."""
DEFAULT_MIB = 1024


class PcapFile:
    """One capture of all functions of a process."""

    def __init__(
        self, path: Path, clock: Clock, application: str, most_mib: int = DEFAULT_MIB
    ) -> None:
        """Raises OSError when the file cannot be opened, or is a pipe that nobody reads."""
        self._path = path
        self._clock = clock
        self._most = most_mib << 20
        self._fd = open_outfile(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
        self._blocks: list[bytes] = [blocks.section(application)]
        self._waiting = len(self._blocks[0])
        self._written = 0
        self._interfaces = 0
        self._reserved = 0
        """Places that are not filled yet."""
        self._lost = 0
        self._timer: Timer | None = None
        self.on_end: Callable[[], None] = lambda: None
        """Called when no more packets are wanted."""

    @property
    def is_open(self) -> bool:
        """Whether packets are still wanted."""
        return self._fd >= 0

    def interface(self, link_type: int, name: str, description: str, address: bytes) -> int:
        """Add an interface; returns its number."""
        self._add(blocks.interface(link_type, name, description, address))
        self._interfaces += 1
        return self._interfaces - 1

    def reserve(self) -> int:
        """A place for a packet, which :meth:`put` has to fill before the loop goes on."""
        self._blocks.append(b"")
        self._reserved += 1
        return len(self._blocks) - 1

    def put(self, place: int, block: bytes) -> None:
        """Put a packet into its place."""
        self._reserved -= 1
        if self._fd < 0:
            return
        if self._waiting + len(block) > MOST_WAITING:
            self._lost += 1
            return
        self._blocks[place] = block
        self._waiting += len(block)
        if not self._reserved and self._waiting >= FLUSH_BYTES:
            self._flush()
        elif self._timer is None:
            self._timer = self._clock.call_later(FLUSH_NS, self._late)

    def add(self, block: bytes) -> None:
        """Add a packet."""
        self.put(self.reserve(), block)

    def _add(self, block: bytes) -> None:
        self._blocks.append(block)
        self._waiting += len(block)

    def _late(self) -> None:
        self._timer = None
        self._flush()
        if self._blocks and self._fd >= 0:
            self._timer = self._clock.call_later(FLUSH_NS, self._late)

    def _flush(self) -> None:
        if self._fd < 0:
            return
        data = memoryview(b"".join(self._blocks))
        try:
            while data:
                count = os.write(self._fd, data)
                if not count:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                self._written += count
                data = data[count:]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"{error.strerror}")
            return
        self._blocks = [bytes(data)] if data else []
        self._waiting = len(data)
        if self._written >= self._most:
            self._end(f"it has {self._most >> 20} MiB")

    def _end(self, why: str) -> None:
        log.warning("the capture %s ends here, the run goes on: %s", self._path, why)
        os.close(self._fd)
        self._fd = -1
        self._blocks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.on_end()

    def close(self) -> None:
        """Write what waits, and close the file."""
        if self._fd < 0:
            return
        if self._lost:
            said = f"{self._lost} packets are not here: the file's reader was too slow"
            log.warning("the capture %s: %s", self._path, said)
            self._add(blocks.remark(0, time.time_ns(), said))
        self.on_end = lambda: None
        self._flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
