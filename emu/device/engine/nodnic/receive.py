"""Frames that a NIC without DRAM receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.nodnic.rings import RingError, complete, fail, segment, waiting, wqe
from emu.device.port.eth.plain import plain
from emu.device.port.eth.traffic import BROADCAST, GROUP_BIT, MAC_BYTES
from emu.device.ports import DmaError
from emu.device.rounds.costs import STEPS_PER_DELIVERY
from layouts.enums.cqe import CqeOpcode
from layouts.rings.wqe import DATA

if TYPE_CHECKING:
    from emu.device.objects.eth.nodnic import Nodnic
    from emu.device.port.eth.frame import Frame
    from emu.device.port.eth.vport import NicVport
    from emu.device.ports import GuestMemory
    from emu.device.rounds.budget import Budget
    from emu.device.state.tracer import DeviceTracer

_WQE_BYTES: Final = DATA.size
"""A receive WQE is one data segment."""


def take(
    vport: NicVport,
    nic: Nodnic,
    frame: Frame,
    packets: int,
    budget: Budget,
    memory: GuestMemory,
    tracer: DeviceTracer | None,
) -> None:
    """Give a frame, or the ``packets`` of a super-frame, to the driver.

    Frames to an address that the driver did not choose count as steering_discards, those without a
    receive WQE, or too long for it, as discards. Raises FrameError for a super-frame that cannot be
    cut.
    """
    if not _is_wanted(nic, vport.permanent_address, frame.data[:MAC_BYTES]):
        vport.steering_discards += packets
        return
    try:
        for data in plain(frame) if _can_take(nic) else ():
            budget.charge(STEPS_PER_DELIVERY)
            packets -= _deliver(memory, tracer, nic, data)
            if not _can_take(nic):
                break
    except (RingError, DmaError) as error:
        fail(nic, error)
    vport.received.discards += packets


def _is_wanted(nic: Nodnic, own: bytes, to: bytes) -> bool:
    port = nic.registers.port
    if port.promisc_en or to in (own, BROADCAST):
        return True
    if to[0] & GROUP_BIT and port.promisc_multicast_en:
        return True
    address, enabled = int.from_bytes(to, "big"), port.mac_filters_en
    return any(enabled >> at & 1 and one.mac == address for at, one in enumerate(port.filters))


def _can_take(nic: Nodnic) -> bool:
    """Return whether the driver has posted a receive WQE. Raises RingError."""
    ring = nic.registers.port.receive
    return nic.moves_data and waiting(ring, nic.received, _WQE_BYTES) > 0


def _deliver(memory: GuestMemory, tracer: DeviceTracer | None, nic: Nodnic, data: bytes) -> bool:
    """Write a frame into the next receive WQE's memory; return False if it is too long for it.

    Raises RingError, DmaError.
    """
    ring = nic.registers.port.receive
    address, space = segment(wqe(memory, ring, nic.received, _WQE_BYTES))
    if space < len(data):
        return False
    memory.write(address, data)
    complete(memory, tracer, nic, CqeOpcode.RESP_SEND, ring.qpn, nic.received, len(data))
    nic.received += 1
    return True
