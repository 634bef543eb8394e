"""Messages between queue pairs of this process that are too much for one turn.

A message that is long, or whose keys fall into many pieces, is moved a share at a time; other
queues get their turns in between. It then takes effect as it would in packets: bytes that were
moved stay even if the rest fails, and a key that was valid at the start may be gone in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.qp import send_requests
from emu.device.engine.rc import direct
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.outcome import UNFINISHED, Dropped, InPieces, Outcome
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.costs import LOG_BYTES_PER_STEP

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

DIVISIBLE = frozenset({MsgOp.SEND, MsgOp.WRITE, MsgOp.READ})
"""Operations that can be moved in shares; an atomic cannot."""


def move(hca: Hca, qp: Qp, node: Hca, peer: Qp, message: Message) -> Outcome | None:
    """Move a turn's share of a message to its peer; None when that was the last one.

    UNFINISHED when there are more: the message goes on after ``done`` bytes in its next turn. All
    else is what has gone wrong at the requester, or the responder's response.
    """
    if message.begun is not None and not direct.is_begun(peer, message):
        message.done, message.begun, message.taken = 0, None, None
    round_ = hca.round
    limit = round_.share()
    while round_.steps < limit:
        length = min(message.most, message.length - message.done)
        outcome = _move(hca, qp, node, peer, message, length)
        if isinstance(outcome, InPieces):
            message.most = max(min(outcome.most, length - 1), 1)
        elif outcome is not None:
            return outcome
        else:
            message.done += length
            if message.done == message.length:
                return None
        round_.charge((length >> LOG_BYTES_PER_STEP) + 1)
    return UNFINISHED


def _move(hca: Hca, qp: Qp, node: Hca, peer: Qp, message: Message, length: int) -> Outcome | None:
    wqe = message.wqe
    assert wqe is not None
    local = send_requests.piece(hca, qp, wqe, message, length)
    if isinstance(local, Outcome):
        return local
    try:
        return direct.take_share(node, peer, message, local, length, hca.link.lid)
    except Exception:  # a bug in the peer stops only the peer: no response
        node.fail()
        return Dropped("the peer has failed")
