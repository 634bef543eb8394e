"""Requester of connected services in packets (IBTA 9.7.3, 9.7.7, 9.9.2).

Requests are fetched from the ring into the window. Their packets are sent (``sender.py``) as far as
window, fences, receiver and wire allow. The completer handles the responses. UC uses the same code
and treats each packet as acknowledged once it is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.qp import send_requests
from emu.device.engine.qp.send_requests import AbsentPage, Failure
from emu.device.engine.rc.packets.completer import PacketCompleter
from emu.device.engine.rc.packets.sender import WINDOW_PACKETS, PacketSender
from emu.device.engine.rc.packets.window import SendWindow, WindowRequest
from emu.device.engine.rc.validation import packets_of
from emu.device.objects.queues.message import WITH_RESPONSE_DATA, Message
from emu.device.objects.queues.outcome import Outcome
from emu.device.objects.queues.page_fault import Side
from emu.device.objects.queues.send_queue import Wqe
from emu.device.port.packet import request_packet
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.sizes import PACKETS_PER_POLL
from layouts.enums.qp import QpState, QpType
from layouts.wire.bth import PSN_HALF, PSN_MASK

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection

WINDOW_REQUESTS: Final = 128

# The fence bits of a control segment (PRM "Control segment"; qp.h: MLX5_FENCE_MODE_*). A small
# fence orders local requests; here they complete before the next request is fetched.
_FENCE_SHIFT: Final = 5
_FENCE: Final = 2
_STRONG: Final = 3
_SMALL_AND_FENCE: Final = 4
_RTS: Final = QpState.RTS
_REQUESTER: Final = Side.REQUESTER
_UC: Final = QpType.UC


class PacketRequester:
    """Sending side of one queue pair."""

    __slots__ = (
        "_completer", "_connection", "_posted", "_qp", "_sender", "_window", "is_idle", "is_stuck",
    )  # fmt: skip

    def __init__(
        self, connection: InnerConnection, completer: PacketCompleter, sender: PacketSender
    ) -> None:
        self._connection = connection
        self._qp = connection.qp
        self._completer = completer
        self._sender = sender
        self._window: SendWindow = completer.window
        self._posted: int | None = None
        """Blocks of the ring that are posted and not in the window; None before this poll has read
        the doorbell record.
        """
        self.is_idle = False
        """Whether the last poll has sent all posted requests: the next one follows a doorbell."""
        self.is_stuck = False
        """Whether an outstanding request waits for a page: nothing is sent until the page is
        present.
        """

    def poll(self) -> bool:
        """Send some of the pending packets and start the ACK timer; return True if there are more.

        The timer never runs on UC or outside RTS. Do nothing if the last poll has sent all and no
        doorbell has arrived since, as in polls for responses only. Raises BadWqeError or DmaError
        when the ring is broken.
        """
        qp, window = self._qp, self._window
        sq = qp.sq
        assert sq is not None
        if self.is_idle and not sq.is_rung and window.next == qp.psn:
            return False
        sq.is_rung = self.is_idle = False
        self._posted = None
        more = self._send_packets()
        if window.requests:
            window.requests[-1].payload = ()
            if window.una != qp.psn and qp.st is not _UC and qp.state is _RTS:
                self._completer.timer.watch(qp.ack_timeout, window.next)
        return more

    def _send_packets(self) -> bool:
        """Send up to PACKETS_PER_POLL packets; return True when more could be sent at once.

        False when none is left, or when an RNR NAK, the wire, a page fault or the window stops
        sending.
        """
        connection, window, budget = self._connection, self._window, PACKETS_PER_POLL
        hca, qp, timer = connection.hca, self._qp, self._completer.timer
        while qp.state is _RTS:
            if self._posted == 0 and window.next == qp.psn and qp.adapter_requests is None:
                self.is_idle = True
                return False
            if self.is_stuck or timer.is_paused or connection.is_waiting:
                return False
            if budget <= 0 or hca.budget.steps > POLL_BUDGET:
                return True
            if qp.pace is not None and not qp.pace.may_go_on(hca.clock.now_ns()):
                return True  # ahead of the queue group's rate
            if window.next == qp.psn or not window.requests:  # all packets have been sent
                if not self._fetch():
                    return False
                if window.next == qp.psn:  # the request has no packets
                    continue
            request = window.current
            if request is not None and request.payload and window.flying < WINDOW_PACKETS:
                self._send_only(request)  # most requests
                budget -= 1
                continue
            done = self._sender.send(budget)
            if not done:
                return False
            budget -= done
        return False

    def _send_only(self, request: WindowRequest) -> None:
        """Send the only packet of a request that this poll has parsed, with its payload."""
        window, payload, qp = self._window, request.payload, self._qp
        request.payload = ()
        assert request.message is not None
        packet = request_packet(
            request.message, qp.service, qp.remote_qpn, request.first, True, True
        )
        window.next = window.sent = request.end
        window.flying += 1
        request.flying = 1
        packet.ack_request = True
        self._connection.send(packet, payload, request.length)
        if qp.pace is not None or qp.st is _UC:
            self._sender.sent(request.length)

    # -- from the ring to the window

    def _fetch(self) -> bool:
        """Fetch the next request into the window; return False if none is posted or it has to wait.

        None is fetched after a failed request, which will stop the queue pair. A local request is
        executed here. A malformed or refused request enters the window as failed, and fails once
        all before it are complete. Raises BadWqeError or DmaError when the ring is broken.
        """
        window, qp, posted = self._window, self._qp, self._posted
        requests = window.requests
        if requests and (len(requests) >= WINDOW_REQUESTS or requests[-1].failure is not None):
            return False
        if qp.is_draining or (qp.page_faults and _REQUESTER in qp.page_faults):
            return False
        sq, own = qp.sq, qp.adapter_requests
        assert sq is not None
        wqe: Wqe | None = None if own is None else own.next()
        if wqe is None:
            if posted is None:
                posted = self._posted = sq.waiting() - window.ahead
            if posted <= 0:
                self.is_idle = own is None
                return False
            wqe = sq.fetch(posted, window.ahead)
        if wqe.fm_ce_se >> _FENCE_SHIFT and self._is_fenced(wqe):
            return False
        if not requests and window.una != qp.psn:  # a command has set the PSN
            window.restart(qp.psn)
        request = WindowRequest()
        request.wqe, request.first, request.end = wqe, qp.psn, qp.psn
        request.expects_data, request.failure = False, None
        work = send_requests.parse(self._connection.hca, qp, wqe)
        if isinstance(work, Message):
            if not self._assign_psns(request, work):
                return False
        elif isinstance(work, AbsentPage):
            self._wait_for_page(request, work.error, partial(self._admit_failed, request))
            return False
        elif isinstance(work, Failure):
            request.failure = work
        self._append(request)
        if posted is not None:
            self._posted = posted - wqe.blocks  # a request of the adapter has none
        if own is not None:
            own.done(wqe)
        if request.message is not None:
            window.current = request
        else:  # the request is done or has failed
            self._completer.retire()
        return True

    def _append(self, request: WindowRequest) -> None:
        """Append a request to the window, whose PSNs follow the last one's; count its WQE blocks.

        A READ or atomic also counts as expecting data.
        """
        window = self._window
        requests = window.requests
        if requests:
            requests[-1].following = request
        requests.append(request)
        window.ahead += request.wqe.blocks
        if request.expects_data:
            window.expecting_data += 1

    def _is_fenced(self, wqe: Wqe) -> bool:
        """Return whether the request has to wait for earlier ones (IBTA 10.8.3.3).

        A strong fence waits for all outstanding requests, a fence for READs and atomics only.
        """
        fence = wqe.fm_ce_se >> _FENCE_SHIFT
        if fence == _STRONG:
            return bool(self._window.requests)
        return fence in (_FENCE, _SMALL_AND_FENCE) and self._window.expecting_data > 0

    def _assign_psns(self, request: WindowRequest, message: Message) -> bool:
        """Give the request its message and PSNs; return False when it has to wait for earlier ones.

        Reasons to wait: max_rd_atomic READs and atomics outstanding, or half of the PSNs in use.
        False changes no state. The message loses its views of guest memory, except the payload of a
        single packet, which may be sent at once.
        """
        qp, window, length = self._qp, self._window, message.length
        packets = 1 if length <= qp.mtu_bytes else packets_of(length, qp.mtu_bytes)
        if (qp.psn - window.una & PSN_MASK) + packets > PSN_HALF:
            return False
        if message.op in WITH_RESPONSE_DATA:
            if window.expecting_data >= qp.max_rd_atomic:
                return False
            request.expects_data = True
        elif packets == 1:
            request.payload = message.data
        message.data = message.reply = ()
        request.message, request.length = message, length
        request.end = qp.psn = (qp.psn + packets) & PSN_MASK
        return True

    # -- pages that are absent

    def stall(self, request: WindowRequest, page: AccessError, done: int) -> None:
        """Suspend sending: a request waits for a page, ``done`` bytes into it.

        The request fails, once all before it are complete, if it may not wait or the driver refuses
        the page.
        """
        self.is_stuck = True
        self._wait_for_page(request, page, partial(self.fail, request), done)

    def _wait_for_page(
        self,
        request: WindowRequest,
        page: AccessError,
        refuse: Callable[[Failure], None],
        done: int = 0,
    ) -> None:
        """Raise a page fault, unless the requester already waits for another page.

        If the request cannot wait or the driver refuses the page, ``refuse`` is called with the
        reason. ``done`` bytes of the request are transferred; it continues after them.
        """
        hca, qp = self._connection.hca, self._qp
        error = Failure.of_access(page, request.wqe.opcode)
        if _REQUESTER in qp.page_faults:
            return
        if not page_faults.request_may_wait(hca.events, hca.caps, qp, request.wqe):
            self.is_stuck = False
            refuse(error)
            return

        def refused(why: str) -> None:
            refuse(Failure(error.syndrome, why, error.cause))

        access = page_faults.request_access(qp, request.wqe, done)
        fault = page_faults.suspend(hca, qp, _REQUESTER, access, page, refused)
        fault.wait(self._page_present)

    def _page_present(self, _: Outcome | None) -> None:
        """Resume sending in the next poll, after a page fault has ended in any way."""
        self.is_stuck = False
        self._connection.hca.scheduler.schedule(self._qp)

    def _admit_failed(self, request: WindowRequest, why: Failure) -> None:
        """Add a request to the window that fails, with ``why``, once all before it are complete."""
        if not self._window.requests:
            self._window.restart(self._qp.psn)
        self.fail(request, why)
        self._append(request)
        self._completer.retire()

    def fail(self, request: WindowRequest, why: Failure) -> None:
        """Fail a request of the window with ``why``, once all before it are complete.

        Until then it is only marked, and sends no more packets.
        """
        request.failure = why
        if self._window.requests and request is self._window.requests[0]:
            self._completer.retire()
