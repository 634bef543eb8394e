"""Header split and merging of data (SHAMPO): where packets of a queue come to lie.

The memory of a striding queue's request is cut into reservations. Data of packets that belong
together follow each other without a gap in one of them, those of other packets begin where the
queue's alignment says. A reservation takes so many packets at most; what is left of it when the
next one does not fit is filled, as at a request's end. Headers have a buffer of their own, an entry
for each, which is used as a ring.

The driver maps as many entries as all reservations can take packets, and frees a request when the
strides that its completions name are all that it has (core/en/params.c: mlx5e_shampo_hd_per_wqe;
core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq_shampo).

Source: PRM "SHAMPO"; mlx5_ifc.h: wq.shampo_enable and what follows it.
"""

from __future__ import annotations

from typing import NamedTuple

from emu.device.objects.eth.strides import Strides


class Flow(NamedTuple):
    """What the last packet of a queue was, if the next one may belong to it."""

    constant: bytes
    """Headers without what may differ from packet to packet."""
    flags: int
    """TCP's, without those that only the last packet may have."""
    sequence: int
    """Of the next packet."""
    size: int
    """Bytes of data of the first packet, and of all but the last one."""
    identifier: int
    """Of the last packet (IPv4)."""
    step: int | None
    """How much the identifiers grow; None as long as there is one packet."""


class Reservations:
    """How far the packets of a queue have got in its requests, and in its buffer for headers."""

    __slots__ = (
        "_align",
        "_base",
        "_packets",
        "_strides",
        "entries",
        "entry_bytes",
        "flow",
        "headers_key",
        "index",
        "limit",
        "merges",
        "position",
        "size",
        "timeout_ns",
    )  # fmt: skip

    def __init__(
        self, strides: Strides, *, size: int, limit: int, align: int, headers_key: int,
        entry_bytes: int, entries: int, merges: bool, timeout_ns: int = 0,
    ) -> None:  # fmt: skip
        """A packet that does not belong to the last one begins at a multiple of ``align``."""
        self._strides = strides
        self._align = align
        self.size = size
        """Bytes of a reservation."""
        self.limit = limit
        """Packets of one."""
        self.headers_key, self.entry_bytes, self.entries = headers_key, entry_bytes, entries
        """The buffer for headers."""
        self.merges = merges
        """Whether packets can belong together."""
        self.timeout_ns = timeout_ns
        """How long packets are held for others that belong to them; 0: not at all."""
        self.restart()

    def restart(self) -> None:
        """The queue is in RST: both sides count from 0."""
        self.index = 0
        """The entry of the next header."""
        self.begin()

    def begin(self) -> None:
        """The next packets go into a new request, or nowhere for now."""
        self._enter(0)

    def _enter(self, base: int) -> None:
        self._base = self.position = base
        """Where the reservation in use begins, and where the data of its last packet end."""
        self._packets = 0
        self.flow: Flow | None = None

    @property
    def is_last(self) -> bool:
        """Whether the reservation in use is the last one of its request."""
        return self._base + self.size >= self._strides.count << self._strides.log_size

    def place(self, length: int, *, follows: bool) -> int | None:
        """Where so many bytes of data would begin in the request, in the reservation in use.

        ``follows``: right behind the last packet. None if there is no room for them.
        """
        start = self.position if follows else -(-self.position // self._align) * self._align
        if self._packets >= self.limit or start + length > self._base + self.size:
            return None
        return start

    def leave(self) -> None:
        """The next packets go into the next reservation of the request, what is left is filled."""
        self._enter(self._base + self.size)

    @property
    def end(self) -> int:
        """The stride with which the next reservation begins."""
        return self._base + self.size >> self._strides.log_size

    def take(self, start: int, length: int) -> tuple[int, int]:
        """A packet's data are there: the first stride, and how many the packet is the first in."""
        strides = self._strides
        used = strides.used
        self._packets += 1
        if length:
            self.position = start + length
            mask = (1 << strides.log_size) - 1
            strides.used = self.position + mask >> strides.log_size
            if strides.used == strides.count:
                strides.wqe = None
        return start >> strides.log_size, strides.used - used
