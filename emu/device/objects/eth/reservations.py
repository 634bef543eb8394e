"""Header split and data merging (SHAMPO): placement of a queue's packets.

Each striding WQE's memory is divided into reservations. Data of one flow's packets is contiguous
within a reservation; data of other packets starts at the queue's alignment. A reservation takes a
limited number of packets. Filler completes a reservation that the next packet does not fit, as at a
WQE's end. Headers go to a separate ring buffer, one entry each.

The driver maps one entry for each packet that all reservations can take. The driver frees a WQE
when its completions have named all strides (core/en/params.c: mlx5e_shampo_hd_per_wqe;
core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq_shampo).

Source: PRM "SHAMPO"; mlx5_ifc.h: wq.shampo_enable and the fields after it.
"""

from __future__ import annotations

from typing import NamedTuple

from emu.device.objects.eth.strides import Strides


class Flow(NamedTuple):
    """The state of the last packet, to decide whether the next one continues its flow."""

    constant: bytes
    """Headers without the fields that may differ from packet to packet."""
    flags: int
    """TCP flags, without those that only the last packet may have."""
    sequence: int
    """Sequence number of the next packet."""
    size: int
    """Bytes of data of the first packet, and of all but the last one."""
    identifier: int
    """IPv4 identification of the last packet."""
    step: int | None
    """Increment of the identification; None while there is only one packet."""


class Reservations:
    """Position of a queue's packets in its WQEs and in its header buffer."""

    __slots__ = (
        "_align", "_base", "_packets", "_strides", "entries", "entry_bytes", "flow", "headers_key",
        "index", "limit", "merges", "position", "size", "timeout_ns",
    )  # fmt: skip

    def __init__(
        self, strides: Strides, *, size: int, limit: int, align: int, headers_key: int,
        entry_bytes: int, entries: int, merges: bool, timeout_ns: int = 0,
    ) -> None:  # fmt: skip
        """Create the state; a packet of a new flow starts at a multiple of ``align`` bytes."""
        self._strides = strides
        self._align = align
        self.size = size
        """Bytes of a reservation."""
        self.limit = limit
        """Maximum number of packets in a reservation."""
        self.headers_key, self.entry_bytes, self.entries = headers_key, entry_bytes, entries
        """The header buffer: memory key, bytes of an entry, number of entries."""
        self.merges = merges
        """Whether packets of a flow are merged."""
        self.timeout_ns = timeout_ns
        """Nanoseconds that packets are held for merging; 0: not at all."""
        self.restart()

    def restart(self) -> None:
        """Start at header entry 0 and at the beginning of a WQE, for a queue in RST."""
        self.index = 0
        """Index of the next header's entry."""
        self.begin()

    def begin(self) -> None:
        """Start at the beginning of a WQE."""
        self._enter(0)

    def _enter(self, base: int) -> None:
        """Start an empty reservation at byte ``base`` of the WQE, without a flow."""
        self._base = self.position = base
        """Start of the current reservation, and end of the last packet's data in it."""
        self._packets = 0
        self.flow: Flow | None = None

    @property
    def is_last(self) -> bool:
        """Whether the current reservation is the last one of its WQE."""
        return self._base + self.size >= self._strides.count << self._strides.log_size

    def place(self, length: int, *, follows: bool) -> int | None:
        """Return the offset in the WQE for ``length`` bytes of data, in the current reservation.

        ``follows``: directly behind the last packet, else at a multiple of ``align``. Returns None
        if the bytes do not fit, or if the reservation has ``limit`` packets. ``take`` records the
        packet.
        """
        start = self.position if follows else -(-self.position // self._align) * self._align
        if self._packets >= self.limit or start + length > self._base + self.size:
            return None
        return start

    def leave(self) -> None:
        """Move to the next reservation of the WQE; the caller completes the rest with filler."""
        self._enter(self._base + self.size)

    @property
    def end(self) -> int:
        """First stride of the next reservation."""
        return self._base + self.size >> self._strides.log_size

    def take(self, start: int, length: int) -> tuple[int, int]:
        """Record a packet's data at ``start``.

        Return its first stride and the strides newly opened. The WQE ends (``strides.wqe`` None)
        with its last stride. A packet without data opens none, and has the next stride as its first
        one: ``start`` may be the end of the WQE.
        """
        strides = self._strides
        used = strides.used
        self._packets += 1
        if not length:
            return used, 0
        self.position = start + length
        mask = (1 << strides.log_size) - 1
        strides.used = self.position + mask >> strides.log_size
        if strides.used == strides.count:
            strides.wqe = None
        return start >> strides.log_size, strides.used - used
