"""Function after its probe, with the objects that memory and queues need."""

from __future__ import annotations

from collections import Counter
from typing import Any

from emu.device.function.function import Function
from emu.driver.command.driver import Driver
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_cq_err, eqe_qp_srq

ASYNC_EVENTS = (
    EventType.COMM_EST, EventType.PATH_MIG, EventType.PATH_MIG_FAILED,
    EventType.SQ_DRAINED, EventType.CQ_ERROR, EventType.WQ_CATAS_ERROR,
    EventType.WQ_INVAL_REQ_ERROR, EventType.WQ_ACCESS_ERROR, EventType.SRQ_CATAS_ERROR,
    EventType.SRQ_LAST_WQE, EventType.SRQ_RQ_LIMIT,
)  # fmt: skip


class Endpoint:
    """Function with its driver, one protection domain, and EQs for completions and for other
    events.

    ``hca`` is the device's side, which a real driver could not access.
    """

    def __init__(self, function: Function, driver: Driver) -> None:
        """Create domain and EQs; ``driver`` has probed the function."""
        self.function, self.driver = function, driver
        self.memory = driver.memory
        self.hca = function.hca
        self.pdn = driver.alloc_pd()
        self.eqn = driver.create_eq(log_size=8)
        self.driver.eqs[self.eqn].arm()
        self.completion_events: Counter[int] = Counter()
        """Number of events read from the EQ of completions by CQ, until that CQ counts them."""
        self.async_eqn = driver.create_eq(log_size=8, events=ASYNC_EVENTS)

    @property
    def lid(self) -> int:
        """LID of the port."""
        return self.hca.link.lid

    def path_to(self, peer: Endpoint) -> dict[str, Any]:
        """Return the address path of a queue pair to another node: fields of ads."""
        return {"rlid": peer.lid}

    def vector_to(self, peer: Endpoint) -> dict[str, Any]:
        """Return the path as fields of an address vector."""
        return {"rlid": peer.lid}

    def settle(self) -> None:
        """Let the device do all its work."""
        self.driver.bar.settle()

    def events(self) -> list[tuple[EventType, int]]:
        """Return the asynchronous events since the last call: (type, number of CQ, QP or SRQ)."""
        events: list[tuple[EventType, int]] = []
        for entry in self.driver.eqs[self.async_eqn].drain():
            event = EventType(entry.type)
            if event is EventType.CQ_ERROR:
                events.append((event, eqe_cq_err.view(entry.data).cqn))
            else:
                events.append((event, eqe_qp_srq.view(entry.data).qp_srq_n))
        return events
