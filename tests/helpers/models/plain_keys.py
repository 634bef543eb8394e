"""Memory keys as a plain model has them: for each byte, where it is.

Nothing here is clever: a key is a list of places, one for each of its bytes from its start on, made
as the PRM describes its kind. A place is an address in guest memory, or None where nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.driver.command.words import pack64
from emu.driver.keys.umr import ANY_QPN, OFFSET, umr
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.rings.wqe import KLM, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

PAGE = 4096
READ, WRITE, BOTH = 1, 2, 3
RIGHTS = {"lr": 1, "lw": 1, "rr": 1, "rw": 1, "qpn": ANY_QPN}


@dataclass
class PlainKey:
    """A key of the device, and its bytes: places that may be read, and that may be written."""

    key: int
    start: int
    readable: list
    writable: list = field(default=None)

    def __post_init__(self):
        if self.writable is None:
            self.writable = self.readable

    def places(self, va, length, *, write=False):
        """The places of a range; None when one is missing."""
        at = va - self.start
        every = self.writable if write else self.readable
        if at < 0 or at + length > len(every):
            return None
        found = every[at : at + length]
        return None if None in found else found


def _create(node, mode, xlt, start, length, **context):
    octwords = -(-len(xlt) // 16)
    answer = node.driver.must(
        Op.CREATE_MKEY,
        memory_key_mkey_entry={
            "pd": node.pdn, "access_mode_1_0": mode, "start_addr": start, "len": length,
            "translations_octword_size": max(octwords, context.pop("room", 0)),
        } | RIGHTS | context,
        translations_octword_actual_size=octwords,
        extra=xlt.ljust(16 * octwords, b"\0"),
        pg_access=int(mode == AccessMode.MTT),
    )  # fmt: skip
    return answer.mkey_index << 8


def paged(node, start, length, rights, log_page_size=12, **context):
    """Pages of guest memory; ``rights`` say by page whether it is there, for reading or writing."""
    size = 1 << log_page_size
    pages = [node.memory.alloc(size, size) if right else 0 for right in rights]
    entries = [page | right if right else 0 for page, right in zip(pages, rights, strict=True)]
    key = _create(
        node, AccessMode.MTT, pack64(entries), start, length, log_page_size=log_page_size, **context
    )
    first = start // size

    def place(va, need):
        number = va // size - first
        is_there = number < len(rights) and rights[number] & need
        return pages[number] + va % size if is_there else None

    spots = range(start, start + length)
    return PlainKey(
        key, start, [place(va, READ) for va in spots], [place(va, WRITE) for va in spots]
    )


def _joined(parts):
    """The places of (key, va, length), one after the other; None for a byte that is not there."""
    readable, writable = [], []
    for below, va, length in parts:
        if below is None:
            readable += [None] * length
            writable += [None] * length
            continue
        spots = range(va - below.start, va - below.start + length)
        readable += [below.readable[at] if 0 <= at < len(below.readable) else None for at in spots]
        writable += [below.writable[at] if 0 <= at < len(below.writable) else None for at in spots]
    return readable, writable


def listed(node, start, parts):
    """KLM: ranges of any length. A part is a range, or (repeat, ranges with the bytes to skip)."""
    rows, flat = [], []
    for part in parts:
        if len(part) == 3:
            below, va, length = part
            rows.append(KLM.pack(length, below.key, va))
            flat.append(part)
            continue
        repeat, cycle = part
        rows.append(REPEAT.pack(sum(row[2] for row in cycle), REPEAT_BLOCK, repeat, len(cycle)))
        for below, va, length, skip in cycle:
            rows.append(REPEAT_ENTRY.pack(length + skip, length, below.key, va))
        for turn in range(repeat):
            for below, va, length, skip in cycle:
                flat.append((below, va + turn * (length + skip), length))
    places = _joined(flat)
    key = _create(node, AccessMode.KLMS, b"".join(rows), start, len(places[0]))
    return PlainKey(key, start, *places)


def blocks(node, start, log_size, parts, length):
    """KSM: ranges of one length, the first of which begins at the start.

    A part is (key, va). Without a key it is (None, number): one that does not exist, or the null
    key, as in a key for on-demand paging.
    """
    xlt = b"".join(
        KLM.pack(0, below.key if below else va, 0 if below is None else va) for below, va in parts
    )
    readable, writable = _joined([(below, va, 1 << log_size) for below, va in parts])
    short = [None] * max(length - len(readable), 0)
    key = _create(node, AccessMode.KSM, xlt, start, length, log_page_size=log_size)
    return PlainKey(key, start, (readable + short)[:length], (writable + short)[:length])


@dataclass
class ImplicitKey(PlainKey):
    """A key for on-demand paging: what is missing inside it is an absent page."""

    def absent(self, va, length, *, write=False):
        """Where a range that lies inside the key waits: from its first absent byte to its end."""
        every = self.writable if write else self.readable
        end = va + length
        first = next(at for at in range(va, end) if every[at - self.start] is None)
        return first, end - first


def implicit(node, start, log_size, children, null):
    """As the driver makes one: each entry is a child of its own, or ``null`` until there is one.

    ``children`` are the keys or None; ``null`` is the pair (key, va) of an entry without a child.
    """
    size = 1 << log_size
    entries = [(child.key, child.start) if child else null for child in children]
    xlt = b"".join(KLM.pack(0, *entry) for entry in entries)
    places = _joined([(child, child.start if child else 0, size) for child in children])
    key = _create(node, AccessMode.KSM, xlt, start, size * len(children), log_page_size=log_size)
    return ImplicitKey(key, start, *places)


def update(qp, key, offset, xlt):
    """A UMR that writes entries from octword ``offset`` on."""
    umr(qp, key, flags=OFFSET, mask=0, xlt=xlt, offset=offset)
