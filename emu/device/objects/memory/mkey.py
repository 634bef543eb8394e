"""Memory keys: the context, the values needed on every access, and the translation entries."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Protocol

from emu.device.objects.domains import Pd
from emu.device.objects.memory.key_context import ANY_QPN, KeyContext
from emu.device.objects.memory.memic import Memic
from emu.device.objects.memory.ranges import Ranges
from emu.device.objects.memory.sw_icm import SwIcm
from emu.device.objects.memory.translations import (
    DENSE_BYTES,
    KSM_BYTES,
    MTT_BYTES,
    WITHOUT_RIGHTS,
    KeyEntries,
    PageEntries,
    mtt_entries,
)
from emu.device.objects.memory.umem import Umem
from emu.device.objects.memory.views import Span, Views
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from layouts.enums.mkey import AccessMode
from layouts.memory.mkey import mkc
from layouts.rings.wqe import KLM

OCTWORD: Final = 16
"""Unit of the translation space, in bytes."""

FIRST_MKEY_INDEX: Final = 0x100
"""Lower indices are the device's own keys (``emu.device.engine.mr.special_keys``).

Index 1 must stay unused, because key 0x100 is the end mark of a scatter list.
"""

_COPIES: Final[dict[int, int]] = {AccessMode.MTT: 1, AccessMode.KLMS: 3, AccessMode.KSM: 1}
"""Number of copies of a list on the host: a list of ranges is also kept laid out."""

MAX_RESERVED: Final = 1 << 17
"""Largest KSM key, in octwords, whose full translation space is charged at creation.

Implicit on-demand paging with four-level page tables uses this size. A larger key is charged chunk
by chunk on write: nearly all of its chunks contain only "absent" entries.
"""

SIGNATURE_BYTES: Final = 2048
_MTT: Final = AccessMode.MTT
_KSM: Final = AccessMode.KSM
_KLMS: Final = AccessMode.KLMS
_ZERO_BASED: Final = frozenset({AccessMode.MEMIC, AccessMode.SW_ICM})


def translation_bytes(mode: int, octwords: int) -> int:
    """Return the cost on the host of a key's full translation space, in bytes.

    The result includes the sixteenth that Python over-allocates. A KSM key above MAX_RESERVED
    octwords costs only its first chunk: further chunks are charged on write.
    """
    if mode == _KSM and octwords > MAX_RESERVED:
        return DENSE_BYTES
    return _COPIES.get(mode, 1) * octwords * (OCTWORD + OCTWORD // 16)


_NAMES: Final = ("lr", "lw", "rr", "rw", "a")
"""Names of the rights, from bit 0 on."""
_MODES: Final[dict[int, AccessMode]] = {mode.value: mode for mode in AccessMode}


_NO_PD: Final = Pd()
"""A protection domain of no queue."""


class KeySignature(Protocol):
    """Block signatures of a key's data, as the translation code uses them.

    ``emu.device.engine.mr.signature`` implements the protocol.
    """

    def wire_length(self, length: int) -> int:
        """Return the bytes on the wire for ``length`` bytes of the memory domain."""

    @property
    def encrypts(self) -> bool:
        """Whether the key's data are encrypted in memory or on the wire."""

    @property
    def is_on_wire(self) -> bool:
        """Whether the wire domain has signatures that segments do not count."""

    def rearm(self) -> None:
        """Enable the report of the next error, after one has been reported."""

    def views(
        self, hca: Any, mkey: Mkey, qpn: int, span: Span, depth: int, limit: int | None = None
    ) -> Views:
        """Return views of a span in the wire domain, which apply signatures at each access.

        ``limit`` bounds the steps (``emu.device.engine.mr.access``).
        """


_LONG_LIST: Final = 1024
"""Bytes from which a list of keys is laid out on write instead of on first use.

A single access may use one key for each segment of a WQE.
"""


