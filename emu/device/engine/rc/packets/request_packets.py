"""Builds the packets of SENDs, WRITEs, READs and atomics (IBTA 9.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.mr.rights import LOCAL_READ
from emu.device.engine.rc.packets.window import WindowRequest
from emu.device.engine.rc.validation import KINDS
from emu.device.engine.wqe.messages import memory_of
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.qp import Qp
from emu.device.port.packet import OPS, SERVICES, Packet
from layouts.prm import Prm
from layouts.wire import bth
from layouts.wire.bth import PSN_MASK

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


def offset_of(qp: Qp, request: WindowRequest, psn: int) -> int:
    """Return the offset in bytes of a packet's data in those of its request."""
    return (psn - request.first & PSN_MASK) * qp.mtu_bytes


def placing(
    hca: Hca, qp: Qp, request: WindowRequest, psn: int, count: int = 1
) -> tuple[Packet, Views, int]:
    """Return a packet of a SEND or a WRITE, its payload and the payload's length.

    For a train of ``count`` packets, return its first packet and the payload of all. Raises
    AccessError when the payload cannot be read, TOO_FRAGMENTED also for a train. The packet is not
    sent.
    """
    message = request.message
    assert message is not None
    offset = offset_of(qp, request, psn)
    size = min(qp.mtu_bytes * count, message.length - offset)
    payload = memory_of(hca, qp, request.wqe, message, LOCAL_READ, offset, size)
    is_last = (psn + count) & PSN_MASK == request.end
    return _packet(qp, message, psn, is_first=not offset, is_last=is_last), payload, size


def asking_for_data(qp: Qp, request: WindowRequest, psn: int) -> Packet:
    """Return a READ of the response ``psn`` and all after it, or an atomic; it is not sent."""
    message = request.message
    assert message is not None
    offset = offset_of(qp, request, psn)
    packet = _packet(qp, message, psn, is_first=True, is_last=True)
    packet.va, packet.length = message.va + offset, message.length - offset
    packet.swap_add, packet.compare = message.swap_add, message.compare
    packet.swap_add_mask, packet.compare_mask = message.swap_add_mask, message.compare_mask
    packet.ack_request = True
    return packet


def _packet(qp: Qp, message: Message, psn: int, *, is_first: bool, is_last: bool) -> Packet:
    """Return a packet of a message with its header fields; immediate data only in the last one."""
    ending: type[Prm] | None = None
    if is_last and message.immediate is not None:
        ending = bth.imm_dt
    elif is_last and message.inv_rkey is not None:
        ending = bth.ieth
    op = OPS[SERVICES[qp.st], KINDS[message.op], is_first, is_last, ending]
    packet = Packet(op, qp.remote_qpn, psn)
    packet.va, packet.rkey, packet.length = message.va, message.rkey, message.length
    packet.immediate, packet.inv_rkey = message.immediate, message.inv_rkey
    packet.srqn = message.srqn
    packet.solicited = message.solicited and is_last
    return packet
