"""Memory keys: the context, its values at hand, and the translation entries."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Protocol

from emu.objects.domains import Pd
from emu.objects.ranges import Ranges
from emu.objects.table import Object
from emu.objects.users import Umem
from layouts.enums import AccessMode

ANY_QPN = 0xFFFFFF
"""The qpn of a key that any queue pair of its domain may use."""

OCTWORD = 16
"""What room for translations is counted in."""

MTT_READ, MTT_WRITE = 1, 2
"""Rights in the low bits of an MTT entry; neither means "not present"."""


_WITH_ALL_RIGHTS = bytes(low | MTT_READ | MTT_WRITE for low in range(256))
"""The lowest byte of an entry; there may be a million, so all of them are changed at once."""

_COPIES = {AccessMode.MTT: 2, AccessMode.KLMS: 3, AccessMode.KSM: 1}
"""How often the host holds a list: as given, and as what is derived from it at the first use."""

SIGNATURE_BYTES = 2048


def room_bytes(mode: int, octwords: int) -> int:
    """What the room for a key's translations costs the host: Python allots a sixteenth more."""
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
        "_entries", "_ranges", "ctx", "en_rinval", "end", "free", "log_page_size", "mode", "pd",
        "pg_access", "qp_serial", "qpn", "rights", "signature", "start", "umem", "umr_en",
        "variant", "views", "xlt", "xlt_room",
    )  # fmt: skip
    kind = "mkey"
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: Any,
        pd: Pd,
        xlt: bytearray,
        *,
        pg_access: bool = False,
        umem: Umem | None = None,
        entries: array[int] | None = None,
    ) -> None:
        """``entries`` are those of ``xlt`` as numbers, where the caller has them at hand."""
        super().__init__()
        self.umem = umem
        self.ctx = ctx
        self.pd = pd
        self.xlt = xlt
        """Translation entries as the driver gave them: 8 bytes (MTT) or 16 (KLM, KSM) each."""
        self.pg_access = pg_access
        """Whether the low bits of MTT entries are rights (bit 0 read, bit 1 write)."""
        self._entries = entries
        self._ranges: Ranges | None = None
        self.views: dict[tuple[int, int, int], tuple[int, Sequence[memoryview]]] = {}
        """Translated before: (va, length, rights) to the memory's generation and the bytes."""
        self.qp_serial = 0
        """Which of the queue pairs with the number ``qpn`` it is for; 0 is none."""
        self.signature: KeySignature | None = None
        """Block signatures, where a UMR has described some."""
        self.decode()
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
        """The room for translations counts as filled: a UMR may write the last entry first."""
        signature = SIGNATURE_BYTES if self.ctx.bsf_octword_size else 0
        return self.BASE_BYTES + signature + room_bytes(self.mode, self.octwords)

    @property
    def octwords(self) -> int:
        """The room for translations that the key was created with; no UMR changes it."""
        return int(self.ctx.translations_octword_size)

    def write_translations(self, at: int, xlt: bytes) -> None:
        """Replace entries from byte ``at`` on; what was derived from them follows.

        Entries that arrive by UMR carry their rights, whatever those of the create command did.
        """
        if self.mode is AccessMode.MTT and not self.pg_access:
            self.xlt[:] = self.entries_as_given()
            self.pg_access = True
            self._entries = None
        if at > len(self.xlt):
            self.xlt += bytes(at - len(self.xlt))
        self.xlt[at : at + len(xlt)] = xlt
        self._lay_out()
        self.views.clear()
        if self._entries is not None:
            self._entries.frombytes(bytes(max(at - 8 * len(self._entries), 0)))
            self._entries[at // 8 : (at + len(xlt)) // 8] = mtt_entries(xlt, pg_access=True)

    def entries_as_given(self) -> bytes:
        """The page entries in the driver's byte order, with the rights that they have here."""
        entries = self.entries[:]
        entries.byteswap()
        return entries.tobytes()

    @property
    def entries(self) -> array[int]:
        """The entries of an MTT key as numbers; without ``pg_access`` all rights are set."""
        if self._entries is None:
            self._entries = mtt_entries(self.xlt, pg_access=self.pg_access)
        return self._entries

    def _lay_out(self) -> None:
        is_long = self.mode is AccessMode.KLMS and len(self.xlt) > _LONG_LIST
        self._ranges = Ranges(self.xlt) if is_long else None

    @property
    def ranges(self) -> Ranges:
        """The list of a KLM key, laid out."""
        if self._ranges is None:
            self._ranges = Ranges(self.xlt)
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


def mtt_entries(xlt: bytes | bytearray, *, pg_access: bool) -> array[int]:
    """Page entries as numbers; without ``pg_access`` all of them allow everything."""
    if not pg_access:
        xlt = bytearray(xlt)
        xlt[7::8] = xlt[7::8].translate(_WITH_ALL_RIGHTS)
    entries = array("Q", bytes(xlt))
    entries.byteswap()
    return entries