class Mkey(Object):
    """A memory key. The handle is the mkey index; the key is the index and the variant byte.

    ``ctx`` is the context. The other attributes are values that every access needs; ``decode``
    updates them after each change.
    """

    __slots__ = (
        "_ranges", "_xlt", "blocks", "bsf_octwords", "crypto_en", "ctx", "en_rinval", "end",
        "free", "icm", "is_sparse", "length", "log_page_size", "memic", "mode", "open_to",
        "page_views", "pages", "pd", "pg_access", "qp_serial", "qpn", "rights", "scattered",
        "signature", "start", "start_addr", "umem", "umr_en", "variant", "views",
        "xlt_capacity",
    )  # fmt: skip
    kind = "mkey"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_mkey, first=FIRST_MKEY_INDEX)
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: mkc,
        pd: Pd,
        xlt: bytes,
        *,
        pg_access: bool = False,
        umem: Umem | None = None,
        pages: PageEntries | None = None,
        memic: Memic | None = None,
        icm: SwIcm | None = None,
        decoded: KeyContext | None = None,
    ) -> None:
        """Create a key; ``xlt`` holds entries in the driver's format: 8 bytes each (MTT) or 16.

        Alternatively, ``pages`` holds the entries. ``decoded`` are the fields of ``ctx``, if the
        caller has them.
        """
        super().__init__()
        self.umem = umem
        self.memic = memic
        """The device memory that a MEMIC key covers."""
        self.icm = icm
        """The software ICM that an SW_ICM key covers."""
        self.ctx = ctx
        self.pd = pd
        self.pg_access = pg_access
        """Whether MTT entries carry rights in their low bits (bit 0 read, bit 1 write)."""
        self._xlt = bytearray()
        """The list of a KLM key."""
        self._ranges: Ranges | None = None
        self.views: dict[Span, Views] = {}
        """Cached translations."""
        self.page_views: dict[int, memoryview] = {}
        self.scattered: dict[int, list[memoryview]] = {}
        """Cached views of whole pages, single and in lists (``emu.device.engine.mr.cache``)."""
        self.qp_serial = 0
        """Serial of the only queue pair numbered ``qpn`` that may use the key; 0 is none."""
        self.signature: KeySignature | None = None
        """Block signatures, if a UMR has set them up."""
        self.decode(decoded)
        self._take_over(xlt, pages)

    def _take_over(self, xlt: bytes, pages: PageEntries | None) -> None:
        """Store the translations that the key is created with, by the format of its access mode."""
        if self.mode is _MTT:
            self.pages = pages or PageEntries()
            self.pages.write(self.pages.count, mtt_entries(xlt, pg_access=self.pg_access))
        elif self.mode is _KSM:
            self.blocks = KeyEntries()
            self.blocks.write(0, xlt)
        elif xlt:
            self._xlt += xlt
            self._lay_out()

    def decode(self, decoded: KeyContext | None = None) -> None:
        """Read the values from a changed context, and drop the cached views of the old one.

        ``rights`` is 0 for a crypto key without an encrypting signature. MEMIC and SW_ICM keys
        start at address 0. ``decoded`` are the fields of the context, if the caller has them.
        """
        ctx = decoded or KeyContext(self.ctx.buf, self.ctx.base)
        self.free, self.variant, self.umr_en = ctx.free, ctx.variant, ctx.umr_en
        self.mode = _MODES[ctx.mode]
        self.rights = ctx.rights
        if ctx.crypto_en and (self.signature is None or not self.signature.encrypts):
            self.rights = 0  # a key for encryption exposes no plaintext
        qpn = ctx.qpn
        self.qpn = ANY_QPN if qpn == ANY_QPN else qpn  # one object for nearly all keys
        self.open_to = self.pd if self.qpn == ANY_QPN and not self.free else _NO_PD
        """The PD all of whose queues may use the key; one of nobody for a free or a bound key."""
        self.en_rinval, self.log_page_size = ctx.en_rinval, ctx.log_page_size
        # Addresses in the adapter's memory count from the start of the key, which is zero-based.
        self.start = 0 if self.mode in _ZERO_BASED else ctx.start
        self.start_addr, self.length = ctx.start, ctx.length
        """The range in the context, without signatures."""
        length = ctx.length
        if self.signature is not None:
            length = self.signature.wire_length(length)
        self.end: int = 1 << 64 if ctx.length64 else self.start + length
        self.xlt_capacity = ctx.octwords * OCTWORD
        self.is_sparse = self.mode is _KSM and ctx.octwords > MAX_RESERVED
        """Whether chunks are charged on write, as the full space was too large to charge."""
        self.bsf_octwords = ctx.bsf_octwords
        """Space for block signatures and encryption, in octwords."""
        self.crypto_en = ctx.crypto_en
        self.forget_views()

    def forget_views(self) -> None:
        """Drop the cached views of guest memory; the next access translates again."""
        self.views.clear()
        self.page_views.clear()
        self.scattered.clear()

    @property
    def host_bytes(self) -> int:
        """Cost in bytes, with the full translation space whether it is filled or not.

        A sparse key (``is_sparse``) counts only its stored chunks.
        """
        signature = SIGNATURE_BYTES if self.bsf_octwords else 0
        if self.is_sparse:
            return self.BASE_BYTES + signature + self.blocks.host_bytes
        return self.BASE_BYTES + signature + translation_bytes(self.mode, self.octwords)

    @property
    def octwords(self) -> int:
        """Translation space of the key at creation, in octwords; a UMR does not change it."""
        return self.xlt_capacity // OCTWORD

    def write_translations(self, at: int, xlt: bytes) -> int:
        """Replace entries from byte ``at`` on, and drop the cached views; return the cost in bytes.

        The cost is the length of ``xlt``, or of the whole list for a KLM key, which is laid out
        again. Entries written by a UMR carry access rights, even if those of the create command did
        not. The caller has checked that the entries fit.
        """
        self.forget_views()
        if self.mode is _MTT:
            self.pg_access = True
            self.pages.write(at // MTT_BYTES, mtt_entries(xlt))
            return len(xlt)
        if self.mode is _KSM:
            self.blocks.write(at // KSM_BYTES, xlt)
            return len(xlt)
        self._xlt += bytes(max(at - len(self._xlt), 0))
        self._xlt[at : at + len(xlt)] = xlt
        self._lay_out()
        return len(self._xlt)

    def translations(self, limit: int) -> bytes:
        """Return the entries in the driver's format, at most ``limit`` bytes.

        Rights bits are cleared for an MTT key without ``pg_access``.
        """
        if self.mode is _KSM:
            return self.blocks.to_bytes(limit)
        if self.mode is not _MTT:
            return bytes(self._xlt[:limit])
        xlt = bytearray(self.pages.to_bytes(limit))
        if not self.pg_access:
            xlt[7::8] = xlt[7::8].translate(WITHOUT_RIGHTS)
        return bytes(xlt)

    @property
    def xlt(self) -> bytes:
        """All entries, in the driver's format."""
        return self.translations(self.xlt_capacity)

    @property
    def entries(self) -> array[int]:
        """The entries of an MTT key as numbers; without ``pg_access`` all rights are set."""
        return self.pages.read(0, self.pages.count)

    def below(self, limit: int) -> Iterator[tuple[int, int, int]]:
        """Yield byte count, key and address of a list's first ``limit`` entries.

        For a KSM key a chunk of regular entries yields only its first one, and ``limit`` counts
        what is yielded. An MTT key yields none.
        """
        if self.mode is _KSM:
            return islice(self.blocks.given(), limit)
        count = min(len(self._xlt) // KLM.size, limit)
        return KLM.iter_unpack(bytes(self._xlt[: count * KLM.size]))

    def _lay_out(self) -> None:
        is_long = self.mode is _KLMS and len(self._xlt) > _LONG_LIST
        self._ranges = Ranges(self._xlt) if is_long else None

    @property
    def ranges(self) -> Ranges:
        """The list of a KLM key, laid out as ranges: at each write if long, else at first use."""
        if self._ranges is None:
            self._ranges = Ranges(self._xlt)
        return self._ranges

    @property
    def key(self) -> int:
        """The 32-bit lkey and rkey."""
        return self.handle << 8 | self.variant

    def invalidate(self) -> None:
        """Free the key: every access fails until a new registration. The key stays in its table."""
        self.ctx.free = 1
        self.decode()

    def about(self) -> dict[str, object]:
        """Return key, access mode, PD, address range, rights and whether the key is free."""
        return {
            "key": self.key, "mode": self.mode.name, "pd": self.pd.handle,
            "start": self.start, "bytes": self.end - self.start,
            "rights": " ".join(name for at, name in enumerate(_NAMES) if self.rights >> at & 1),
            "free": self.free,
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        behind = self.umem or self.memic or self.icm
        return (self.pd,) if behind is None else (self.pd, behind)
