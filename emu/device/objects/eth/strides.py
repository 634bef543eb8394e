"""Striding receive queues: one receive WQE takes many packets, stride by stride.

A WQE's memory is divided into ``count`` strides of ``1 << log_size`` bytes. A packet starts at a
stride and occupies consecutive strides of one WQE. If the next packet does not fit, a filler
completion without packet uses up the WQE. The driver frees a WQE when its completions have named
all strides, so the sum is always exact.

Source: PRM "Striding RQ"; core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq.
"""

from __future__ import annotations

from typing import Final

from emu.device.objects.queues.receive_queue import RecvWqe

SHIFT_BYTES: Final = 2
"""two_byte_shift_en: bytes between a stride and its packet, to align the IP header."""


class Strides:
    """The stride layout of a queue's WQEs, and the position in the current WQE."""

    __slots__ = ("_mask", "count", "log_size", "shift", "used", "wqe")

    def __init__(self, log_size: int, log_count: int, *, is_shifted: bool) -> None:
        self.log_size = log_size
        self.count = 1 << log_count
        self.shift = SHIFT_BYTES if is_shifted else 0
        self._mask = (1 << log_size) - 1
        self.wqe: RecvWqe | None = None
        """The current WQE; None when all strides of the last one are used."""
        self.used = 0
        """Number of used strides in the current WQE."""

    @property
    def most_bytes(self) -> int:
        """Bytes of the longest packet that a WQE can hold."""
        return (self.count << self.log_size) - self.shift

    def needed(self, length: int) -> int:
        """Return the strides that a packet of ``length`` bytes needs, with the two-byte shift."""
        return length + self.shift + self._mask >> self.log_size

    def fits_current_wqe(self, length: int) -> bool:
        """Return whether the packet fits into the rest of the current WQE; False without a WQE.

        Other posted WQEs do not count.
        """
        return self.wqe is not None and self.used + self.needed(length) <= self.count

    @property
    def offset(self) -> int:
        """Offset of the next packet's bytes in the WQE's memory."""
        return (self.used << self.log_size) + self.shift

    def take(self, length: int) -> tuple[int, int]:
        """Use the strides of a packet that fits (``fits_current_wqe``).

        Return the first one and their number. ``wqe`` becomes None with the last stride.
        """
        first, needed = self.used, self.needed(length)
        self.used += needed
        if self.used == self.count:
            self.wqe = None
        return first, needed

    def use_up(self, end: int | None = None) -> tuple[int, int]:
        """Use the rest of the current WQE, or up to stride ``end``, for a filler completion.

        Returns the first stride and their number. The rest is less than the longest packet needs,
        about 1,000 strides. A CQE can name more, within the limit that all drivers read (DPDK:
        MLX5_MPRQ_STRIDE_NUM_MASK).
        """
        first, self.used = self.used, self.count if end is None else end
        if self.used == self.count:
            self.wqe = None
        return first, self.used - first

    def begin(self, wqe: RecvWqe) -> None:
        """Start at the first stride of ``wqe``."""
        self.wqe, self.used = wqe, 0

    def abandon(self) -> RecvWqe | None:
        """Forget and return the current WQE, as the queue stops; None without one."""
        wqe, self.wqe = self.wqe, None
        return wqe

    def frames(self, posted: int, longest: int, most_merged: int = 0) -> int:
        """Return the number of packets of ``longest`` bytes that fit.

        The space is ``posted`` WQEs and the rest of the current one. Packets may be merged up to
        ``most_merged`` bytes, for which the end of each WQE may be too short.
        """
        lost = self.needed(most_merged) - 1 if most_merged else 0
        free = posted * max(self.count - lost, 0)
        if self.wqe is not None:
            free += max(self.count - self.used - lost, 0)
        return free // max(self.needed(longest), 1)
