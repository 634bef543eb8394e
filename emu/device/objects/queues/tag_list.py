"""The tag list of a shared receive queue, which matches messages to buffers.

A message takes the first entry, in the order of addition, that its tag matches. A message without a
match is unexpected: the driver's software searches its buffer, perhaps among entries added in the
meantime. Both sides therefore count unexpected messages. An entry is open only when software has
handled as many as have arrived; until then no message may overtake an unexpected one. Both counts
are modulo 65536.

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
    """A buffer for a message with a matching tag."""

    __slots__ = ("index", "mask", "segments", "tag")

    def __init__(self, tag: int, mask: int, segments: Sequence[Segment]) -> None:
        self.index = 0
        """The driver's index of the entry."""
        self.tag = tag
        self.mask = mask
        self.segments = segments

    @property
    def capacity(self) -> int:
        """Capacity in bytes."""
        return sum([segment[0] & _LENGTH or _SEGMENT_2GIB for segment in self.segments])


class TagList:
    """The entries of one queue, and the two counts of unexpected messages."""

    ENTRY_BYTES: Final = 512
    """Cost of an entry on the host, in bytes."""

    def __init__(self, log_size: int, *, has_rendezvous: bool = False) -> None:
        """Create an empty list; ``has_rendezvous``: the adapter offloads rendezvous."""
        self.size = 1 << log_size
        self.has_rendezvous = has_rendezvous
        self.next_index = 0
        """The index of the next added entry (append_next_index)."""
        self.sw_phase = 0
        """Number of unexpected messages that software has handled."""
        self.hw_phase = 0
        """Number of unexpected messages that have arrived."""
        self._open: dict[int, TagEntry] = {}
        self._closed: dict[int, TagEntry] = {}
        """Entries added while the counts differed; they follow the open ones."""
        self._matched: set[int] = set()
        """Indices of entries that a message has taken and not filled yet."""

    @property
    def host_bytes(self) -> int:
        return self.size * self.ENTRY_BYTES

    @property
    def is_synchronous(self) -> bool:
        """Whether software has handled all unexpected messages."""
        return self.sw_phase == self.hw_phase

    def is_used(self, index: int) -> bool:
        """Return whether an entry, or a message that took one before ``release``, has the index."""
        return index in self._open or index in self._closed or index in self._matched

    def synchronize(self, count: int) -> None:
        """Set the number of unexpected messages that software has handled, modulo 65536.

        Entries that were added in the meantime can be matched once both counts agree.
        """
        self.sw_phase = count & _COUNT_MASK
        self._open_up()

    def append(self, entry: TagEntry, following: int) -> None:
        """Add an entry under the free ``next_index``; ``following`` is the index after it.

        The entry is matched only once software has handled all unexpected messages.
        """
        entry.index, self.next_index = self.next_index, following
        entries = self._open if self.is_synchronous else self._closed
        entries[entry.index] = entry

    def remove(self, index: int) -> bool:
        """Remove an entry; return False if there is none or a message has taken it."""
        entries = self._open if index in self._open else self._closed
        return entries.pop(index, None) is not None

    def match(self, tag: int) -> TagEntry | None:
        """Remove and return the first open entry that a tag matches.

        None if the message is unexpected. The entry's index stays in use until ``release``. An
        unexpected message is not counted here.
        """
        for index, entry in self._open.items():
            if tag & entry.mask == entry.tag:
                del self._open[index]
                self._matched.add(index)
                return entry
        return None

    def release(self, entry: TagEntry) -> None:
        """Release the index of a taken entry whose outcome the driver knows."""
        self._matched.discard(entry.index)

    def count_unexpected(self, by: int = 1) -> None:
        """Count an unexpected message in ``hw_phase``.

        -1 uncounts a failed one that is not reported.
        """
        self.hw_phase = (self.hw_phase + by) & _COUNT_MASK
        self._open_up()

    def _open_up(self) -> None:
        """Make closed entries matchable if both counts of unexpected messages agree."""
        if self._closed and self.is_synchronous:
            self._open.update(self._closed)
            self._closed.clear()

    @property
    def count(self) -> int:
        """Number of entries that wait for a message."""
        return len(self._open) + len(self._closed)


class TagMatch:
    """The match result for a message."""

    __slots__ = ("app_op", "entry", "header", "skipped")

    def __init__(
        self, app_op: TmAppOp, entry: TagEntry | None = None, header: bytes = b"", skipped: int = 0
    ) -> None:
        self.app_op = app_op
        """app_op of the last completion; of a rendezvous, of the first one."""
        self.entry = entry
        """The matched buffer; None for a message to the receive queue."""
        self.header = header
        """The headers of a matched message."""
        self.skipped = skipped
        """Number of leading bytes that are not placed."""
