"""Packets of requests in the window: sent for the first time, again after a loss, or as a probe.

``requester.py`` itself sends the only packet of a short request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access_error import ABSENT_PAGE, AccessError
from emu.device.engine.qp.send_requests import Failure
from emu.device.engine.rc.packets.completer import PacketCompleter
from emu.device.engine.rc.packets.window import SendWindow, WindowRequest
from emu.device.port.train import TRAIN_PACKETS
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.sizes import TRAIN_WORK
from layouts.enums.qp import QpType
from layouts.wire.bth import PSN_MASK

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection
    from emu.device.ports import CarryTrain

WINDOW_PACKETS: Final = 128
"""Maximum number of outstanding request packets."""
WINDOW_OF_TRAINS: Final = 256
"""Maximum number of outstanding packets of a message in trains, which are cheaper to process."""
ACK_EVERY: Final = 32
"""Interval in packets at which a long message requests an ACK, so that the window moves."""
MIN_TRAIN_PACKETS: Final = 3
"""Messages of at most this many packets have no train: first and last packets are sent alone."""

_UC: Final = QpType.UC


class PacketSender:
    """Sends packets of one queue pair's requests."""

    __slots__ = ("_completer", "_connection", "_qp", "_window")

    def __init__(self, connection: InnerConnection, completer: PacketCompleter) -> None:
        self._connection = connection
        self._qp = connection.qp
        self._completer = completer
        self._window: SendWindow = completer.window

    def send(self, budget: int) -> int:
        """Send packets of the request at ``next``; return their cost in the poll's budget.

        The cost is 0 if none may be sent: the window is full, or the request has failed or waits
        for a page. A key that has become invalid fails the request with LOCAL_PROT_ERR.
        """
        connection, window = self._connection, self._window
        request = window.current
        if request is None or request.end == window.next:
            request = window.sending()
        carry, space = None, WINDOW_PACKETS - window.flying
        is_long = request.end - request.first & PSN_MASK > MIN_TRAIN_PACKETS
        if is_long and (carry := connection.trains()) is not None:
            space = WINDOW_OF_TRAINS - window.flying
        if space <= 0 or request.failure is not None:
            return 0
        if request.expects_data:
            self._ask_for_data(request)
            return 1
        try:
            if is_long:
                return self._send_some(request, carry, budget, space)
            self._send_packet(request, budget == 1 or space == 1)
        except AccessError as error:
            requester = connection.requester
            if error.violation is ABSENT_PAGE:
                requester.stall(request, error, request.offset_of(self._qp, window.next))
            else:  # the key was valid when the request was parsed
                requester.fail(request, Failure.of_access(error))
            return 0
        return 1

    def _send_some(
        self, request: WindowRequest, carry: CarryTrain | None, budget: int, space: int
    ) -> int:
        """Send packets of a long SEND or WRITE, at most ``space``, in trains if there is a carrier.

        Return their cost, which is at most the budget, except for a train. Memory of packets that
        go alone is mapped for several of them where that is possible. Raises AccessError.
        """
        connection, window, qp, done = self._connection, self._window, self._qp, 0
        hca, ahead = connection.hca, list[memoryview]()
        while True:
            count = self._send_train(carry, request, space) if carry is not None else 0
            if count:
                done += TRAIN_WORK
            else:
                count = 1
                done += 1
                if carry is None and not ahead:
                    limit = min(space, budget - done + 1, TRAIN_PACKETS)
                    ahead = request.data_ahead(hca, qp, window.next, limit)
                self._send_packet(request, done == budget or space == 1, ahead)
            space -= count
            if (
                window.next == request.end
                or done >= budget
                or space <= 0
                or connection.is_waiting
                or hca.budget.steps > POLL_BUDGET
                or (qp.pace is not None and not qp.pace.may_go_on(hca.clock.now_ns()))
            ):
                return done

    def _send_packet(
        self, request: WindowRequest, is_final: bool, ahead: list[memoryview] | None = None
    ) -> None:
        """Send packet ``next`` of a SEND or a WRITE, and advance ``next``.

        ``is_final`` requests an ACK: the packet is the last of this poll. ``ahead`` is that of
        ``WindowRequest.placing``. Raises AccessError before anything is sent.
        """
        window, psn = self._window, self._window.next
        packet, payload, size = request.placing(self._connection.hca, self._qp, psn, 1, ahead)
        window.next = following = (psn + 1) & PSN_MASK
        if psn == window.sent:  # not sent before
            window.sent = following
        window.flying += 1
        request.flying += 1
        if following == request.end or is_final or psn % ACK_EVERY == 0:
            packet.ack_request = True
        self._connection.send(packet, payload, size)
        self.sent(size)

    def sent(self, size: int) -> None:
        """Charge a packet of a SEND or a WRITE to the queue group's rate.

        On UC all packets before ``next`` count as acknowledged at once.
        """
        qp = self._qp
        if qp.pace is not None:
            qp.pace.sent(size + qp.header_bytes, self._connection.hca.clock.now_ns())
        if qp.st is _UC:
            self._completer.advance(self._window.next)

    def _send_train(self, carry: CarryTrain, request: WindowRequest, limit: int) -> int:
        """Send packets from ``next`` on as a train; return their number, 0 if ``next`` goes alone.

        A message's first and last packet are sent alone, and a range that cannot be read at once.
        The train requests an ACK and advances ``next``.
        """
        hca, qp, psn = self._connection.hca, self._qp, self._window.next
        count = min(limit, TRAIN_PACKETS, (request.end - 1 - psn) & PSN_MASK)
        if count <= 1 or psn == request.first:
            return 0
        try:
            packet, payload, _ = request.placing(hca, qp, psn, count)
        except AccessError:
            return 0
        following = (psn + count) & PSN_MASK
        self._window.sent_up_to(following, request, request.flying + count)
        packet.ack_request = True
        self._connection.send_train(carry, packet, payload, count)
        if qp.st is _UC:
            self._completer.advance(following)
        return count

    def _ask_for_data(self, request: WindowRequest) -> None:
        """Send a READ from the first missing response on, or an atomic."""
        packet = request.asking_for_data(self._qp, self._window.next)
        self._window.sent_up_to(request.end, request, 1)
        self._connection.send(packet)

    # -- retransmission of single packets

    def repeat(self) -> bool:
        """Send the oldest packet in flight again; return False when it cannot be sent now.

        A READ or an atomic is not sent: a peer keeps none of the packets after it. The window does
        not change. False also when the data cannot be read, which fails no request here.
        """
        request, una = self._oldest(), self._window.una
        if request is None or request.expects_data or una == self._window.next:
            return False
        return self._send_again(request, una)

    def ask(self) -> bool:
        """Send the oldest and the newest packet in flight again, as a probe.

        If all have arrived, the peer acknowledges them. If the oldest or the newest one was lost,
        it arrives now. If others were lost, the newest one makes the peer NAK them, even if an
        earlier NAK was lost. Returns False when nothing can be sent now. The window does not
        change.
        """
        request, una = self._oldest(), self._window.una
        if request is None:
            return False
        newest = self._window.newest_placing()
        if request.expects_data:
            self._connection.send(request.asking_for_data(self._qp, una))
        elif not self._send_again(request, una):
            return False
        if newest is not None and newest[1] != una:
            self._send_again(*newest)
        return True

    def _oldest(self) -> WindowRequest | None:
        """Return the oldest request in flight; None when nothing can be sent now.

        The request has packets and has not failed: local or failed requests are removed at once.
        """
        connection, is_paused = self._connection, self._completer.timer.is_paused
        is_held_up = connection.requester.is_stuck or is_paused or connection.is_waiting
        return None if is_held_up else self._window.requests[0]

    def _send_again(self, request: WindowRequest, psn: int) -> bool:
        """Send one packet of a SEND or WRITE again; return False when its data is unreadable.

        False sends nothing and fails no request.
        """
        try:
            packet, payload, size = request.placing(self._connection.hca, self._qp, psn)
        except AccessError:
            return False
        packet.ack_request = True
        self._connection.send(packet, payload, size)
        return True
