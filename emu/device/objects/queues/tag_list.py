"""The tags of a shared receive queue that matches them: which message goes to which buffer.

Entries stand in the order in which they were added, and a message takes the first one that its tag
matches. A message that no entry matches is unexpected: the driver's software looks for its buffer,
perhaps among entries that it has added in the meantime. So each side counts unexpected messages,
and an entry is open only once the software has handled as many as have come: until then no message
may pass by an unexpected one. Both counts are modulo 65536.

Source: rdma-core, Documentation/tag_matching.md, ibv_post_srq_ops(3); mlx5_ifc.h:
tag_matching_topology_context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from layouts.rings.tag_matching import TmAppOp

if TYPE_CHECKING:
    from emu.device.objects.queues.receive_queue import Segment

_COUNT_MASK: Final = 0xFFFF
_SEGMENT_2GIB: Final = 1 << 31
_LENGTH: Final = _SEGMENT_2GIB - 1


class TagEntry:
    """A buffer that waits for a message with a tag."""

    __slots__ = ("index", "mask", "segments", "tag")

    def __init__(self, tag: int, mask: int, segments: Sequence[Segment]) -> None:
        self.index = 0
        """What the driver calls it."""
        self.tag = tag
        self.mask = mask
        self.segments = segments

    @property
    def capacity(self) -> int:
        """Bytes that it has room for."""
        return sum([segment[0] & _LENGTH or _SEGMENT_2GIB for segment in self.segments])


class TagList:
    """The entries of one queue, and the two counts of unexpected messages."""

    ENTRY_BYTES: Final = 512
    """What an entry costs the host."""

    def __init__(self, log_size: int, *, has_rendezvous: bool = False) -> None:
        """``has_rendezvous``: the adapter carries out what it can of a rendezvous."""
        self.size = 1 << log_size
        self.has_rendezvous = has_rendezvous
        self.next_index = 0
        """The index of the entry that is added next (append_next_index)."""
        self.sw_phase = 0
        """Unexpected messages that the software has handled."""
        self.hw_phase = 0
        """Unexpected messages that have come."""
        self._open: dict[int, TagEntry] = {}
        self._closed: dict[int, TagEntry] = {}
        """Entries that were added while the counts differed; they come after the open ones."""
        self._matched: set[int] = set()
        """Indices of entries that a message has taken and not filled yet."""

    @property
    def host_bytes(self) -> int:
        return self.size * self.ENTRY_BYTES

    @property
    def is_synchronous(self) -> bool:
        """Whether the software has handled all unexpected messages."""
        return self.sw_phase == self.hw_phase

    def is_used(self, index: int) -> bool:
        """Whether an entry has this index, or a message is about to fill one that had it."""
        return index in self._open or index in self._closed or index in self._matched

    def synchronize(self, count: int) -> None:
        """The software has handled so many unexpected messages."""
        self.sw_phase = count & _COUNT_MASK
        self._open_up()

    def append(self, entry: TagEntry, following: int) -> None:
        """Add an entry under ``next_index``, which is not used; ``following`` comes after it."""
        entry.index, self.next_index = self.next_index, following
        entries = self._open if self.is_synchronous else self._closed
        entries[entry.index] = entry

    def remove(self, index: int) -> bool:
        """Remove an entry; False when there is none, or a message has taken it."""
        entries = self._open if index in self._open else self._closed
        return entries.pop(index, None) is not None

    def match(self, tag: int) -> TagEntry | None:
        """Take the first open entry that a tag matches; None when there is none."""
        for index, entry in self._open.items():
            if tag & entry.mask == entry.tag:
                del self._open[index]
                self._matched.add(index)
                return entry
        return None

    def release(self, entry: TagEntry) -> None:
        """The driver knows that the message which has taken an entry is over."""
        self._matched.discard(entry.index)

    def count_unexpected(self, by: int = 1) -> None:
        """An unexpected message has come, or with -1 one has failed and is not reported."""
        self.hw_phase = (self.hw_phase + by) & _COUNT_MASK
        self._open_up()

    def _open_up(self) -> None:
        if self._closed and self.is_synchronous:
            self._open.update(self._closed)
            self._closed.clear()

    @property
    def count(self) -> int:
        """How many entries wait for a message."""
        return len(self._open) + len(self._closed)


class Arrival:
    """What a queue has made of a message."""

    __slots__ = ("app_op", "entry", "header", "skipped")

    def __init__(
        self, app_op: TmAppOp, entry: TagEntry | None = None, header: bytes = b"", skipped: int = 0
    ) -> None:
        self.app_op = app_op
        """What its last completion tells; of a rendezvous, what its first one does."""
        self.entry = entry
        """The buffer that it has taken; None for a message that goes to the receive queue."""
        self.header = header
        """The headers of a message that has taken a buffer."""
        self.skipped = skipped
        """How many of its first bytes are not placed."""
