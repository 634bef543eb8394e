"""The context of a memory key, decoded by one call (mlx5_ifc.h: mkc)."""

from __future__ import annotations

from struct import Struct
from typing import Final

from layouts.memory.mkey import mkc

_WORDS: Final = Struct(">II4xIQQI16xIII")
"""Words 0, 1 and 3, start_addr, len, bsf_octword_size, translations_octword_size, words 14, 15."""
_FREE: Final = 1 << 30
_UMR_EN: Final = 1 << 15
_LENGTH64: Final = 1 << 31
_EN_RINVAL: Final = 1 << 24
_RIGHTS: Final = 0x1F
"""lr, lw, rr, rw and a, from bit 0 on, as in ``emu.device.engine.mr.rights``."""


class KeyContext:
    """The fields of mkc that checks and accesses need; later changes of the context are not seen.

    Reading each field by itself takes a call.
    """

    __slots__ = (
        "bsf_octwords", "crypto_en", "en_rinval", "free", "length", "length64", "log_page_size",
        "ma_translation_mode", "mode", "octwords", "pd", "qpn", "rights", "start", "umr_en",
        "variant",
    )  # fmt: skip

    start: int
    length: int
    bsf_octwords: int
    octwords: int

    def __init__(self, ctx: mkc) -> None:
        flags: int
        owner: int
        domain: int
        page: int
        crypto: int
        (
            flags, owner, domain, self.start, self.length, self.bsf_octwords, self.octwords, page,
            crypto,
        ) = _WORDS.unpack_from(ctx.buf, ctx.base)  # fmt: skip
        self.free = flags & _FREE != 0
        self.mode = (flags >> 26 & 7) << 2 | flags >> 8 & 3
        """Access mode, known or not."""
        self.umr_en = flags & _UMR_EN != 0
        self.rights = flags >> 10 & _RIGHTS
        self.ma_translation_mode = flags >> 4 & 3
        self.qpn = owner >> 8
        self.variant = owner & 0xFF
        self.length64 = domain & _LENGTH64 != 0
        self.en_rinval = domain & _EN_RINVAL != 0
        self.pd = domain & 0xFFFFFF
        self.log_page_size = page & 0x3F
        self.crypto_en = crypto >> 27 & 3
