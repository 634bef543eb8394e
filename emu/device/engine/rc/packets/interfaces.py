"""Interfaces between the components of a queue pair's packet connection."""

from __future__ import annotations

from typing import Protocol

from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.qp.send_requests import Failure
from emu.device.engine.rc.packets.window import WindowRequest
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.page_fault import PageFault
from emu.device.objects.queues.qp import Qp
from emu.device.port.packet import Packet
from emu.device.ports import CarryTrain
from emu.device.state.hca import Hca


class RequesterPart(Protocol):
    """Interface of the requester for the completer."""

    @property
    def is_idle(self) -> bool:
        """Whether the last poll has sent all posted requests."""

    @property
    def is_stuck(self) -> bool:
        """Whether the requester waits for a page."""

    def stall(self, request: WindowRequest, page: AccessError, done: int) -> None:
        """Suspend sending: a request needs an absent page, ``done`` bytes into its data."""

    def fail(self, request: WindowRequest, why: Failure) -> None:
        """Fail a request of the window, once all before it are complete."""


class SenderPart(Protocol):
    """Interface of the sender of packets for the completer."""

    def ask(self) -> bool:
        """Send a probe, a packet that is sent again; return False if that is impossible now."""

    def repeat(self) -> bool:
        """Send the oldest packet again; return False when that is impossible or not enough."""


class ResponderPart(Protocol):
    """Interface of the responder for its responses."""

    def wait_for_page(self, fault: PageFault) -> None:
        """Suspend the responder until a page is present."""

    def start_page_timer(self) -> None:
        """Start the time limit for the page, if the responder waits for one and no limit runs."""


class InnerConnection(Protocol):
    """Packet connection of one queue pair (``emu.device.engine.rc.packets.connection``)."""

    hca: Hca
    qp: Qp
    is_waiting: bool
    """Whether sending waits until the wire has space or the rate allows it."""
    repeats_selectively: bool
    """Whether packets after a gap are kept, and only lost packets are sent again."""

    @property
    def requester(self) -> RequesterPart:
        """Component that sends requests."""

    @property
    def sender(self) -> SenderPart:
        """Component that sends the packets of requests."""

    @property
    def responder(self) -> ResponderPart:
        """Component that receives requests."""

    def trains(self) -> CarryTrain | None:
        """Return the function that sends trains to the peer; None to send each packet alone."""

    def send_train(self, carry: CarryTrain, packet: Packet, payload: Views, count: int) -> None:
        """Put ``count`` middle packets of a message, starting with ``packet``, on the wire."""

    def send(self, packet: Packet, payload: Views = (), length: int = 0) -> None:
        """Put a packet on the wire, where it may be lost."""
