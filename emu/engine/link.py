"""The packet side of a connected queue pair: made when its first packet comes or goes.

It holds what only packets need: the route, and both state machines between two packets. A queue
pair whose peer is in this process never has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.engine.memory import Views
from emu.engine.packet import Packet, Route, build
from emu.engine.packet_requester import PacketRequester
from emu.engine.packet_responder import PacketResponder
from layouts.enums import QpState

if TYPE_CHECKING:
    from emu.hca import Hca
    from emu.objects import Qp


class Link:
    """One queue pair's way to its peer in another process."""

    __slots__ = ("_is_waiting", "_route", "hca", "qp", "requester", "responder")

    def __init__(self, hca: Hca, qp: Qp) -> None:
        self.hca = hca
        self.qp = qp
        self.requester = PacketRequester(self)
        self.responder = PacketResponder(self)
        self._route: Route | None = None
        self._is_waiting = False

    def send(self, packet: Packet, payload: Views = (), length: int = 0) -> bool:
        """Put a packet on the wire, where it may be lost; False when the next one should wait.

        Then the queue pair gets a turn when there is room again.
        """
        hca = self.hca
        if self._route is None:
            self._route = Route.of(hca, self.qp)
        frame = build(packet, self._route, payload, length)
        hca.port.count_sent(1, len(frame))
        if not hca.port.is_up or hca.wire.transmit(hca, frame):
            return True
        if not self._is_waiting:
            self._is_waiting = True
            hca.wire.when_room(self._route.dlid, self._room)
        return False

    def _room(self) -> None:
        self._is_waiting = False
        self.hca.schedule(self.qp)

    def reload(self) -> None:
        """A command has changed the context."""
        self._route = None

    def pause(self) -> None:
        """The queue pair changes its state, or it is destroyed: no timer runs."""
        self.requester.pause()

    def stop(self) -> None:
        """SQER or ERR: requests that are under way will be flushed from the ring.

        In ERR a receive request that a message has begun to fill is flushed here.
        """
        self.requester.forget()
        if self.qp.state is QpState.ERR:
            self.responder.abandon()


def link_of(hca: Hca, qp: Qp) -> Link:
    """The queue pair's link, made when it has none."""
    if qp.link is None:
        qp.link = Link(hca, qp)
    return qp.link
