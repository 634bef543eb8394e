"""A pcapng file in progress: buffered, bounded and non-blocking.

Blocks are written once a buffer is full or FLUSH_NS after the first one. When a write fails or the
file reaches its size, the capture ends with a line in the log, and the device continues. A full
pipe loses packets; their number is at the end of the file.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from emu.device.ports import Clock, Timer
from emu.device.rounds.costs import LOG_BLOCK_BYTES_PER_STEP, STEPS_PER_BLOCK
from emu.device.rounds.sizes import WRITTEN_PER_ROUND
from emu.host.truncated_output import LimitError
from emu.host.userfiles import open_outfile
from emu.server.net.pcap import blocks

log = logging.getLogger(__name__)

FLUSH_BYTES = 1 << 18
FLUSH_NS = 200_000_000
MAX_WAITING = 8 << 20
"""Maximum bytes queued for the reader of a pipe."""
DEFAULT_MIB = 1024
_BLOCKS_PER_CALL = 256

Place = list[bytes]
"""A block, in a list of its own that can be filled later."""


class PcapFile:
    """A capture of all functions of a process."""

    def __init__(
        self, path: Path, clock: Clock, application: str, most_mib: int = DEFAULT_MIB
    ) -> None:
        """Open the file. Raises OSError if that fails, or for a pipe without a reader."""
        self._path = path
        self._clock = clock
        self._limit = most_mib << 20
        self._fd = open_outfile(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
        self._blocks: deque[Place] = deque([[blocks.section(application)]])
        self._waiting = len(self._blocks[0][0])
        self._is_blocked = False
        """Whether the pipe is full."""
        self._written = 0
        self._interfaces = 0
        self._reserved = 0
        """Number of positions that are not filled yet."""
        self._lost = 0
        self._timer: Timer | None = None
        self.ended_by: OSError | None = None
        """Error that ended the capture early, or prevented its last blocks."""
        self.on_end: Callable[[], None] = lambda: None
        """Callback for the end of the capture."""

    @property
    def is_open(self) -> bool:
        """Whether the capture is still open."""
        return self._fd >= 0

    def interface(self, link_type: int, name: str, description: str, address: bytes) -> int:
        """Add an interface block; return the interface's number, counted from 0."""
        self._add(blocks.interface(link_type, name, description, address))
        self._interfaces += 1
        return self._interfaces - 1

    def may_queue(self, size: int) -> bool:
        """Return whether a packet of ``size`` bytes may wait for the slow reader of a pipe.

        The bound is MAX_WAITING queued bytes, not the file's size. A refused packet counts as lost,
        and the first one is logged. Return False without a count once the file is closed.
        """
        if self._fd < 0:
            return False
        if self._waiting + size <= MAX_WAITING:
            return True
        if not self._lost:
            log.warning("the capture %s: its reader is too slow, packets are lost", self._path)
        self._lost += 1
        return False

    def reserve(self) -> Place:
        """Return an empty position in the file; :meth:`put` must fill it in the same round.

        Until then nothing is flushed by size.
        """
        place = [b""]
        self._blocks.append(place)
        self._reserved += 1
        return place

    def put(self, place: Place, block: bytes) -> None:
        """Fill a reserved position, and write the queue from FLUSH_BYTES on, else after FLUSH_NS.

        An empty block, or one that :meth:`may_queue` refuses, leaves the position empty. Do nothing
        once the file is closed. A failed write ends the capture.
        """
        self._reserved -= 1
        if self._fd < 0:
            return
        self._clock.budget.charge((len(block) >> LOG_BLOCK_BYTES_PER_STEP) + STEPS_PER_BLOCK)
        if not block or not self.may_queue(len(block)):
            if self._blocks[-1] is place:
                self._blocks.pop()
            return
        place[0] = block
        self._waiting += len(block)
        if not self._reserved and self._waiting >= FLUSH_BYTES and not self._is_blocked:
            self._flush()
        elif self._timer is None:
            self._timer = self._clock.call_later(FLUSH_NS, self._late)

    def add(self, block: bytes) -> Place:
        """Add a block at the end, and return its position.

        Drop and count the block if the reader of the pipe is slow.
        """
        place = self.reserve()
        self.put(place, block)
        return place

    def replace_last(self, place: Place, block: bytes) -> bool:
        """Replace the last block of the file; return False, without a change, for any other one.

        A block that has been written, or was dropped, is not the last one either.
        """
        if not self._blocks or self._blocks[-1] is not place or not place[0]:
            return False
        self._waiting += len(block) - len(place[0])
        place[0] = block
        return True

    def _add(self, block: bytes) -> None:
        self._blocks.append([block])
        self._waiting += len(block)

    def _late(self) -> None:
        """Write the queue at the timer, also to a pipe that was full; set the timer again."""
        self._timer = None
        self._is_blocked = False
        self._flush()
        if self._blocks and self._fd >= 0:
            self._timer = self._clock.call_later(FLUSH_NS if self._is_blocked else 0, self._late)

    def _flush(self) -> None:
        """Write queued blocks, up to WRITTEN_PER_ROUND; leave a full pipe alone until the timer.

        An OSError, a write of 0 bytes, or the size limit ends the capture.
        """
        left = WRITTEN_PER_ROUND
        while self._blocks and left > 0 and self._fd >= 0 and not self._is_blocked:
            some = [place[0] for place in islice(self._blocks, _BLOCKS_PER_CALL)]
            try:
                count = os.writev(self._fd, some)
                if not count and any(some):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            except BlockingIOError:
                self._is_blocked = True
                return
            except OSError as error:
                self._end(error, f"{error.strerror}")
                return
            self._done(count, len(some))
            left -= count
        if self._written >= self._limit:
            said = f"the limit of {self._limit >> 20} MiB is reached"
            self._end(LimitError(said), said)

    def _done(self, count: int, limit: int) -> None:
        """Remove ``count`` written bytes from the first ``limit`` blocks.

        A partly written block means that the pipe is full.
        """
        self._written += count
        self._waiting -= count
        for _ in range(limit):
            place = self._blocks[0]
            if count < len(place[0]):
                self._blocks[0] = [place[0][count:]]  # its position is no block's any more
                self._is_blocked = True
                return
            count -= len(place[0])
            self._blocks.popleft()

    def _end(self, error: OSError, why: str) -> None:
        """End the capture early: close the file, drop the queue, store the error, call ``on_end``.

        A warning with ``why`` is logged, and the process continues.
        """
        self.ended_by = error
        log.warning("the capture %s ends here, the run continues: %s", self._path, why)
        os.close(self._fd)
        self._fd = -1
        self._blocks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.on_end()

    def close(self) -> None:
        """Write the queued blocks and close the file; a pipe that is full loses the rest.

        Lost packets are logged and noted in the file. ``ended_by`` reports blocks that could not be
        written; ``on_end`` is not called.
        """
        if self._fd < 0:
            return
        if self._lost:
            said = f"{self._lost} packets are missing: the file's reader was too slow"
            log.warning("the capture %s: %s", self._path, said)
            self._add(blocks.journal_entry(time.time_ns(), said))
        self.on_end = lambda: None
        self._is_blocked = False
        while self._blocks and self._fd >= 0 and not self._is_blocked:
            self._flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._blocks:
            self.ended_by = BlockingIOError(errno.EAGAIN, "the file's reader is too slow")
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
