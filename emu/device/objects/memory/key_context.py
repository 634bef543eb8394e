"""The context of a memory key: decoded by one call, and checked (mlx5_ifc.h: mkc)."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.errors import BadParamError
from emu.device.objects.memory.pages import ADAPTER_PAGE_SHIFT
from emu.device.objects.memory.rights import ALL_RIGHTS, LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_WRITE
from emu.device.ports import Buffer
from layouts.enums.mkey import AccessMode

if TYPE_CHECKING:
    from emu.device.objects.numbering import Capabilities

ANY_QPN: Final = 0xFFFFFF
"""The qpn of a key that any queue pair of its protection domain may use."""

MAX_LOG_PAGE_SIZE: Final = 31
"""Largest value of the five-bit field: max_mkey_log_entity_size_mtt is not advertised (mlx5_ib.h:
get_max_log_entity_size_cap).
"""

_WORDS: Final = Struct(">II4xIQQI16xIII")
"""Words 0, 1 and 3, start_addr, len, bsf_octword_size, translations_octword_size, words 14, 15."""
_FREE: Final = 1 << 30
_UMR_EN: Final = 1 << 15
_LENGTH64: Final = 1 << 31
_EN_RINVAL: Final = 1 << 24

_REMOTE_WRITES: Final = REMOTE_WRITE | REMOTE_ATOMIC
_MTT: Final = AccessMode.MTT
_LISTS: Final = frozenset({AccessMode.KLMS, AccessMode.KSM})
_MODES: Final = _LISTS | {AccessMode.PA, _MTT, AccessMode.MEMIC, AccessMode.SW_ICM}


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

    def __init__(self, buf: Buffer, base: int = 0) -> None:
        """Decode the context that starts at byte ``base`` of a buffer."""
        flags: int
        owner: int
        domain: int
        page: int
        crypto: int
        (
            flags, owner, domain, self.start, self.length, self.bsf_octwords, self.octwords, page,
            crypto,
        ) = _WORDS.unpack_from(buf, base)  # fmt: skip
        self.free = flags & _FREE != 0
        self.mode = (flags >> 26 & 7) << 2 | flags >> 8 & 3
        """Access mode, known or not."""
        self.umr_en = flags & _UMR_EN != 0
        self.rights = flags >> 10 & ALL_RIGHTS
        self.ma_translation_mode = flags >> 4 & 3
        self.qpn = owner >> 8
        self.variant = owner & 0xFF
        self.length64 = domain & _LENGTH64 != 0
        self.en_rinval = domain & _EN_RINVAL != 0
        self.pd = domain & 0xFFFFFF
        self.log_page_size = page & 0x3F
        self.crypto_en = crypto >> 27 & 3

    def check(self, caps: Capabilities, need_qp: Callable[[int], object]) -> None:
        """Refuse with BAD_PARAM_ERR a context of CREATE_MKEY that no key can have.

        A live key with a qpn of no queue pair gets BAD_RES_ERR, from ``need_qp``.
        """
        mode = self.mode
        if mode not in _MODES:
            raise BadParamError("access mode of the memory key not supported", f"{mode:#x}")
        # Relaxed ordering is accepted: it permits the adapter an order that this one never uses.
        if self.ma_translation_mode:
            raise BadParamError("memory key option not supported", "ma_translation_mode")
        if self.rights & _REMOTE_WRITES and not self.rights & LOCAL_WRITE:
            raise BadParamError(
                "remote write or atomic without local write", f"{mode:#x}"
            )  # IBTA 10.6.3.1; include/rdma/ib_verbs.h: ib_check_mr_access
        if self.start + self.length > 1 << 64:
            raise BadParamError(
                "memory key goes beyond the end of the address space",
                f"{self.start:#x}+{self.length:#x}",
            )
        if self.crypto_en and (not caps.general.crypto or mode not in _LISTS):
            raise BadParamError("encryption is not supported for this access mode")
        if not self.free:
            self._check_live(need_qp)

    def _check_live(self, need_qp: Callable[[int], object]) -> None:
        """Check the fields that a free key gets later, by UMR.

        The driver's free keys have neither QPN nor page size. Raises BAD_RES_ERR for an unknown
        QPN, BAD_PARAM_ERR for a page size outside the range.
        """
        if self.qpn != ANY_QPN:
            need_qp(self.qpn)
        if self.mode != _MTT or not (self.length or self.length64):
            return
        log_page_size = self.log_page_size
        if log_page_size < ADAPTER_PAGE_SHIFT:
            raise BadParamError("page size below the adapter's minimum", f"{1 << log_page_size}")
        # A key over all addresses has pages of 2**61 bytes (odp.c: alloc_implicit_mr_null_mkey).
        if log_page_size > MAX_LOG_PAGE_SIZE and not self.length64:
            raise BadParamError(
                "page size above the adapter's maximum", f"log_page_size {log_page_size}"
            )
