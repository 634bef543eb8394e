"""A function that is up, as far as memory and queues need it."""

from __future__ import annotations

from typing import Any

from emu.device.function.function import Function
from emu.driver.command.driver import Driver
from layouts.enums import EventType
from layouts.rings.eqe import eqe_cq_err, eqe_qp_srq

ASYNC_EVENTS = (
    EventType.COMM_EST, EventType.PATH_MIG, EventType.PATH_MIG_FAILED,
    EventType.SQ_DRAINED, EventType.CQ_ERROR, EventType.WQ_CATAS_ERROR,
    EventType.WQ_INVAL_REQ_ERROR, EventType.WQ_ACCESS_ERROR, EventType.SRQ_CATAS_ERROR,
    EventType.SRQ_LAST_WQE, EventType.SRQ_RQ_LIMIT,
)  # fmt: skip


class Endpoint:
    """A function with its driver, one protection domain, and EQs for completions and for the rest.

    ``hca`` is the device's side, which no driver could see.
    """

    def __init__(self, function: Function, driver: Driver) -> None:
        """``driver`` has probed the function."""
        self.function, self.driver = function, driver
        self.memory = driver.memory
        self.hca = function.hca
        self.pdn = driver.alloc_pd()
        self.eqn = driver.create_eq(log_size=8)
        self.driver.eqs[self.eqn].arm()
        self.async_eqn = driver.create_eq(log_size=8, events=ASYNC_EVENTS)

    @property
    def lid(self) -> int:
        """The port's LID."""
        return self.hca.link.lid

    def path_to(self, peer: Endpoint) -> dict[str, Any]:
        """The address path of a queue pair to another node: fields of ads."""
        return {"rlid": peer.lid}

    def vector_to(self, peer: Endpoint) -> dict[str, Any]:
        """The same as fields of an address vector."""
        return {"rlid": peer.lid}

    def settle(self) -> None:
        """Let the device do all its work."""
        self.driver.bar.settle()

    def events(self) -> list[tuple[EventType, int]]:
        """The asynchronous events since the last look: (type, number of what they are about)."""
        events: list[tuple[EventType, int]] = []
        for entry in self.driver.eqs[self.async_eqn].drain():
            event = EventType(entry.type)
            if event is EventType.CQ_ERROR:
                events.append((event, eqe_cq_err.view(entry.data).cqn))
            else:
                events.append((event, eqe_qp_srq.view(entry.data).qp_srq_n))
        return events
