"""A queue pair's turn: what it does when it stands first in the device's ready list.

Every queue pair whose doorbell rang stands there; a turn does a bounded number of its requests and
puts it back. Requests go directly to a queue pair of this process, and as packets to any other.
"""

from __future__ import annotations

from emu.engine import qp_life, requester, send_work
from emu.engine.odp import Side
from emu.engine.packets.link import link_of
from emu.engine.sq import BadWqeError
from emu.hca import Hca
from emu.objects import Qp
from emu.ports import DmaError
from layouts.enums import QpState

_RTS = QpState.RTS
"""Up to CPython 3.11 an enumeration's attribute costs five times as much as a global."""


def turn(hca: Hca, qp: Qp) -> bool:
    """Do a share of a queue pair's waiting work; True when it wants another turn."""
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
