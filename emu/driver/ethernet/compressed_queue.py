"""Completion queue with optional compression, read as mlx5e does.

Source: core/en_rx.c: mlx5e_decompress_cqes_start and _cont, mlx5e_cqes_update_owner,
mlx5e_rx_cq_process_enhanced_cqe_comp.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from emu.driver.verbs.completions import CompletionQueue, Found, completion_of
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import PAGE
from layouts.enums.cq import CompressionLayout
from layouts.enums.cqe import CqeFormat, CqeOpcode, MiniCqeFormat
from layouts.rings.cqe import OP_OWN, cqe64
from layouts.rings.mini_cqe import (
    MINI_BYTES,
    PER_ARRAY,
    mini_cqe_csum,
    mini_cqe_flow_tag,
    mini_cqe_hash,
    mini_cqe_l3_l4,
)

VALIDITY = OP_OWN - 1
_LAYOUTS = {
    MiniCqeFormat.HASH: mini_cqe_hash,
    MiniCqeFormat.CSUM: mini_cqe_csum,
    MiniCqeFormat.FTAG_STRIDX: mini_cqe_flow_tag,
    MiniCqeFormat.CSUM_STRIDX: mini_cqe_csum,
    MiniCqeFormat.L34H_STRIDX: mini_cqe_l3_l4,
}


class CompressedQueue(CompletionQueue):
    """CQ that returns packets' completions one by one, in whatever form they were written."""

    def __init__(
        self, node: Endpoint, log_size: int = 8, *, form: MiniCqeFormat,
        layout: CompressionLayout = CompressionLayout.BASIC, cqe_sz: int = 0,
    ) -> None:  # fmt: skip
        self.form, self.layout = form, layout
        is_ext = form is MiniCqeFormat.L34H_STRIDX
        super().__init__(
            node, log_size, cqe_sz, cqe_comp_en=1, cqe_compression_layout=layout,
            mini_cqe_res_format=0 if is_ext else form, mini_cqe_res_format_ext=int(is_ext),
        )  # fmt: skip
        if layout is CompressionLayout.ENHANCED:
            for page in self.pages:  # 0xff is not a valid iteration, as in mlx5e
                node.memory.write(page, (bytes(VALIDITY) + b"\xff\xf1") * (PAGE // 64))
        self.sessions = self.compressed = 0
        """Counters of ``ethtool -S``: rx_cqe_compress_blks and rx_cqe_compress_pkts."""
        self._title = b""
        self._following = 0
        """Value of wqe_counter for the next packet, where its mini CQE has none."""
        self._is_title_new = False
        self._expanded: deque[bytes] = deque()
        """Expanded entries behind ``ci`` that the driver has not returned yet."""

    def peek(self) -> bytes | None:
        """Return the next packet's entry, or None while the device owns it.

        Compressed packets are expanded here and counted in ``sessions`` and ``compressed``.
        """
        if not self._expanded:
            self._expand_next()
        return self._expanded[0] if self._expanded else None

    def poll(self, *, update_record: bool = True) -> Found | None:
        """Return the next completion and consume its entry; None while the device owns it.

        ``update_record`` also writes the consumer index into the doorbell record.
        """
        raw = self.peek()
        if raw is None:
            return None
        self._expanded.popleft()
        if self.layout is CompressionLayout.BASIC:
            self._write_owner()
        self.ci += 1
        if update_record:
            self.write_record()
        return completion_of(raw)

    def _write_owner(self) -> None:
        """Write the owner bit of the next entry, as a session's entries are unwritten.

        The device writes only the title and the arrays of mini CQEs of a session.
        """
        at = self._at(self.ci)
        owner = bytes((self.ci >> self.log_size & 1,))
        self.node.memory.write(self.pages[at // PAGE] + at % PAGE + OP_OWN, owner)

    def _expand_next(self) -> None:
        """Expand the next entry, or the session that begins there, into ``_expanded``.

        Do nothing while the device owns the entry. A single entry becomes the title of later
        sessions.
        """
        raw, lap = self.entry(self.ci), self.ci >> self.log_size
        is_compressed = raw[OP_OWN] >> 2 & 3 == CqeFormat.COMPRESSED
        if self.layout is CompressionLayout.ENHANCED:
            if raw[VALIDITY] != lap & 0xFF:
                return
            if is_compressed:
                self.sessions += self._is_title_new
                self._is_title_new = False
                self._unfold(raw, range((raw[OP_OWN] >> 4) + 1), keeps_hash=False)
                return
        elif raw[OP_OWN] >> 4 == CqeOpcode.INVALID or raw[OP_OWN] & 1 != lap & 1:
            return
        entry = cqe64.view(raw)
        self._title, self._is_title_new = raw, True
        self._following = entry.wqe_counter
        if is_compressed:
            self.sessions += 1
            for first in range(0, entry.byte_cnt, PER_ARRAY):
                places = range(min(entry.byte_cnt - first, PER_ARRAY))
                self._unfold(self.entry(self.ci + (first or 1)), places, keeps_hash=not first)
        else:
            self._following += _steps(entry.byte_cnt)
            self._expanded.append(raw)

    def _unfold(self, minis: bytes, places: range, *, keeps_hash: bool) -> None:
        """Expand mini CQEs; the first packet of a basic session has its title's hash."""
        for place in places:
            self.compressed += 1
            mini = _LAYOUTS[self.form].view(minis, place * MINI_BYTES)
            self._expanded.append(self._whole(mini, has_hash=keeps_hash and not place))

    def _whole(self, mini: Any, *, has_hash: bool) -> bytes:
        """Return the full entry of a packet, as written without compression."""
        whole = bytearray(self._title)
        entry = cqe64.view(whole)
        index = self.ci + len(self._expanded)
        whole[OP_OWN] = CqeOpcode.RESP_SEND << 4 | index >> self.log_size & 1
        entry.byte_cnt = mini.byte_cnt
        entry.wqe_counter = self._following & 0xFFFF
        self._following += _steps(mini.byte_cnt)
        if self.form is MiniCqeFormat.HASH:
            entry.rss_hash_result = mini.rx_hash_result
            return bytes(whole)
        if not has_hash:
            entry.rss_hash_result = entry.rss_hash_type = 0
        if self.form is not MiniCqeFormat.CSUM:
            entry.wqe_counter = mini.stridx
        if self.form is MiniCqeFormat.FTAG_STRIDX:
            entry.sop_drop_qpn = mini.flow_tag_high << 16 | mini.flow_tag_low
        elif self.form is MiniCqeFormat.L34H_STRIDX:
            entry.l4_l3_hdr_type = mini.l4_l3_hdr_type
        else:
            entry.check_sum = mini.checksum
        return bytes(whole)


def _steps(byte_cnt: int) -> int:
    """Return the increment of the next packet's wqe_counter."""
    return byte_cnt >> 16 & 0x7FFF or 1
