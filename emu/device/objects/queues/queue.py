"""The base class of all queues that a doorbell names."""

from __future__ import annotations

from typing import Final

from emu.device.objects.domains import QCounter
from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from emu.device.objects.queues.send_queue import SendRing

FIRST_QPN: Final = 0x40
"""Number of the first queue pair; 0 and 1 mean the SMI and the GSI on the wire."""

MIN_LOG_MAX_QP: Final = 7
"""log2 of the minimum number of queue pairs, even if SET_HCA_CAP sets a lower log_max_qp.

iPXE's golan.c sets 2^0 and creates a few.
"""


def _log_numbers(made: Limits) -> int:
    caps = made.caps.general
    return max(caps.log_max_qp, caps.log_max_sq, caps.log_max_rq, MIN_LOG_MAX_QP)


QUEUE_NUMBERS: Final = Numbering(lambda made: 1 << _log_numbers(made), first=FIRST_QPN)
"""Numbers shared by queue pairs, other queues with send doorbells, and receive queues: a queue dump
distinguishes them by number only."""

QP_NUMBERS: Final = QUEUE_NUMBERS.at_most(
    lambda made: 1 << max(made.caps.general.log_max_qp, MIN_LOG_MAX_QP)
)
"""Numbers of queue pairs and similar objects."""


class Queue(Object):
    """A queue that a doorbell names by its number and that is then scheduled for polls.

    The subclass determines the work of a poll (``emu.device.state.polls``).
    """

    __slots__ = ("counter", "has_failed", "has_real_time", "is_ready", "send_ring", "uidx")
    numbering = QP_NUMBERS

    def __init__(self, send_ring: SendRing | None = None) -> None:
        super().__init__()
        self.send_ring = send_ring
        """The ring of send WQEs, if any."""
        self.is_ready = False
        """Whether the queue is in the device's ready list."""
        self.has_failed = False
        """Whether an error, not a command, has stopped the queue."""
        self.counter: QCounter | None = None
        """The counter set of the queue."""
        self.has_real_time = False
        """Whether its completions carry the time of day instead of the counter."""
        self.uidx: int | None = None
        """user_index for its completions; None: only the queue's number."""

    def count_into(self, counter: QCounter | None) -> None:
        """Count into another counter set, or none; move the reference from the old set to the new.

        The queue is in a table.
        """
        if counter is not None:
            counter.refs += 1
        if self.counter is not None:
            self.counter.refs -= 1
        self.counter = counter

    def count(self, name: str, by: int = 1) -> None:
        """Add ``by`` to a counter of the queue's set; no effect without a set."""
        if self.counter is not None:
            self.counter.values[name] += by


class ReservedQpn(Object):
    """A queue pair number that no queue pair gets; the number is the handle."""

    __slots__ = ()
    kind = "reserved qpn"
    numbering = QP_NUMBERS
