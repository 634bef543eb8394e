"""The rings of a NIC without DRAM: WQEs of the driver, and the CQEs for them.

WQEs and CQEs are those of ConnectX-4. The only memory key is that of all memory. After a malformed
WQE, or memory that is not granted, the NIC uses the rings no more and requests a reset.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from emu.device.objects.eth.nodnic import LKEY, LOG_RING_BYTES
from layouts.enums.cqe import CqeOpcode
from layouts.function.nodnic import nodnic_ring
from layouts.rings.cqe import CQE_BYTES, OP_OWN, SEND_CQE
from layouts.rings.wqe import DATA, INLINE

if TYPE_CHECKING:
    from emu.device.objects.eth.nodnic import Nodnic
    from emu.device.ports import GuestMemory
    from emu.device.state.tracer import DeviceTracer

log = logging.getLogger(__name__)

_CQN: Final = 0
_INDEX: Final = 0xFFFF
_LENGTH: Final = INLINE - 1


class RingError(Exception):
    """The driver's ring or WQE is malformed."""


def waiting(ring: nodnic_ring, used: int, stride: int) -> int:
    """Return the number of WQEs of ``stride`` bytes that the driver has posted and nobody used.

    Raises RingError if they are more than the ring holds, and for a ring above the limit.
    """
    posted = ring.index - used & _INDEX
    if ring.log_size > LOG_RING_BYTES or posted > (1 << ring.log_size) // stride:
        raise RingError(f"{posted} requests in a ring of 2^{ring.log_size} bytes")
    return posted


def wqe(memory: GuestMemory, ring: nodnic_ring, number: int, stride: int) -> bytes:
    """Return a WQE of ``stride`` bytes. Raises DmaError."""
    start = ring.addr_h << 32 | ring.addr_l << 12
    return memory.read(start + number * stride % (1 << ring.log_size), stride)


def segment(data: bytes, at: int = 0) -> tuple[int, int]:
    """Return address and length of a data segment. Raises RingError for a foreign memory key."""
    length, lkey, address = DATA.unpack_from(data, at)
    if lkey != LKEY:
        raise RingError(f"memory key {lkey:#x}")
    return address, length & _LENGTH


def complete(
    memory: GuestMemory,
    tracer: DeviceTracer | None,
    nic: Nodnic,
    opcode: CqeOpcode,
    qpn: int,
    counter: int,
    length: int = 0,
) -> None:
    """Write a CQE, its owner bit last, and trace it. Raises DmaError."""
    port = nic.registers.port
    at = nic.completed & (1 << port.log_cq_size) - 1
    entry = SEND_CQE.pack(qpn, length, 0, qpn, counter & _INDEX)
    address = (port.cq_addr_h << 32 | port.cq_addr_l << 12) + at * CQE_BYTES
    op_own = opcode << 4 | nic.completed >> port.log_cq_size & 1
    memory.write(address, entry)
    memory.write(address + OP_OWN, bytes((op_own,)))
    nic.completed += 1
    if tracer:
        tracer.cqe(_CQN, entry, op_own)


def fail(nic: Nodnic, why: Exception) -> None:
    """Use the rings no more, and request a reset."""
    log.warning("NIC without DRAM: %s", why)
    port = nic.registers.port
    port.dma_en, port.reset_needed = 0, 1
