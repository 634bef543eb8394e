"""A queue's turn: what it does when it stands first in the device's ready list.

Every queue whose doorbell rang stands there; a turn does a bounded number of its requests and puts
it back. What a turn is, each class of queue says with a function that is decorated ``@turn_of``.
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
    """Register what a turn of this class of queue is. Raises ValueError when it has one."""

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
    """Answer, then send: directly within this process, as packets to any other."""
    more = False
    if qp.link is not None:
        # What was asked is answered, even when the queue pair has failed over it.
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
        if qp.link is not None or hca.wire.reaches(qp.rlid):
            return link_of(hca, qp).requester.turn() or more
        return qp.timer is None and not _waits_for_page(qp) and requester.turn(hca, qp)
    except (BadWqeError, DmaError) as error:
        send_work.break_queue(hca, qp, error)
        return more


def _waits_for_page(qp: Qp) -> bool:
    """Whether requests stand still until a driver has brought a page in: ours, or the peer's."""
    return qp.held_by is not None or (bool(qp.faults) and Side.REQUESTER in qp.faults)
