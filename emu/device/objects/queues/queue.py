"""What all queues that a doorbell names have in common, whatever kind of work they hold."""

from __future__ import annotations

from typing import Final

from emu.device.objects.domains import QCounter
from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from emu.device.objects.queues.send_queue import SendRing

FIRST_QPN: Final = 0x40
"""Numbers 0 and 1 mean the SMI and the GSI on the wire."""

MIN_LOG_MAX_QP: Final = 7
"""There are so many queue pairs even if the driver asks for fewer (log_max_qp of SET_HCA_CAP).

iPXE's golan.c asks for 2^0 and makes a few.
"""


def _log_numbers(made: Limits) -> int:
    caps = made.caps.general
    return max(caps.log_max_qp, caps.log_max_sq, caps.log_max_rq, MIN_LOG_MAX_QP)


QUEUE_NUMBERS: Final = Numbering(lambda made: 1 << _log_numbers(made), first=FIRST_QPN)
"""Queue pairs share their numbers with everything that a send doorbell can name, and with receive
queues: a dump of a queue has nothing else to tell them apart."""

QP_NUMBERS: Final = QUEUE_NUMBERS.at_most(
    lambda made: 1 << max(made.caps.general.log_max_qp, MIN_LOG_MAX_QP)
)
"""Those of queue pairs, and of what is like one."""


class Queue(Object):
    """A queue that a doorbell names by its number, and that is then scheduled for turns.

    The subclass determines what a turn does (``emu.device.state.polls``).
    """

    __slots__ = ("counter", "has_failed", "has_real_time", "is_ready", "send_ring", "uidx")
    numbering = QP_NUMBERS

    def __init__(self, send_ring: SendRing | None = None) -> None:
        super().__init__()
        self.send_ring = send_ring
        """Where its send requests are, if it has any."""
        self.is_ready = False
        """Whether it is in the device's ready list."""
        self.has_failed = False
        """Whether the device has stopped it because of an error, not a command."""
        self.counter: QCounter | None = None
        """The counter set that it adds to."""
        self.has_real_time = False
        """Whether its completions tell the time of day instead of the counter."""
        self.uidx: int | None = None
        """What its completions call it (user_index); None: nothing but its number."""

    def count_into(self, counter: QCounter | None) -> None:
        """Refer to another counter set from now on, or to none; the queue is in a table."""
        if counter is not None:
            counter.refs += 1
        if self.counter is not None:
            self.counter.refs -= 1
        self.counter = counter

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of the queue's set."""
        if self.counter is not None:
            self.counter.values[name] += by


class ReservedQpn(Object):
    """A queue pair number that no queue pair gets; it is the handle."""

    __slots__ = ()
    kind = "reserved qpn"
    numbering = QP_NUMBERS
