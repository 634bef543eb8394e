"""A queue's turn: what it does when it is first in the device's ready list.

A doorbell puts its queue on that list. A turn does a bounded number of the queue's requests, and
the queue goes back on the list if there are more. Each class of queue registers its turn function
with ``@turn_of``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.hca import Hca
from emu.engine.packets.link import link_of
from emu.engine.qp import lifecycle as qp_life
from emu.engine.qp import send_requests as send_work
from emu.engine.rc import requester
from emu.objects import Qp, Queue
from emu.objects.page_fault import Side
from emu.objects.send_queue import BadWqeError
from emu.ports import DmaError
from layouts.enums import QpState

_RTS = QpState.RTS
"""Up to CPython 3.11 an enumeration's attribute costs five times as much as a global."""


Turn = Callable[[Hca, Any], bool]
"""Does a share of a queue's waiting work; True when it wants another turn."""

_TURNS: dict[type[Queue], Turn] = {}


def turn_of(kind: type[Queue]) -> Callable[[Turn], Turn]:
    """Register the turn function of a class of queue. Raises ValueError if it has one."""

    def register(function: Turn) -> Turn:
        if kind in _TURNS:
            raise ValueError(f"{kind.__name__} has a turn already: {_TURNS[kind]}")
        _TURNS[kind] = function
        return function

    return register


def turn(hca: Hca, queue: Queue) -> bool:
    """Do a share of a queue's waiting work; True when it wants another turn."""
    return _TURNS[type(queue)](hca, queue)


@turn_of(Qp)
def _queue_pair(hca: Hca, qp: Qp) -> bool:
    """Send responses, then requests: directly within this process, else in packets."""
    more = False
    if qp.link is not None:
        # Responses are sent even after the queue pair has failed: the NAK is one of them.
        more = qp.link.respond()
    if qp.sq is None:
        return more
    if qp.state is not _RTS:
        qp_life.flush(hca, qp)
        return more
    if qp.is_draining and (qp.link is None or not qp.link.is_awaiting):
        qp_life.drained(hca, qp)
        return more
    try:
        if qp.link is not None or hca.wire.reaches(qp.destination):
            return link_of(hca, qp).requester.turn() or more
        return qp.timer is None and not _waits_for_page(qp) and requester.turn(hca, qp)
    except (BadWqeError, DmaError) as error:
        send_work.break_queue(hca, qp, error)
        return more


def _waits_for_page(qp: Qp) -> bool:
    """Whether requests wait until a driver, ours or the peer's, has brought a page in."""
    return qp.held_by is not None or (bool(qp.faults) and Side.REQUESTER in qp.faults)
