"""A function that is up, and what the verbs objects of one process share."""

from __future__ import annotations

from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.region import Region
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums import EventType, QpType
from layouts.eqe import eqe_cq_err, eqe_qp_srq

ASYNC_EVENTS = (
    EventType.COMM_EST,
    EventType.SQ_DRAINED, EventType.CQ_ERROR, EventType.WQ_CATAS_ERROR,
    EventType.WQ_INVAL_REQ_ERROR, EventType.WQ_ACCESS_ERROR, EventType.SRQ_CATAS_ERROR,
    EventType.SRQ_LAST_WQE, EventType.SRQ_RQ_LIMIT,
)  # fmt: skip


class Node:
    """A function that is up, and what its queue pairs share."""

    def __init__(self, function, driver):
        self.function, self.driver = function, driver
        self.memory = driver.memory
        self.hca = function.hca
        self.pdn = driver.alloc_pd()
        self.eqn = driver.create_eq(log_size=8)
        self.driver.eqs[self.eqn].arm()
        self.async_eqn = driver.create_eq(log_size=8, events=ASYNC_EVENTS)

    @property
    def lid(self):
        return self.hca.link.lid

    def path_to(self, peer):
        """The address path of a queue pair to another node: fields of ads."""
        return {"rlid": peer.lid}

    def vector_to(self, peer):
        """The same as fields of an address vector."""
        return {"rlid": peer.lid}

    def settle(self):
        """Let the device do all its work."""
        self.driver.bar.settle()

    def events(self):
        """The asynchronous events since the last look: (type, number of what they are about)."""
        found = []
        for entry in self.driver.eqs[self.async_eqn].drain():
            event = EventType(entry.type)
            about = eqe_cq_err if event is EventType.CQ_ERROR else eqe_qp_srq
            view = about.view(entry.data)
            found.append((event, view.cqn if about is eqe_cq_err else view.qp_srq_n))
        return found

    def region(self, size, **context):
        return Region(self, size, **context)

    def completion_queue(self, log_size=8, **context):
        return CompletionQueue(self, log_size, **context)

    def shared_queue(self, **options):
        return SharedQueue(self, **options)

    def queue_pair(self, st=QpType.RC, **context):
        return QueuePair(self, st, **context)
