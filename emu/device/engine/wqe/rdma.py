"""SEND, RDMA WRITE and RDMA READ of connected services, and NOP (PRM "Send WQE format")."""

from __future__ import annotations

from emu.device.engine.mr.rights import LOCAL_WRITE
from emu.device.engine.wqe.registry import CONNECTED, DATAGRAM, RELIABLE, Work, wqe_op
from emu.device.engine.wqe.segments import after_receiver, listed, outgoing, remote_address
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import Wqe
from emu.device.state.hca import Hca
from layouts.enums import Opcode, QpType

_SEND, _WRITE, _READ = MsgOp.SEND, MsgOp.WRITE, MsgOp.READ


@wqe_op(Opcode.NOP, CONNECTED | DATAGRAM | {QpType.REG_UMR})
def nop(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Nothing but a completion."""
    return None


@wqe_op(Opcode.SEND, CONNECTED)
def send(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, [xrc or av], data."""
    message = Message(_SEND, 0)
    return outgoing(hca, qp, wqe, message, after_receiver(hca, qp, wqe, message))


@wqe_op(Opcode.SEND_IMM, CONNECTED)
def send_imm(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As SEND; the immediate is in the control segment."""
    message = Message(_SEND, 0)
    message.immediate = wqe.imm
    return outgoing(hca, qp, wqe, message, after_receiver(hca, qp, wqe, message))


@wqe_op(Opcode.SEND_INVAL, RELIABLE)
def send_inval(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As SEND; the rkey to invalidate is in the control segment."""
    message = Message(_SEND, 0)
    message.inv_rkey = wqe.imm
    return outgoing(hca, qp, wqe, message, after_receiver(hca, qp, wqe, message))


@wqe_op(Opcode.RDMA_WRITE, CONNECTED)
def rdma_write(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, [xrc or av], raddr, data."""
    message = Message(_WRITE, 0)
    at = remote_address(hca, qp, wqe, message)
    return outgoing(hca, qp, wqe, message, at)


@wqe_op(Opcode.RDMA_WRITE_IMM, CONNECTED)
def rdma_write_imm(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As RDMA_WRITE; the peer's receive request takes the immediate."""
    message = Message(_WRITE, 0)
    message.immediate = wqe.imm
    at = remote_address(hca, qp, wqe, message)
    return outgoing(hca, qp, wqe, message, at)


@wqe_op(Opcode.RDMA_READ, RELIABLE)
def rdma_read(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, [xrc or av], raddr, data: where the response data go."""
    message = Message(_READ, 0)
    at = remote_address(hca, qp, wqe, message)
    message.reply = listed(hca, qp, wqe, message, at, LOCAL_WRITE)
    return message
