"""Frames that a NIC without DRAM sends.

Frames leave without the link partner's credits: a ring has 64 frames, fewer than the receive
queues that senders wait for. Boot firmware repeats what nobody received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emu.device.engine.nodnic.rings import RingError, complete, fail, segment, waiting, wqe
from emu.device.objects.queues.send_queue import Wqe
from emu.device.port.eth.frame import MIN_BYTES, Frame
from emu.device.port.eth.headers import ETHERNET_BYTES
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.ports import DmaError
from emu.device.rounds.costs import STEPS_PER_FRAME
from layouts.enums.cqe import CqeOpcode
from layouts.enums.wqe import Opcode
from layouts.rings.eth_wqe import ETH, INLINE_HDR_START
from layouts.rings.wqe import DS, INLINE_LENGTH, WQEBB

if TYPE_CHECKING:
    from emu.device.objects.eth.nodnic import Nodnic
    from emu.device.port.eth.vport import NicVport
    from emu.device.ports import GuestMemory
    from emu.device.state.hca import Hca

_INLINE_SIZE_SHIFT: Final = 16
_INLINE_AT: Final = DS + INLINE_HDR_START
_SEGMENTS_AT: Final = DS + ETH.size


def send(hca: Hca, nic: Nodnic, forward: Callable[[Frame], None]) -> None:
    """Send the frames that the driver has posted, at most those of one ring, by ``forward``."""
    ring, memory, tracer = nic.registers.port.send, hca.memory, hca.probes.tracer
    try:
        for _ in range(waiting(ring, nic.sent, WQEBB)):
            hca.budget.charge(STEPS_PER_FRAME)
            request = Wqe().parse(wqe(memory, ring, nic.sent, WQEBB))
            frame = _frame(memory, request, hca.nic_vport.oper_mtu - FCS_BYTES)
            nic.sent += 1
            _leave(hca.nic_vport, frame, forward)
            complete(memory, tracer, nic, CqeOpcode.REQ, ring.qpn, nic.sent - 1)
    except (RingError, DmaError) as error:
        fail(nic, error)


def _frame(memory: GuestMemory, request: Wqe, longest: int) -> bytes:
    """Return the frame of a send WQE. Raises RingError, also beyond ``longest``; DmaError."""
    *_, trailer = ETH.unpack_from(request.buf, DS)
    size, end = trailer >> _INLINE_SIZE_SHIFT & INLINE_LENGTH, request.ds * DS
    at = _SEGMENTS_AT + -(-max(size - (_SEGMENTS_AT - _INLINE_AT), 0) // DS) * DS
    if request.opcode != Opcode.SEND or not at <= end <= WQEBB:
        raise RingError("a send request that is none")
    data = request.buf[_INLINE_AT : _INLINE_AT + size]
    for start in range(at, end, DS):
        address, length = segment(request.buf, start)
        if len(data) + length > longest:
            raise RingError(f"a frame of {len(data) + length} bytes")
        data += memory.read(address, length) if length else b""
    if len(data) < ETHERNET_BYTES:
        raise RingError(f"a frame of {len(data)} bytes")
    return data.ljust(MIN_BYTES, b"\0")


def _leave(vport: NicVport, data: bytes, forward: Callable[[Frame], None]) -> None:
    """Put a frame on the wire; count it as discards while the port is down."""
    if not vport.is_up:
        vport.sent.discards += 1
        vport.sent_while_down += 1
        return
    vport.sent.add(data)
    forward(Frame(data))
