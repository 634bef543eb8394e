"""Striding receive queues: one receive request takes many packets, stride by stride.

A request's memory is cut into ``count`` strides of ``1 << log_size`` bytes. A packet begins at a
stride and takes as many as it needs, all in one request; the rest of a request that is too short
for the next packet is filled by a completion without packet. The driver frees a request when the
strides that its completions name are all that it has, so that sum is always exact.

Source: PRM "Striding RQ"; core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq.
"""

from __future__ import annotations

from typing import Final

from emu.device.objects.queues.receive_queue import RecvWqe

SHIFT_BYTES: Final = 2
"""two_byte_shift_en: a packet begins so far behind its stride, to align its IP header."""


class Strides:
    """How a queue's requests are cut, and how far the packets have got in the one in use."""

    __slots__ = ("_mask", "count", "log_size", "shift", "used", "wqe")

    def __init__(self, log_size: int, log_count: int, *, is_shifted: bool) -> None:
        self.log_size = log_size
        self.count = 1 << log_count
        self.shift = SHIFT_BYTES if is_shifted else 0
        self._mask = (1 << log_size) - 1
        self.wqe: RecvWqe | None = None
        """The request in use; None when all strides of the last one are taken."""
        self.used = 0
        """Strides of it that are taken."""

    @property
    def most_bytes(self) -> int:
        """The longest packet that a request can hold."""
        return (self.count << self.log_size) - self.shift

    def needed(self, length: int) -> int:
        """How many strides a packet of so many bytes takes."""
        return length + self.shift + self._mask >> self.log_size

    def has_room(self, length: int) -> bool:
        """Whether the packet fits into what is left of the request in use."""
        return self.wqe is not None and self.used + self.needed(length) <= self.count

    @property
    def offset(self) -> int:
        """Where in the request's memory the next packet's bytes begin."""
        return (self.used << self.log_size) + self.shift

    def take(self, length: int) -> tuple[int, int]:
        """Take the strides of a packet that has room: the first one's number, and how many."""
        first, needed = self.used, self.needed(length)
        self.used += needed
        if self.used == self.count:
            self.wqe = None
        return first, needed

    def rest(self, end: int | None = None) -> tuple[int, int]:
        """Take what is left of the request in use, as :meth:`take`; perhaps up to a stride.

        That is less than the longest packet needs, some 1,000 strides: one CQE can name more, as
        far as all drivers read it (DPDK: MLX5_MPRQ_STRIDE_NUM_MASK).
        """
        first, self.used = self.used, self.count if end is None else end
        if self.used == self.count:
            self.wqe = None
        return first, self.used - first

    def begin(self, wqe: RecvWqe) -> None:
        """The next packets go into this request."""
        self.wqe, self.used = wqe, 0

    def abandon(self) -> RecvWqe | None:
        """The queue stops: the request that was in use, which takes no more packets."""
        wqe, self.wqe = self.wqe, None
        return wqe

    def frames(self, posted: int, longest: int, most_merged: int = 0) -> int:
        """How many packets of ``longest`` bytes fit into so many requests and the one in use.

        They may come merged into packets of up to ``most_merged`` bytes, for which the end of each
        request may be too short.
        """
        lost = self.needed(most_merged) - 1 if most_merged else 0
        free = posted * max(self.count - lost, 0)
        if self.wqe is not None:
            free += max(self.count - self.used - lost, 0)
        return free // max(self.needed(longest), 1)
