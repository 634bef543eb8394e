"""The trace interface of the running device, as the core sees it.

``hca.probes.tracer`` is a :class:`DeviceTracer` or None, and the core always calls its trace points
as ``if tracer: tracer.point(...)``. ``emu.device.trace`` implements it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.memory.mkey import Mkey
    from emu.device.objects.queues.page_fault import PageFault
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.objects.table import Table
    from emu.device.ports import Buffer
    from layouts.enums.eqe import EventType


class DeviceTracer(Protocol):
    """Receives the device's trace points. Without a tracer, each point costs an attribute test."""

    def power_on(self, model: str, uar_end: int) -> None:
        """Record that a function of this model is in its power-on state: just created, or reset.

        ``uar_end`` is the end of the UAR pages in its BAR 0, in bytes.
        """

    def mmio(self, kind: str, offset: int, data: Buffer) -> None:
        """Record a BAR 0 access.

        ``kind`` is "read" or "write", ``data`` the bytes read or written.
        """

    def eqe(self, eqn: int, event: EventType, sub_type: int, data: Buffer) -> None:
        """Record an event queue entry that was written; ``data`` is the event's own part."""

    def irq(self, vector: int, eqn: int) -> None:
        """Record an interrupt that was raised for an event queue."""

    def wqe(self, mkeys: Table[Mkey], queue: Qp | Sq, wqe: Wqe) -> None:
        """Record a work request that is about to be executed, or is retried.

        ``mkeys`` are the function's keys, which tell the kind of a UMR.
        """

    def summary(self) -> Iterator[str]:
        """Yield lines for the end of a run: the number of events of each kind."""

    def cqe(self, cqn: int, entry: bytes, op_own: int) -> None:
        """Record a CQE that was written: all bytes but the last, and the last one (``op_own``)."""

    def nak(self, qpn: int, check: str, why: str) -> None:
        """Record that a responder's ``check`` has refused a request of a connected service."""

    def page_fault(self, fault: PageFault, outcome: str, took_ns: int) -> None:
        """Record the end of a page fault, ``took_ns`` after it was raised.

        ``outcome`` is resumed, error (the driver gave up) or cancelled (the queue pair stopped).
        """
