"""The translation entries of a memory key, held sparsely.

A key has space for far more entries than are ever written. Implicit on-demand paging creates a key
over the whole address space, filled with "absent" entries: 2^17, or 2^26 with five-level page
tables (hw/odp.c: mlx5_imr_ksm_entries). Lists are therefore held in chunks. Chunks that were never
written are not stored. A KSM chunk whose entries follow one rule is stored as that rule.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from layouts.rings.wqe import KLM

LOG_CHUNK: Final = 12
CHUNK = 1 << LOG_CHUNK
"""Number of entries in a chunk."""

MTT_BYTES: Final = 8
KSM_BYTES: Final = KLM.size
MTT_READ: Final = 1
MTT_WRITE: Final = 2
"""Rights in the low bits of an MTT entry; neither means "not present"."""

DENSE_BYTES: Final = CHUNK * KSM_BYTES * 17 // 16
"""Cost on the host of a KSM chunk with individually stored entries, in bytes."""
RULE_BYTES: Final = 512
"""Cost on the host of a chunk stored as a rule, in bytes."""

WITHOUT_RIGHTS: Final = bytes(low & ~(MTT_READ | MTT_WRITE) for low in range(256))
"""Maps the lowest byte of an entry; applied to all entries at once, perhaps millions."""
_WITH_ALL_RIGHTS: Final = bytes(low | MTT_READ | MTT_WRITE for low in range(256))
_SWAP: Final = sys.byteorder == "little"
_ABSENT: Final = array("Q", (0,))
_NOTHING: Final = array("Q")


def mtt_entries(xlt: bytes | bytearray, *, pg_access: bool = True) -> array[int]:
    """Return page entries, given in the driver's byte order, as numbers.

    Without ``pg_access`` the rights bits of each entry are set: reading and writing are allowed.
    """
    if not pg_access:
        xlt = bytearray(xlt)
        xlt[7::8] = xlt[7::8].translate(_WITH_ALL_RIGHTS)
    return _swapped(array("Q", bytes(xlt)))


def _swapped(numbers: array[int]) -> array[int]:
    """Convert in place between the driver's byte order and the host's; return the same array."""
    if _SWAP:
        numbers.byteswap()
    return numbers


def _by_chunk(index: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Split ``count`` entries from ``index`` on by chunk.

    Yield chunk number, slot, offset and size. The slot counts in the chunk, the offset from
    ``index``.
    """
    done = 0
    while done < count:
        slot = (index + done) & CHUNK - 1
        size = min(CHUNK - slot, count - done)
        yield (index + done) >> LOG_CHUNK, slot, done, size
        done += size


