"""Keys that work requests change: fast registration (hw/wr.c), windows (rdma-core's mlx5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emu.driver.command.words import pack64
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.region import Region
from emu.driver.verbs.requests import WorkRequests
from emu.driver.verbs.segments import Sge
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import Opcode
from layouts.memory.mkey import mkc
from layouts.rings.wqe import DATA, KLM, wqe_umr_ctrl_seg

CHECK_QPN, OFFSET, MUST_BE_FREE, MUST_NOT_BE_FREE, INLINE = 0x08, 0x10, 0x20, 0x40, 0x80
LEN, PAGE_SIZE, START, PD, EN_RINVAL, KEY, QPN = (1 << bit for bit in (0, 1, 6, 7, 8, 13, 14))
LR, LW, RR, RW, A, SMALL_FENCE, FREE = (1 << bit for bit in (17, 18, 19, 20, 21, 23, 29))
FAST_REG_MASK = LEN | PAGE_SIZE | START | EN_RINVAL | KEY | LR | LW | RR | RW | SMALL_FENCE | FREE
BIND_MASK = FREE | KEY | LEN | START | LW | RR | RW | A
PAGE_SIZE_5 = 1 << 42
ANY_QPN = 0xFFFFFF
MTT_ALL = 3


def umr(
    qp: WorkRequests, key: int, *, flags: int, mask: int, xlt: bytes = b"", offset: int = 0,
    pointer: Sge | None = None, octwords: int | None = None, bsf: bytes = b"",
    ring: bool = True, **context: Any,
) -> int:  # fmt: skip
    """Post a UMR for ``key``; return the WQE's wqe_counter.

    ``mask`` selects the fields of ``context`` (mkc) that replace those of the key. ``pointer`` is a
    data segment; otherwise the translations ``xlt`` are inline. ``offset`` and ``octwords`` are in
    units of 16 bytes; a BSF replaces the offset.
    """
    octwords = len(xlt) // 16 if octwords is None else octwords
    ctrl = wqe_umr_ctrl_seg.new(
        flags=flags | (0 if pointer else INLINE),
        xlt_octowords=octwords,
        xlt_offset=len(bsf) // 16 if bsf else offset & 0xFFFF,
        xlt_offset_47_16=offset >> 16,
        mkey_mask=mask,
    )
    segments = [bytes(ctrl.buf), bytes(mkc.new(**context).buf)]
    body = DATA.pack(*pointer) if pointer else xlt
    return qp.post(Opcode.UMR, *segments, body, bsf, imm=key, ring=ring)


def pad64(data: bytes) -> bytes:
    """Pad with zeros to a multiple of 64 bytes, as inline translations need."""
    return data.ljust(-(-len(data) // 64) * 64, b"\0")


class FastRegKey:
    """Key of ib_alloc_mr: free, with capacity for a list of pages or of key ranges."""

    def __init__(
        self, node: Endpoint, entries: int = 16, mode: AccessMode = AccessMode.MTT, **context: Any
    ) -> None:
        """Create the key; ``mode`` is MTT or KLMS, ``context`` are fields of mkc."""
        self.node, self.mode = node, mode
        size = 8 if mode == AccessMode.MTT else 16
        fields = {
            "pd": node.pdn, "free": 1, "umr_en": 1, "qpn": ANY_QPN, "access_mode_1_0": mode,
            "translations_octword_size": -(-entries * size // 64) * 4,
        } | context  # fmt: skip
        self.index: int = node.driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=fields).mkey_index
        self.key = self.index << 8

    def register(
        self, qp: WorkRequests, entries: Sequence[Any], iova: int, length: int, *, variant: int,
        by_pointer: int | None = None, **rights: Any,
    ) -> int:  # fmt: skip
        """Post IB_WR_REG_MR, and return its wqe_counter; ``key`` takes the low byte ``variant``.

        ``entries`` are page addresses, or (length, key, address) ranges. With ``by_pointer``, a key
        over all memory, the list is written to memory of its own. ``rights`` replace fields of mkc.
        """
        if self.mode == AccessMode.MTT:
            xlt = pad64(pack64([page | MTT_ALL for page in entries]))
        else:
            xlt = pad64(b"".join(KLM.pack(*entry) for entry in entries))
        self.key = self.index << 8 | variant
        context = {
            "umr_en": 1, "qpn": ANY_QPN, "mkey_7_0": variant, "en_rinval": 1, "start_addr": iova,
            "len": length, "log_page_size": 12, "lr": 1, "lw": 1, "rr": 1, "rw": 1,
        } | rights  # fmt: skip
        options: dict[str, Any] = {"xlt": xlt}
        if by_pointer:
            address = self.node.memory.alloc(len(xlt), 64)
            self.node.memory.write(address, xlt)
            options = {"pointer": (len(xlt), by_pointer, address), "octwords": len(xlt) // 16}
        return umr(qp, self.key, flags=MUST_BE_FREE, mask=FAST_REG_MASK, **options, **context)

    def invalidate(self, qp: WorkRequests, **options: Any) -> int:
        """Post IB_WR_LOCAL_INV."""
        return umr(qp, self.key, flags=0, mask=FREE, free=1, **options)


class MemoryWindow:
    """Memory window. Type 1 belongs to the domain, type 2 to the queue pair that binds it."""

    def __init__(self, node: Endpoint, kind: int) -> None:
        """Create a window; ``kind`` is 1 or 2."""
        self.node, self.kind = node, kind
        fields = {
            "pd": node.pdn, "free": 1, "umr_en": 1, "lr": 1, "qpn": ANY_QPN,
            "access_mode_1_0": AccessMode.KLMS, "translations_octword_size": 4,
            "en_rinval": int(kind == 2),
        }  # fmt: skip
        self.index: int = node.driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=fields).mkey_index
        self.key = self.index << 8

    def bind(
        self, qp: WorkRequests, region: Region, at: int, length: int, *, start: int | None = None,
        **rights: object,
    ) -> int:  # fmt: skip
        """Post the binding to a range of a region; return the WQE's wqe_counter.

        The key's tag advances at once. ``start`` 0 makes the window zero-based. ``rights`` replace
        fields of mkc.
        """
        old, self.key = self.key, self.index << 8 | (self.key + 1) & 0xFF
        two = self.kind == 2
        context = {
            "qpn": qp.qpn if two else ANY_QPN, "mkey_7_0": self.key & 0xFF, "len": length,
            "start_addr": region.va + at if start is None else start, "rr": 1, "rw": 1, "lw": 1,
        } | rights  # fmt: skip
        xlt = pad64(KLM.pack(length, region.key, region.va + at))
        mask = BIND_MASK | (QPN if two else 0)
        flags = OFFSET | (MUST_BE_FREE if two else 0)
        return umr(qp, old, flags=flags, mask=mask, xlt=xlt, **context)

    def unbind(self, qp: WorkRequests) -> int:
        """Post the unbinding by length 0; return the WQE's wqe_counter.

        The key's tag advances at once. For type 2, the WQE is also IBV_WR_LOCAL_INV.
        """
        two = self.kind == 2
        old, self.key = self.key, self.index << 8 | (self.key + 1) & 0xFF
        mask = FREE | KEY | (QPN if two else 0)
        flags = OFFSET | (CHECK_QPN if two else 0)
        return umr(qp, old, flags=flags, mask=mask, free=1, qpn=ANY_QPN, mkey_7_0=self.key & 0xFF)

    def free(self) -> None:
        """Free the window, bound or not (ib_dealloc_mw)."""
        self.node.driver.must(Op.DESTROY_MKEY, mkey_index=self.index)
