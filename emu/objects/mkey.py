"""Memory keys: the context, its values at hand, and the translation entries."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from emu.objects.domains import Pd
from emu.objects.ranges import Ranges
from emu.objects.table import Object
from emu.objects.translations import (
    DENSE_BYTES,
    KSM_BYTES,
    MTT_BYTES,
    WITHOUT_RIGHTS,
    KeyEntries,
    PageEntries,
    mtt_entries,
)
from emu.objects.users import Umem
from layouts.enums import AccessMode
from layouts.wqe import KLM

ANY_QPN = 0xFFFFFF
"""The qpn of a key that any queue pair of its domain may use."""

OCTWORD = 16
"""What room for translations is counted in."""

_COPIES = {AccessMode.MTT: 1, AccessMode.KLMS: 3, AccessMode.KSM: 1}
"""How often the host holds a list: a list of ranges is laid out as well."""

MOST_RESERVED = 1 << 17
"""Octwords of a KSM key up to which the ledger is asked for all of its room at once.

As many as implicit on-demand paging with four-level page tables has. Of a larger key chunks are
paid for as they are written: it has hardly any that do not say "absent" throughout.
"""

SIGNATURE_BYTES = 2048


def room_bytes(mode: int, octwords: int) -> int:
    """What the room for a key's translations costs the host, whether or not it is ever filled.

    Python allots a sixteenth more.
    """
    if mode == AccessMode.KSM and octwords > MOST_RESERVED:
        return DENSE_BYTES
    return _COPIES.get(AccessMode(mode), 1) * octwords * (OCTWORD + OCTWORD // 16)


class KeySignature(Protocol):
    """Block signatures of a key's data, as whoever translates the key sees them.

    ``emu.engine.mr.signature`` implements it.
    """

    def wire_length(self, length: int) -> int:
        """Bytes on the wire for ``length`` bytes of the memory domain."""

    @property
    def is_on_wire(self) -> bool:
        """Whether the wire's domain has signatures, so that lengths differ there."""

    def rearm(self) -> None:
        """Report the next error, even if one has been reported."""

    def views(
        self, hca: Any, mkey: Mkey, qpn: int, va: int, length: int, need: int, depth: int
    ) -> Sequence[memoryview]:
        """``length`` bytes of the wire's stream, for the access that ``need`` names."""


_LONG_LIST = 1024
"""Bytes of a list of keys that is not laid out by whoever uses it first, but when it is written.

An access may go through as many keys as a request has segments.
"""


