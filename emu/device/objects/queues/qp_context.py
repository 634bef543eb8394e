"""The context of a queue pair, as commands set it, and the values in it for the engine."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.queues.direct_path import Marks
from emu.device.objects.queues.queue import Queue
from layouts.enums.qp import PmState, QpType
from layouts.wire.bth import Service

if TYPE_CHECKING:
    from emu.device.objects.queues.send_queue import SendRing
    from layouts.objects.qp import qpc

_MTU_BYTES: Final = {code: 128 << code for code in range(1, 6)}
"""IBTA MTU codes: 1 is 256 bytes, 5 is 4096."""

_SMALLEST_MTU: Final = 256
_LARGEST_MTU: Final = 4096
"""MTU for other codes, 0 among them: iPXE's golan.c sets none for datagrams."""

_MIGRATED: Final = PmState.MIGRATED
_MAY_MIGRATE: Final = {int(state): state for state in (PmState.ARMED, PmState.REARM)}

DATAGRAM: Final = frozenset({QpType.UD, QpType.QP0, QpType.QP1})
"""Services without a connection."""
_SERVICES: Final = {one: Service[one.name] for one in (QpType.RC, QpType.UC, QpType.XRC)}
_revisions = count(1)


class GlobalRoute(NamedTuple):
    """Source and destination GID of a path whose packets have a global route header."""

    own: bytes
    peer: bytes


class QpContext(Queue):
    """A queue whose ``ctx`` commands set.

    ``decode`` extracts the values that the engine needs for every message.
    """

    __slots__ = (
        "ack_timeout", "blocks_loopback", "ctx", "destination", "drains_on_sigerr", "epsn",
        "eth_prio", "has_alternate", "has_refused_path", "header_bytes", "is_looped",
        "lag_affinity", "marks", "max_dest_rd_atomic", "max_message", "max_rd_atomic",
        "min_rnr_nak", "mtu_bytes", "offloads_rendezvous", "path_state", "pkey_index", "psn",
        "q_key", "rae", "registers", "remote_qpn", "retry_count", "revision", "rlky", "rnr_retry",
        "route", "rre", "rwe", "service", "st",
    )  # fmt: skip

    def __init__(self, ctx: qpc, send_ring: SendRing | None = None) -> None:
        super().__init__(send_ring)
        self.ctx = ctx
        self.st = QpType(ctx.st)
        self.service = _SERVICES.get(self.st)
        """Transport service of its connected packets; None for datagrams and local requests."""
        self.has_alternate = False
        """Whether the driver has loaded an alternate path that is not in use yet."""
        self.path_state = PmState.MIGRATED
        """Path migration state (``emu.device.engine.qp.migration``)."""
        self.has_refused_path = False
        """Whether an event has reported the peer's migration to an unknown path."""
        self.revision = 0
        """Number of this context, unique among all queue pairs of the process."""
        self.destination = 0
        """Destination address of the context's path (``emu.device.port.link.Link``).

        0 for datagram services.
        """
        self.route: GlobalRoute | None = None
        """The global route header's GIDs for the path; None if the packets need no such header."""
        self.header_bytes = 0
        """Bytes of the link layer's headers in front of each packet on the path."""
        self.marks: Marks | None = None
        """Priority markings of these headers, on ports that count by priority."""

    def decode(self) -> None:
        """Extract the values from the context after a transition has changed it.

        Takes a new ``revision``. An unknown MTU code counts as 256 bytes; as 4096 for datagrams.
        """
        ctx = self.ctx
        self.revision = next(_revisions)
        path = ctx.primary_address_path
        self.rre, self.rwe, self.rae = ctx.rre, ctx.rwe, ctx.rae
        self.max_rd_atomic = 1 << int(ctx.log_sra_max)
        """READs and atomics that it may send at once."""
        self.max_dest_rd_atomic = 1 << int(ctx.log_rra_max)
        """READs that it takes at once."""
        self.drains_on_sigerr = bool(ctx.drain_sigerr)
        """Whether a signature error moves it to SQD after its current requests."""
        self.offloads_rendezvous = bool(ctx.offload_type)
        """Whether the adapter carries out rendezvous of tag matching."""
        self.eth_prio = int(path.eth_prio)
        """The Ethernet priority of its path."""
        self.rlky = bool(ctx.rlky)
        """Whether requests may use the reserved lkey."""
        self.registers = bool(ctx.fre)
        """Whether UMRs may name physical addresses (fast registration)."""
        self.blocks_loopback = bool(ctx.block_lb_mc)
        """Whether it receives none of its own multicast datagrams."""
        self.lag_affinity = int(ctx.lag_tx_port_affinity)
        """The LAG port of its packets; 0 leaves the choice to the LAG."""
        self.has_refused_path = False
        self.path_state = _MIGRATED
        if self.has_alternate:
            self.path_state = _MAY_MIGRATE.get(ctx.pm_state, _MIGRATED)
        self.psn, self.epsn = int(ctx.next_send_psn), int(ctx.next_rcv_psn)
        self.is_looped = bool(path.fl)
        """Whether the path leads back to its own function, on any port type."""
        self.remote_qpn = int(ctx.remote_qpn)
        self.pkey_index, self.q_key = int(path.pkey_index), int(ctx.q_key)
        self.mtu_bytes = _MTU_BYTES.get(ctx.mtu, _SMALLEST_MTU)
        self.max_message = (
            _MTU_BYTES.get(ctx.mtu, _LARGEST_MTU)
            if self.st in DATAGRAM
            else 1 << int(ctx.log_msg_max)
        )
        """Bytes of the longest message; for datagram services, of the longest datagram."""
        self.ack_timeout, self.retry_count = int(path.ack_timeout), int(ctx.retry_count)
        self.rnr_retry, self.min_rnr_nak = int(ctx.rnr_retry), int(ctx.min_rnr_nak)

    def arm(self) -> None:
        """Enter path migration state ARMED, as the peer may migrate too.

        The next failure migrates this queue pair to its alternate path.
        """
        self.ctx.pm_state = self.path_state = PmState.ARMED
