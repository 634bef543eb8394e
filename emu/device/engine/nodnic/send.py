"""Frames that a NIC without DRAM sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emu.device.engine.nodnic.rings import RingError, complete, fail, segment, waiting, wqe
from emu.device.port.eth.frame import MIN_BYTES, Frame
from emu.device.port.eth.headers import ETHERNET_BYTES
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.ports import DmaError
from emu.device.rounds.costs import STEPS_PER_FRAME
from layouts.enums import CqeOpcode, Opcode

if TYPE_CHECKING:
    from emu.device.objects.eth.nodnic import Nodnic
    from emu.device.port.eth.vport import NicVport
    from emu.device.ports import GuestMemory
    from emu.device.state.hca import Hca

_WQE_BYTES: Final = 64
_DS: Final = 16
_DS_MASK: Final = 0x3F
_INLINE_SIZE_AT: Final = 28
_INLINE_SIZE_MASK: Final = 0x3FF
_INLINE_AT: Final = 30
_SEGMENTS_AT: Final = 32


def send(hca: Hca, nic: Nodnic, forward: Callable[[Frame], None]) -> None:
    """Send the frames that the driver has posted, at most those of one ring, by ``forward``."""
    ring = nic.registers.port.send
    try:
        for _ in range(waiting(ring, nic.sent, _WQE_BYTES)):
            hca.budget.charge(STEPS_PER_FRAME)
            request = wqe(hca.memory, ring, nic.sent, _WQE_BYTES)
            frame = _frame(hca.memory, request, hca.nic_vport.oper_mtu - FCS_BYTES)
            nic.sent += 1
            _leave(hca.nic_vport, frame, forward)
            complete(hca.memory, nic, CqeOpcode.REQ, ring.qpn, nic.sent - 1, 0)
    except (RingError, DmaError) as error:
        fail(nic, error)


def _frame(memory: GuestMemory, request: bytes, longest: int) -> bytes:
    """Return the frame of a send WQE. Raises RingError, also beyond ``longest``; DmaError."""
    size = int.from_bytes(request[_INLINE_SIZE_AT:_INLINE_AT], "big") & _INLINE_SIZE_MASK
    end = (request[7] & _DS_MASK) * _DS
    at = _SEGMENTS_AT + -(-max(size - (_SEGMENTS_AT - _INLINE_AT), 0) // _DS) * _DS
    if request[3] != Opcode.SEND or not at <= end <= _WQE_BYTES:
        raise RingError("a send request that is none")
    data = request[_INLINE_AT : _INLINE_AT + size]
    for start in range(at, end, _DS):
        address, length = segment(request[start : start + _DS])
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