class Mkey(Object):
    """A memory key. The handle is the mkey index; the key is the index and the variant byte.

    ``ctx`` is the context; the other attributes are what every access needs of it, taken over by
    ``decode`` after each change.
    """

    __slots__ = (
        "_ranges", "_xlt", "blocks", "ctx", "en_rinval", "end", "free", "log_page_size", "mode",
        "pages", "pd", "pg_access", "qp_serial", "qpn", "rights", "signature", "start", "umem",
        "umr_en", "variant", "views", "xlt_room",
    )  # fmt: skip
    kind = "mkey"
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: Any,
        pd: Pd,
        xlt: bytes,
        *,
        pg_access: bool = False,
        umem: Umem | None = None,
        pages: PageEntries | None = None,
    ) -> None:
        """``xlt`` are translation entries as the driver gives them: 8 bytes (MTT) or 16 each.

        Or they are in ``pages`` already.
        """
        super().__init__()
        self.umem = umem
        self.ctx = ctx
        self.pd = pd
        self.pg_access = pg_access
        """Whether rights came in the low bits of MTT entries (bit 0 read, bit 1 write)."""
        self._xlt = bytearray()
        """The list of a KLM key."""
        self._ranges: Ranges | None = None
        self.views: dict[tuple[int, int, int], tuple[int, Sequence[memoryview]]] = {}
        """Translated before: (va, length, rights) to the memory's generation and the bytes."""
        self.qp_serial = 0
        """Which of the queue pairs with the number ``qpn`` it is for; 0 is none."""
        self.signature: KeySignature | None = None
        """Block signatures, where a UMR has described some."""
        self.decode()
        self._take_over(xlt, pages)

    def _take_over(self, xlt: bytes, pages: PageEntries | None) -> None:
        """The list that the key begins with."""
        if self.mode is AccessMode.MTT:
            self.pages = pages or PageEntries()
            self.pages.write(self.pages.count, mtt_entries(xlt, pg_access=self.pg_access))
        elif self.mode is AccessMode.KSM:
            self.blocks = KeyEntries()
            self.blocks.write(0, xlt)
        else:
            self._xlt += xlt
            self._lay_out()

    def decode(self) -> None:
        """The context has changed: take its values over and forget what was derived from it."""
        ctx = self.ctx
        self.free = bool(ctx.free)
        self.variant = int(ctx.mkey_7_0)
        self.mode = AccessMode(ctx.access_mode_4_2 << 2 | ctx.access_mode_1_0)
        self.rights = ctx.lr | ctx.lw << 1 | ctx.rr << 2 | ctx.rw << 3 | ctx.a << 4
        self.qpn = int(ctx.qpn)
        self.en_rinval = bool(ctx.en_rinval)
        self.log_page_size = int(ctx.log_page_size)
        self.start = int(ctx.start_addr)
        length = ctx.len if self.signature is None else self.signature.wire_length(ctx.len)
        self.end = 1 << 64 if ctx.length64 else self.start + length
        self.umr_en = bool(ctx.umr_en)
        self.xlt_room = self.octwords * OCTWORD
        self.views.clear()

    @property
    def host_bytes(self) -> int:
        """The room for translations counts as filled, unless the list is held sparsely."""
        signature = SIGNATURE_BYTES if self.ctx.bsf_octword_size else 0
        room = room_bytes(self.mode, self.octwords)
        return self.BASE_BYTES + signature + (self.blocks.host_bytes if self.is_sparse else room)

    @property
    def is_sparse(self) -> bool:
        """Whether what is written has to be paid for, the room having been too large for that."""
        return self.mode is AccessMode.KSM and self.octwords > MOST_RESERVED

    @property
    def octwords(self) -> int:
        """The room for translations that the key was created with; no UMR changes it."""
        return int(self.ctx.translations_octword_size)

    def write_translations(self, at: int, xlt: bytes) -> int:
        """Replace entries from byte ``at`` on; how many bytes that was work on.

        Entries that arrive by UMR carry their rights, whatever those of the create command did.
        """
        self.views.clear()
        if self.mode is AccessMode.MTT:
            self.pg_access = True
            self.pages.write(at // MTT_BYTES, mtt_entries(xlt))
            return len(xlt)
        if self.mode is AccessMode.KSM:
            self.blocks.write(at // KSM_BYTES, xlt)
            return len(xlt)
        self._xlt += bytes(max(at - len(self._xlt), 0))
        self._xlt[at : at + len(xlt)] = xlt
        self._lay_out()
        return len(self._xlt)

    def translations(self, most: int) -> bytes:
        """The entries as the driver gave them, ``most`` bytes of them at most."""
        if self.mode is AccessMode.KSM:
            return self.blocks.to_bytes(most)
        if self.mode is not AccessMode.MTT:
            return bytes(self._xlt[:most])
        xlt = bytearray(self.pages.to_bytes(most))
        if not self.pg_access:
            xlt[7::8] = xlt[7::8].translate(WITHOUT_RIGHTS)
        return bytes(xlt)

    @property
    def xlt(self) -> bytes:
        """All of them."""
        return self.translations(self.xlt_room)

    @property
    def entries(self) -> array[int]:
        """The entries of an MTT key as numbers; without ``pg_access`` all rights are set."""
        return self.pages.read(0, self.pages.count)

    def below(self) -> Iterator[tuple[int, int, int]]:
        """Byte count, key and address of the entries of a list of keys, as far as they differ."""
        if self.mode is AccessMode.KSM:
            return self.blocks.given()
        return KLM.iter_unpack(bytes(self._xlt[: len(self._xlt) // KLM.size * KLM.size]))

    def _lay_out(self) -> None:
        is_long = self.mode is AccessMode.KLMS and len(self._xlt) > _LONG_LIST
        self._ranges = Ranges(self._xlt) if is_long else None

    @property
    def ranges(self) -> Ranges:
        """The list of a KLM key, laid out."""
        if self._ranges is None:
            self._ranges = Ranges(self._xlt)
        return self._ranges

    @property
    def key(self) -> int:
        """The 32-bit lkey and rkey."""
        return self.handle << 8 | self.variant

    def invalidate(self) -> None:
        """The key is free from now on: no access until it is registered again."""
        self.ctx.free = 1
        self.decode()

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,) if self.umem is None else (self.pd, self.umem)
