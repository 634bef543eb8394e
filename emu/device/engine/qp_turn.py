"""A queue pair's turn: responses, requests, flush."""

from __future__ import annotations

from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp import send_requests
from emu.device.engine.qp.flush import flush
from emu.device.engine.rc import requester
from emu.device.engine.rc.agreement import NeedsPacketsError
from emu.device.engine.rc.packets.connection import connection_of
from emu.device.objects.queues.page_fault import Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError
from emu.device.ports import DmaError
from emu.device.state.hca import Hca
from emu.device.state.turns import turn_of
from layouts.enums import QpState

_RTS = QpState.RTS


@turn_of(Qp)
def turn(hca: Hca, qp: Qp) -> bool:
    """Send responses, then requests: directly within this process, else in packets."""
    more = False
    if qp.connection is not None:
        # Responses are sent even after the queue pair has failed: the NAK is one of them.
        more = qp.connection.respond()
    if qp.sq is None:
        return more
    if qp.state is not _RTS:
        flush(hca, qp)
        return more
    if qp.is_draining and (qp.connection is None or not qp.connection.is_awaiting):
        qp_life.drained(hca, qp)
        return more
    try:
        if qp.connection is not None or hca.wire.reaches(qp.destination):
            return connection_of(hca, qp).requester.turn() or more
        return qp.timer is None and not _waits_for_page(qp) and requester.turn(hca, qp)
    except NeedsPacketsError:
        connection_of(hca, qp)  # from the next turn on, until the queue pair is reset
        return True
    except (BadWqeError, DmaError) as error:
        send_requests.break_queue(hca, qp, error)
        return more


def _waits_for_page(qp: Qp) -> bool:
    """Whether requests wait until a driver, ours or the peer's, has brought a page in."""
    return qp.held_by is not None or (bool(qp.page_faults) and Side.REQUESTER in qp.page_faults)