class PageEntries:
    """The list of an MTT key: page addresses with access rights in the low bits.

    An entry that was never written is absent, like an entry of zero. ``count`` covers the entries
    up to the last written one.
    """

    __slots__ = ("_first", "_more", "count")

    def __init__(self) -> None:
        self._first = _NOTHING
        """The first chunk; most keys have no other."""
        self._more: dict[int, array[int]] = {}
        self.count = 0

    def write(self, index: int, entries: array[int]) -> None:
        """Replace entries from ``index`` on, and extend ``count`` to cover them.

        Whole chunks of zeros are not stored.
        """
        count, slot = len(entries), index & CHUNK - 1
        if 0 < count <= CHUNK - slot:  # most lists, without a generator
            self._put(index >> LOG_CHUNK, slot, entries)
        else:
            for number, first, at, size in _by_chunk(index, count):
                self._put(number, first, entries[at : at + size])
        self.count = max(self.count, index + count)

    def _put(self, number: int, slot: int, part: array[int]) -> None:
        """Store entries of one chunk from ``slot`` on; a chunk of zeros only becomes absent."""
        chunk = self._chunk(number)
        is_whole = slot == 0 and len(part) >= len(chunk)
        if (is_whole or not chunk) and not any(part):
            self._set(number, _NOTHING)
            return
        if not chunk:
            self._set(number, chunk := array("Q"))
        if slot > len(chunk):
            chunk.frombytes(bytes(MTT_BYTES * (slot - len(chunk))))
        chunk[slot : slot + len(part)] = part

    def _chunk(self, number: int) -> array[int]:
        return self._more.get(number, _NOTHING) if number else self._first

    def _set(self, number: int, chunk: array[int]) -> None:
        """Replace a chunk; an empty one is removed."""
        if not number:
            self._first = chunk
        elif chunk is _NOTHING:
            self._more.pop(number, None)
        else:
            self._more[number] = chunk

    def part(self, index: int, limit: int) -> array[int]:
        """Return 1 to ``limit`` entries from ``index`` on; a caller continues for the rest.

        The result ends at a chunk's stored end; an absent entry is returned as one 0. Raises
        IndexError for an index beyond the last written entry.
        """
        if index >= self.count:
            raise IndexError("list ends before the range")
        slot = index & CHUNK - 1
        chunk = self._first if index < CHUNK else self._chunk(index >> LOG_CHUNK)
        return chunk[slot : slot + limit] or _ABSENT

    def one(self, index: int) -> int:
        """Return the entry at ``index``, 0 for an absent one. Raises IndexError beyond the end."""
        if index >= self.count:
            raise IndexError("list ends before the range")
        slot = index & CHUNK - 1
        chunk = self._first if index < CHUNK else self._chunk(index >> LOG_CHUNK)
        return chunk[slot] if slot < len(chunk) else 0

    def read(self, index: int, count: int) -> array[int]:
        """Return at most ``count`` entries from ``index`` on, absent ones as 0.

        The result is shorter, perhaps empty, at the end of the list.
        """
        entries = array("Q")
        for number, slot, _, size in _by_chunk(index, max(min(count, self.count - index), 0)):
            part = self._chunk(number)[slot : slot + size]
            entries += part
            entries.frombytes(bytes(MTT_BYTES * (size - len(part))))
        return entries

    def to_bytes(self, limit: int) -> bytes:
        """Return the list in the driver's byte order, at most ``limit`` bytes."""
        return _swapped(self.read(0, -(-limit // MTT_BYTES))).tobytes()[:limit]


class _EntryRule(NamedTuple):
    """Entries of a chunk whose addresses differ by a constant and that are otherwise equal."""

    word: int
    """The word with a KLM entry's byte count; KSM entries do not use it."""
    key: int
    va: int
    stride: int

    def entry(self, slot: int) -> tuple[int, int, int]:
        return self.word, self.key, self.va + slot * self.stride

    def to_bytes(self) -> bytearray:
        """Return the whole chunk of entries in the driver's format."""
        if not self.stride:
            return bytearray(KLM.pack(self.word, self.key, self.va) * CHUNK)
        return bytearray(b"".join(KLM.pack(*self.entry(slot)) for slot in range(CHUNK)))


def _rule_of(chunk: bytes | bytearray) -> _EntryRule | None:
    """Return the rule that a chunk of CHUNK entries follows; None if the entries are irregular."""
    (word, key, va), (_, _, following) = KLM.unpack_from(chunk), KLM.unpack_from(chunk, KLM.size)
    rule = _EntryRule(word, key, va, following - va)
    if bytes(chunk[-KLM.size :]) != _packed(rule, CHUNK - 1):
        return None
    if not rule.stride:
        return rule if chunk == chunk[: KLM.size] * CHUNK else None
    words = _swapped(array("Q", bytes(chunk)))
    is_regular = words[0::2] == array("Q", words[:1]) * CHUNK and words[1::2] == array(
        "Q", range(va, va + rule.stride * CHUNK, rule.stride)
    )
    return rule if is_regular else None


def _packed(rule: _EntryRule, slot: int) -> bytes | None:
    """Return the rule's entry for a slot; None if its address is out of range."""
    word, key, va = rule.entry(slot)
    return KLM.pack(word, key, va) if 0 <= va < 1 << 64 else None


class KeyEntries:
    """The list of a KSM key: other keys and addresses, all for ranges of one length.

    An entry that was never written refers to key 0, which does not exist.
    """

    __slots__ = ("_dense", "_more", "count", "first", "near")

    def __init__(self) -> None:
        self.first = bytearray()
        """The first chunk while its ``near`` entries are stored individually."""
        self.near = 0
        self._more: dict[int, bytearray | _EntryRule] = {}
        """The other chunks, and the first one when stored as a rule."""
        self._dense = 0
        self.count = 0

    def write(self, index: int, xlt: bytes | bytearray) -> None:
        """Replace entries, in the driver's format, from ``index`` on.

        Extend ``count`` to cover them. A whole chunk of regular entries is stored as a rule.
        """
        count = len(xlt) // KSM_BYTES
        for number, slot, at, size in _by_chunk(index, count):
            self._put(number, slot, xlt[at * KSM_BYTES : (at + size) * KSM_BYTES])
        self.count = max(self.count, index + count)

    def _put(self, number: int, slot: int, part: bytes | bytearray) -> None:
        """Store entries of one chunk from ``slot`` on, as a rule if the whole chunk is regular."""
        if len(part) == CHUNK * KSM_BYTES:
            chunk = bytearray()
        else:
            held = self._more.get(number) if number or number in self._more else self.first
            chunk = held.to_bytes() if isinstance(held, _EntryRule) else held or bytearray()
        at = slot * KSM_BYTES
        chunk += bytes(max(at - len(chunk), 0))
        chunk[at : at + len(part)] = part
        ends = slot + len(part) // KSM_BYTES == CHUNK
        self._set(number, (_rule_of(chunk) if ends else None) or chunk)

    def _set(self, number: int, chunk: bytearray | _EntryRule) -> None:
        """Replace a chunk by bytes or by a rule, and count the chunks that are stored as bytes."""
        before = self._more.pop(number, None)
        self._dense -= type(before) is bytearray
        is_near = not number and type(chunk) is bytearray
        if not number:
            self.first = chunk if isinstance(chunk, bytearray) else bytearray()
            self.near = len(self.first) // KSM_BYTES
        if not is_near:
            self._more[number] = chunk
            self._dense += type(chunk) is bytearray

    def entry(self, index: int) -> tuple[int, int, int]:
        """Return count, key and address of an entry; zeros for an entry that was never written.

        Raises IndexError beyond the last written entry.
        """
        if index >= self.count:
            raise IndexError("list ends before the range")
        chunk = self._more.get(index >> LOG_CHUNK)
        if chunk is None:
            chunk = bytearray() if index >= CHUNK else self.first
        slot = index & CHUNK - 1
        if isinstance(chunk, _EntryRule):
            return chunk.entry(slot)
        if (slot + 1) * KSM_BYTES > len(chunk):
            return 0, 0, 0
        word, key, va = KLM.unpack_from(chunk, slot * KSM_BYTES)
        return word, key, va

    def given(self) -> Iterator[tuple[int, int, int]]:
        """Yield count, key and address of the entries of all stored chunks, in order.

        For a rule only the first entry is yielded; chunks without entries are left out.
        """
        chunks = [self.first, *(chunk for _, chunk in sorted(self._more.items()))]
        for chunk in chunks:
            if isinstance(chunk, _EntryRule):
                yield chunk.entry(0)
            else:
                yield from KLM.iter_unpack(chunk)

    def to_bytes(self, limit: int) -> bytes:
        """Return the list, at most ``limit`` bytes."""
        count = min(self.count, -(-limit // KSM_BYTES))
        return b"".join(KLM.pack(*self.entry(index)) for index in range(count))[:limit]

    @property
    def host_bytes(self) -> int:
        """Cost of the chunks in bytes; the first one always counts as individual entries."""
        return DENSE_BYTES * (1 + self._dense) + RULE_BYTES * (len(self._more) - self._dense)
