"""A queue pair's packet connection, created when its first packet is sent or received.

It holds the state that only packets need: the route, and the requester's and the responder's state
machines. A queue pair whose peer is in this process never has one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.transitions import RECEIVING
from emu.device.engine.rc.packets.completer import PacketCompleter
from emu.device.engine.rc.packets.rate import FlowRate
from emu.device.engine.rc.packets.requester import PacketRequester
from emu.device.engine.rc.packets.responder import PacketResponder
from emu.device.engine.rc.packets.window import SendWindow
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.receive_request import ReceiveRequest
from emu.device.port.base import Route
from emu.device.port.packet import Packet
from emu.device.rounds.costs import LOG_INTERVALS_PER_STEP
from emu.device.state.cancellable_call import CancellableCall
from emu.device.state.containment import contain
from layouts.enums import PmState, QpState
from layouts.wire.bth import ICRC_BYTES

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.ports import CarryTrain, Timer
    from emu.device.state.hca import Hca


_MIGRATED: Final = PmState.MIGRATED


class PacketConnection:
    """One queue pair's packet connection to its peer in another process."""

    __slots__ = (
        "_room", "_route", "completer", "hca", "is_waiting", "next_cnp_ns", "qp", "rate",
        "repeats_selectively", "requester", "responder",
    )  # fmt: skip
    __deletable__ = ("completer", "requester", "responder")

    def __init__(self, hca: Hca, qp: Qp) -> None:
        self.hca = hca
        self.qp = qp
        self.repeats_selectively = hca.link.recovery.selective_repeat
        self.completer = PacketCompleter(self, SendWindow(qp.psn))
        self.requester = PacketRequester(self, self.completer)
        self.responder = PacketResponder(self)
        self._route: Route | None = None
        self.is_waiting = False
        """The wire has no room: nothing is sent until it schedules the queue pair again."""
        self._room: Timer | None = None
        """What ends that, or the pause that a rate wants."""
        self.rate: FlowRate | None = None
        """The rate to keep to after congestion notifications; None for as fast as possible."""
        self.next_cnp_ns = 0
        """When the peer may be told of congestion again."""

    def send(self, packet: Packet, payload: Views = (), length: int = 0) -> None:
        """Put a packet on the wire, where it may be lost."""
        hca = self.hca
        if self._route is None:
            self._route = hca.link.route(self.qp.ctx.primary_address_path)
        if self.qp.path_state is not _MIGRATED:
            packet.is_migrated = False
        frame = self._route.frame(packet, payload, length)
        hca.link.count_sent(1, len(frame), self.qp.marks)
        if (
            hca.link.is_up
            and not hca.wire.transmit(hca, frame, self.qp.handle)
            and not self.is_waiting
        ):
            self._await_room(self._route.address)
        if self.rate is not None:
            self._keep_to(self.rate, len(frame))

    def trains(self) -> CarryTrain | None:
        """What carries trains to the peer; None when each packet has to go alone."""
        qp = self.qp
        if qp.pace is not None or qp.response_pace is not None:
            return None
        if self.rate is not None or qp.path_state is not _MIGRATED:
            return None
        if self._route is None:
            self._route = self.hca.link.route(self.qp.ctx.primary_address_path)
        return self.hca.wire.train_to(self.hca, self._route.address, self.qp.mtu_bytes)

    def send_train(self, carry: CarryTrain, packet: Packet, payload: Views, count: int) -> None:
        """Put ``count`` middle packets of a message on the wire, of which ``packet`` is the first.

        They have ``payload`` together. ``carry`` is what :meth:`trains` gave.
        """
        hca, mtu, route = self.hca, self.qp.mtu_bytes, self._route
        assert route is not None
        front = route.frame(packet, (), mtu)
        octets = count * (len(front) + mtu) if front else 0
        hca.link.count_sent(count, octets, self.qp.marks)
        if (
            front  # there is none while the source GID is empty
            and hca.link.is_up
            and not carry((front[:-ICRC_BYTES], *payload, front[-ICRC_BYTES:]))
            and not self.is_waiting
        ):
            self._await_room(route.address)

    def _await_room(self, address: int) -> None:
        """Send nothing until the wire has room."""
        self.is_waiting = True
        self._room = room = CancellableCall(partial(contain, self.hca.lifetime, self._go_on))
        self.hca.wire.when_room(address, room)

    def _keep_to(self, rate: FlowRate, octets: int) -> None:
        """Send nothing more for as long as the rate wants."""
        clock = self.hca.clock
        now, before = clock.now_ns(), rate.made_up
        is_over = rate.is_over(now)
        self.hca.budget.charge(rate.made_up - before >> LOG_INTERVALS_PER_STEP)
        if is_over:
            self.limit(None)
        elif (pause := rate.sent(octets, now)) and not self.is_waiting:
            self.is_waiting = True
            self._room = clock.call_later(pause, self._go_on)

    def limit(self, rate: FlowRate | None) -> None:
        """Keep to a rate from now on, or to none."""
        congestion = self.hca.link.congestion
        if congestion is not None:
            congestion.flows += (rate is not None) - (self.rate is not None)
        self.rate = rate

    def _go_on(self) -> None:
        self.is_waiting = False
        self._room = None
        self.hca.schedule(self.qp)

    def reload(self) -> None:
        """A command has changed the context: forget the route made from it."""
        self._route = None

    def dissolve(self) -> None:
        """The queue pair drops its connection: break the reference cycles with its parts."""
        self._give_up_room()
        self.limit(None)
        del self.completer.timer
        del self.completer, self.requester, self.responder

    def pause(self) -> None:
        """The queue pair changes its state or is destroyed: stop the timers."""
        self.completer.timer.stop()
        if self.qp.state not in RECEIVING:
            self.responder.drop_held()

    def _give_up_room(self) -> None:
        """Nothing will be sent: wait for the wire no longer."""
        self.is_waiting = False
        if self._room is not None:
            self._room.cancel()
            self._room = None

    @property
    def is_awaiting(self) -> bool:
        """Whether there are outstanding requests that no response has completed."""
        return bool(self.completer.window.requests)

    def unfinished(self) -> list[ReceiveRequest]:
        """Receive WQEs that no message has filled yet."""
        return self.responder.execution.unfinished()

    def stop(self) -> None:
        """SQER or ERR: forget outstanding requests, which are then flushed from the ring.

        In ERR this also flushes a receive WQE that a message has begun to fill.
        """
        self.completer.restart()
        if self.qp.state is QpState.ERR:
            self.responder.execution.abandon()


def connection_of(hca: Hca, qp: Qp) -> PacketConnection:
    """The queue pair's packet connection, created if it has none."""
    connection = qp.connection
    if connection is None:
        connection = qp.connection = PacketConnection(hca, qp)
    assert isinstance(connection, PacketConnection)  # only this function creates one
    return connection
