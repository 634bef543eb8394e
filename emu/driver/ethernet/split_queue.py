"""Receive queue with header split, used as by mlx5e for HW-GRO.

Source: core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq_shampo; core/en/params.c: mlx5e_build_rq_param.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emu.driver.ethernet.striding_queue import FILLER, StridingQueue
from emu.driver.verbs.node import Node
from layouts.enums.cqe import CqeOpcode
from layouts.enums.wq import ShampoAlignment, ShampoMatch
from layouts.rings.cqe import cqe64
from layouts.rings.eth_cqe import SHAMPO_AT, SHAMPO_FLUSH, SHAMPO_MATCH, cqe_shampo

LOG_RESERVATION_BASE, LOG_HEADER_BASE = 12, 6


@dataclass(frozen=True)
class SplitPiece:
    """Content of a completion: addresses of header and data, and the packet."""

    wqe_id: int
    strides: int
    is_filler: bool
    match: bool
    flush: bool
    index: int
    offset: int
    header: bytes
    data: bytes
    entry: cqe64


class SplitQueue(StridingQueue):
    """Striding queue with a buffer for headers, of ``1 << log_entries`` entries."""

    def __init__(
        self, node: Node, *, log_reservation: int = 12, log_packets: int = 3, log_entry: int = 8,
        log_entries: int = 6, log_stride_size: int = 8,
        align: ShampoAlignment = ShampoAlignment.STRIDE, match: ShampoMatch = ShampoMatch.EXTENDED,
        headers_key: int | None = None, timeout: int = 0, **options: Any,
    ) -> None:  # fmt: skip
        """Create a queue with reservations of ``1 << log_reservation`` bytes.

        A reservation takes ``1 << log_packets`` packets. ``timeout`` in microseconds is the maximum
        time for which packets are held for merging.
        """
        self.log_entry, self.entries = log_entry, 1 << log_entries
        self.reservation, self.limit = 1 << log_reservation, 1 << log_packets
        self.headers = node.region(self.entries << log_entry, va=0)
        shampo = {
            "shampo_enable": 1, "log_reservation_size": log_reservation - LOG_RESERVATION_BASE,
            "log_max_num_of_packets_per_reservation": log_packets,
            "log_headers_entry_size": log_entry - LOG_HEADER_BASE,
            "log_headers_buffer_entry_num": log_entries,
            "headers_mkey": self.headers.key if headers_key is None else headers_key,
        }  # fmt: skip
        super().__init__(
            node, log_stride_size=log_stride_size, more=shampo,
            shampo_no_match_alignment_granularity=align, shampo_match_criteria_type=match,
            reservation_timeout=timeout, **options,
        )  # fmt: skip

    def pieces(self) -> list[SplitPiece]:
        """Return the received segments. A WQE is free again when all its strides are consumed.

        A completion with an error gives a segment of zeros with its ``entry``. No WQE is posted
        again.
        """
        pieces = []
        while (raw := self.cq.peek()) is not None:
            self.cq.poll()
            pieces.append(self._split(cqe64.view(raw)))
        return pieces

    def _split(self, entry: cqe64) -> SplitPiece:
        """Return header and data of a completion; zeros and no bytes for an error.

        The WQE's strides count as consumed. Raises AssertionError for more strides than the WQE
        has.
        """
        if entry.op_own >> 4 != CqeOpcode.RESP_SEND:
            return SplitPiece(entry.wqe_id, 0, False, False, False, 0, 0, b"", b"", entry)
        words = cqe_shampo.view(bytes(entry.buf), SHAMPO_AT)
        flags, strides = entry.buf[SHAMPO_AT], entry.byte_cnt >> 16 & 0x7FFF
        wqe_id, length = entry.wqe_id % self.size, entry.byte_cnt & 0xFFFF
        self.consumed[wqe_id] += strides
        assert self.consumed[wqe_id] <= self.count
        header = self.headers.read(words.header_entry_index << self.log_entry, words.header_size)
        at = self.headroom + wqe_id * self.request_bytes + words.data_offset
        data = self.region.read(at, length - words.header_size)
        return SplitPiece(
            wqe_id, strides, bool(entry.byte_cnt & FILLER), bool(flags & SHAMPO_MATCH),
            bool(flags & SHAMPO_FLUSH), words.header_entry_index, words.data_offset, header, data,
            entry,
        )  # fmt: skip
