"""Missing request packets at a responder: the NAK for them, and the packets kept after them.

The first packet after a gap gets a NAK (IBTA 9.7.5.1.1). Further ones are dropped or, with
selective repeat, kept until the gap is filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.rc.checks import RxCheck, trace_refusal
from emu.device.engine.rc.packets.responses import ResponseQueue
from emu.device.objects.queues.outcome import NakCode
from emu.device.port.packet import Packet
from emu.device.state.held import MAX_HELD, EarlyPackets
from layouts.wire import bth
from layouts.wire.bth import PSN_MASK, PacketKind

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection

_PLACING: Final = (PacketKind.SEND, PacketKind.WRITE)


class PsnGap:
    """Gap of one queue pair, from the expected PSN on."""

    __slots__ = ("_connection", "_early", "_is_not_ready", "_qp", "_responses", "has_naked", "kept")

    def __init__(self, connection: InnerConnection, responses: ResponseQueue) -> None:
        self._connection = connection
        self._qp = connection.qp
        self._responses = responses
        self._early = EarlyPackets(connection.hca.held_capacity)
        self.kept: Mapping[int, Packet] = self._early.packets
        """Packets that are kept after the gap, by PSN."""
        self.has_naked = False
        """Whether a NAK for the expected PSN has been sent; no second one is sent."""
        self._is_not_ready = False
        """Whether it was an RNR NAK, after which the requester retransmits all packets."""

    def end(self) -> None:
        """Record that the expected packet has arrived: the next gap gets a NAK of its own."""
        self.has_naked = self._is_not_ready = False

    def nak(self) -> None:
        """Send a PSN sequence error NAK, if no NAK for the expected PSN was sent."""
        if not self.has_naked:
            self.has_naked = True
            qp = self._qp
            why = f"packets from psn {qp.epsn:#x} on are missing"
            trace_refusal(self._connection.hca.probes, qp, RxCheck.PSN, why)
            self._responses.nak(qp.epsn, bth.KIND_NAK | NakCode.PSN_SEQUENCE_ERROR)

    def nak_not_ready(self, timer: int) -> None:
        """Send an RNR NAK for the expected PSN, and drop the kept packets.

        The requester retransmits all packets from there on. Later gaps get no NAK until the
        expected packet has arrived.
        """
        self.has_naked = self._is_not_ready = True
        self._early.clear()
        self._responses.nak(self._qp.epsn, bth.KIND_RNR | timer)

    def keep(self, packet: Packet) -> None:
        """Keep a SEND or WRITE packet after the gap, for selective repeat.

        READs and atomics, packets more than MAX_HELD ahead, and all packets after an RNR NAK are
        dropped: the requester sends them again.
        """
        ahead = packet.psn - self._qp.epsn & PSN_MASK
        if packet.op.kind in _PLACING and ahead <= MAX_HELD and not self._is_not_ready:
            self._early.add(packet)

    def filled(self) -> Iterator[Packet]:
        """Yield the kept packets that are now in order, and keep them no more."""
        psn = self._qp.epsn
        while (packet := self._early.pop(psn)) is not None:
            yield packet
            psn = (psn + 1) & PSN_MASK

    def nak_next(self) -> None:
        """NAK the next gap if packets are kept after it; drop those before the expected one."""
        self._early.forget_before(self._qp.epsn)
        if self.kept:
            self.nak()

    def drop(self) -> None:
        """Drop the kept packets."""
        self._early.clear()
