"""The interfaces between the parts of a queue pair's packet connection."""

from __future__ import annotations

from typing import Protocol

from emu.device.engine.mr.rights import AccessError
from emu.device.engine.rc.packets.window import WindowRequest
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.page_fault import PageFault
from emu.device.objects.queues.qp import Qp
from emu.device.port.packet import Packet
from emu.device.ports import CarryTrain
from emu.device.state.hca import Hca


class RequesterPart(Protocol):
    """The requester, as the completer sees it."""

    @property
    def is_stuck(self) -> bool:
        """Whether it waits for a page."""

    def ask(self) -> bool:
        """Ask what has arrived, by a packet that is sent again; False if that cannot be now."""

    def repeat(self) -> bool:
        """Send the oldest packet again; False when that cannot be, or is not enough."""

    def stall(self, request: WindowRequest, page: AccessError, done: int) -> None:
        """A response needs an absent page, ``done`` bytes into its request."""


class ResponderPart(Protocol):
    """The responder, as its responses see it."""

    def wait_for(self, fault: PageFault) -> None:
        """The responder waits for a page."""


class InnerConnection(Protocol):
    """One queue pair's packet connection (``emu.device.engine.rc.packets.connection``)."""

    hca: Hca
    qp: Qp
    is_waiting: bool
    """The wire has no room: nothing is sent until it schedules the queue pair again."""
    repeats_selectively: bool
    """What comes after a gap is kept, and only what was lost is sent again."""

    @property
    def requester(self) -> RequesterPart:
        """Sends requests."""

    @property
    def responder(self) -> ResponderPart:
        """Takes requests."""

    def trains(self) -> CarryTrain | None:
        """What carries trains to the peer; None when each packet has to go alone."""

    def send_train(self, carry: CarryTrain, packet: Packet, payload: Views, count: int) -> None:
        """Put ``count`` middle packets of a message, beginning with ``packet``, on the wire."""

    def send(self, packet: Packet, payload: Views = (), length: int = 0) -> None:
        """Put a packet on the wire, where it may be lost."""
