"""Frames that a NIC without DRAM receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.nodnic.rings import RingError, complete, fail, segment, waiting, wqe
from emu.device.objects.eth.nodnic import RECEIVE_WQE_BYTES
from emu.device.port.eth.plain import plain
from emu.device.port.eth.traffic import MAC_BYTES
from emu.device.ports import DmaError
from emu.device.rounds.costs import STEPS_PER_DELIVERY
from layouts.enums import CqeOpcode

if TYPE_CHECKING:
    from emu.device.objects.eth.nodnic import Nodnic
    from emu.device.port.eth.frame import Frame
    from emu.device.port.eth.vport import NicVport
    from emu.device.ports import GuestMemory
    from emu.device.rounds.budget import Budget

_BROADCAST: Final = b"\xff" * MAC_BYTES
_GROUP_BIT: Final = 1


def take(memory: GuestMemory, budget: Budget, vport: NicVport, nic: Nodnic, frame: Frame) -> None:
    """Give a frame, or each frame of a super-frame, to the driver.

    A frame to an address that the driver did not choose counts as steering_discards, one without a
    receive WQE as discards. Raises FrameError for a super-frame that cannot be cut.
    """
    for data in plain(frame):
        budget.charge(STEPS_PER_DELIVERY)
        if not _is_wanted(nic, vport.permanent_address, data[:MAC_BYTES]):
            vport.steering_discards += 1
            continue
        try:
            _deliver(memory, vport, nic, data)
        except (RingError, DmaError) as error:
            fail(nic, error)


def _is_wanted(nic: Nodnic, own: bytes, to: bytes) -> bool:
    port = nic.registers.port
    if port.promisc_en or to in (own, _BROADCAST):
        return True
    if to[0] & _GROUP_BIT and port.promisc_multicast_en:
        return True
    address, enabled = int.from_bytes(to, "big"), port.mac_filters_en
    return any(enabled >> at & 1 and one.mac == address for at, one in enumerate(port.filters))


def _deliver(memory: GuestMemory, vport: NicVport, nic: Nodnic, data: bytes) -> None:
    """Write a frame into the next receive WQE's memory. Raises RingError, DmaError."""
    ring = nic.registers.port.receive
    if not nic.moves_data or not waiting(ring, nic.received, RECEIVE_WQE_BYTES):
        vport.received.discards += 1
        return
    address, space = segment(wqe(memory, ring, nic.received, RECEIVE_WQE_BYTES))
    if space < len(data):
        raise RingError(f"a receive request of {space} bytes, a frame of {len(data)}")
    memory.write(address, data)
    complete(memory, nic, CqeOpcode.RESP_SEND, ring.qpn, nic.received, len(data))
    nic.received += 1
