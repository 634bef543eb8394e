"""Dynamically connected transport (DC): an initiator's messages to targets in this process.

Each request of an initiator (DCI) names its target (DCT) by an address vector, a number and the
target's access key. A responder for this initiator and target (the PRM's DCR) receives the message.
The responder has the target's domain, rights and shared receive queue, and fails without stopping
the target. The responder ends when the initiator stops or sends to another target, when the target
is destroyed or when its function stops. No table has it: only initiator and target refer to it, and
either of them ends it.

DC's packet format is not public. A target is therefore reachable only in this process, without
packets. An initiator gets no response from other processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.send_requests import Failure
from emu.device.engine.rc.local import count, pass_on
from emu.device.engine.rc.validation import check_whole_length
from emu.device.objects.memory.pages import no_pages
from emu.device.objects.queues.dct import Dct
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.outcome import Dropped, Outcome
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import Wqe
from emu.device.port import partitions
from emu.device.rounds.sizes import COST_OF_ENDING, RESPONDERS_FREED_PER_POLL
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType, RqType
from layouts.objects.qp import qpc

if TYPE_CHECKING:
    from emu.device.port.link import Link
    from emu.device.state.hca import Hca


_SAME: Final = ("pd", "rre", "rwe", "rae", "atomic_mode", "mtu", "min_rnr_nak", "rlky")
"""Fields of a target's context that a qpc has as well."""


class Dcr(Qp):
    """Responder of one initiator at one target."""

    __slots__ = ("dct", "initiator", "lifetime", "node")

    def __init__(self, node: Hca, dct: Dct, initiator: Qp) -> None:
        """Create the responder; ``node`` is the target's function."""
        given = {name: getattr(dct.ctx, name) for name in _SAME}
        ctx = qpc.new(st=QpType.DCT, rq_type=RqType.SRQ, remote_qpn=initiator.handle, **given)
        ctx.log_msg_max = node.caps.general.log_max_msg
        super().__init__(
            ctx, no_pages(node.memory), pd=dct.pd, rcq=dct.cq, srq=dct.srq, counter=dct.counter
        )
        self.node = node
        self.lifetime = node.lifetime
        self.dct = dct
        self.initiator = initiator
        self.handle, self.uidx, self.cs_res = dct.handle, dct.uidx, dct.cs_res
        self.state = QpState.RTR
        dct.responders[self] = None
        initiator.responder = self

    def leave(self) -> None:
        """End the responder: unlink it from target and initiator, and set its state to RST.

        Its page faults are cancelled, and an unfilled receive request returns to the target's SRQ.
        If the target's function has dropped its objects, the request is only forgotten. Later calls
        have no effect.
        """
        self.dct.responders.pop(self, None)
        if self.initiator.responder is self:
            self.initiator.responder = None
        self.state = QpState.RST
        self.stop_waiting()
        if self.lifetime.is_over:
            self.detach_receives()
        else:
            qp_life.stop_paging(self.node, self)


def exchange(hca: Hca, qp: Qp, wqe: Wqe, message: Message) -> Outcome | None:
    """Hand an initiator's message to its target; return None when it is acknowledged.

    Returns Dropped when no function of this process has the target, or when the target refuses the
    message. Returns BAD_RESP_ERR as a Failure for READ data of another MTU, or an outcome of
    ``local.pass_on``. An acknowledged message resets the retry counts and is counted at both ports.
    """
    node = hca.wire.node(message.address)
    if node is None or (dct := node.dcts.get(message.dctn)) is None:
        return Dropped("no such target")
    if not _accepts(hca.link, node.link, qp, dct, message):
        return Dropped("the target refuses the message")
    peer = _responder(hca, qp, node, dct, message)
    outcome = None
    if peer.mtu_bytes != qp.mtu_bytes:
        outcome = _check_length(node, peer, message, qp.mtu_bytes)
    outcome = outcome or pass_on(hca, qp, wqe, node, peer, message)
    if outcome is not None:
        return outcome
    qp.retries = qp.rnr_retries = 0
    packets = -(-message.length // qp.mtu_bytes) or 1
    count(hca.link, node.link, qp, message, packets)
    return None


def _accepts(link: Link, far_link: Link, qp: Qp, dct: Dct, message: Message) -> bool:
    """Return whether the target accepts this message of this initiator.

    False for a drained target, a CQ in error, a link that is down, a packet beyond a port's MTU, or
    wrong GIDs. False also for a P_Key mismatch, counted at the target's port, and for a wrong
    access key, counted in ``dct.key_violations``.
    """
    if dct.is_drained or dct.cq.status or not (link.is_up and far_link.is_up):
        return False
    if min(message.length, qp.mtu_bytes) > min(link.max_payload, far_link.max_payload):
        return False
    if message.route is not None and far_link.misrouted(*message.route):
        return False
    if not partitions.match(far_link.pkey(dct.pkey_index), link.pkey(qp.pkey_index)):
        far_link.violated_pkey()
        return False
    if message.access_key != dct.access_key:
        dct.key_violations += 1
        return False
    return True


def _check_length(node: Hca, peer: Qp, message: Message, mtu_bytes: int) -> Outcome | None:
    """Return None if a message fits the different path MTUs of both ends, else its refusal.

    A target refuses packets of another length than its own MTU, like any responder: Nak
    (INVALID_REQUEST), and the responder goes to ERR. The initiator refuses a READ response of
    unexpected length: Failure with BAD_RESP_ERR.
    """
    refused = check_whole_length(node, peer, message, mtu_bytes)
    # Only a READ longer than the smaller MTU has passed the check: its request is one packet.
    if refused is None and message.length > min(peer.mtu_bytes, mtu_bytes):
        return Failure(CqeSyndrome.BAD_RESP_ERR, "READ response of another MTU")
    return refused


def _responder(hca: Hca, qp: Qp, node: Hca, dct: Dct, message: Message) -> Dcr:
    """Return the initiator's responder at the target; create one if it has none in RTR.

    A new responder replaces and ends the initiator's earlier one, counts rx_dct_connect at the
    target, and sets ``qp.header_bytes`` for the path.
    """
    dcr = qp.responder
    if isinstance(dcr, Dcr) and dcr.dct is dct and dcr.state is QpState.RTR:
        return dcr
    if dcr is not None:
        dcr.leave()
    made = Dcr(node, dct, qp)
    made.count("rx_dct_connect")
    is_global = message.route is not None
    qp.header_bytes = hca.link.header_bytes(message.address, is_global=is_global)
    return made


def end_all(dct: Dct) -> Iterator[int]:
    """End all responders of a destroyed target; yield COST_OF_ENDING after each."""
    while dct.responders:
        responder, _ = dct.responders.popitem()
        responder.leave()
        yield COST_OF_ENDING


def end_some(dct: Dct) -> bool:
    """End at most RESPONDERS_FREED_PER_POLL responders of a target; return True if any is left."""
    for responder in list(islice(dct.responders, RESPONDERS_FREED_PER_POLL)):
        responder.leave()
    return bool(dct.responders)
