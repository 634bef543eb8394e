"""State of a NIC without DRAM (NODNIC), by which boot firmware uses an Ethernet port."""

from __future__ import annotations

from typing import Final

from layouts.function.nodnic import nodnic
from layouts.rings.wqe import DATA, WQEBB

LKEY: Final = 0x100
"""Key of all of the guest's memory."""
LOG_RING_BYTES: Final = 12
_RING_BYTES: Final = 1 << LOG_RING_BYTES
LOG_CQES: Final = (_RING_BYTES // WQEBB + _RING_BYTES // DATA.size - 1).bit_length()
"""The CQ holds the completions of both rings, so a driver that posts a WQE again only after its
completion cannot overrun the CQ. Drivers take this size unchecked (nodnic_port_get_cq_size)."""
_INDEX: Final = 0xFFFF
_ETHERNET: Final = 1
_CONNECTX_4: Final = 1
_SEND_QPN, _RECEIVE_QPN = 0x40, 0x41


class Nodnic:
    """Registers and counters; the driver turns the NIC on by ``nic_interface`` NO_DRAM_NIC."""

    def __init__(self, guid: int) -> None:
        """Create the registers after power-on; ``guid`` is the adapter's."""
        self._guid = guid
        self.turn(on=False)

    @property
    def moves_data(self) -> bool:
        """Whether the driver lets the NIC use its rings."""
        port = self.registers.port
        return self.is_on and bool(port.network_en and port.dma_en) and not port.reset_needed

    @property
    def receive_credits(self) -> int:
        """Receive WQEs that the driver has posted and no frame has taken."""
        return self.registers.port.receive.index - self.received & _INDEX

    def turn(self, *, on: bool) -> None:
        """Give the port to the NIC, or take it away; the driver's settings are gone."""
        self.is_on = on
        """Whether the NIC has the port."""
        self.registers = nodnic.new(
            revision=1,
            hardware_format=_CONNECTX_4,
            support_mac_filters=1,
            support_promisc_filter=1,
            support_promisc_multicast_filter=1,
            log_max_ring_size=LOG_RING_BYTES,
            lkey=LKEY,
            device_guid=self._guid,
            port={"link_type": _ETHERNET, "log_cq_size": LOG_CQES},
        )
        port = self.registers.port
        port.send.qpn, port.receive.qpn = _SEND_QPN, _RECEIVE_QPN
        self.forget_rings()

    def forget_rings(self) -> None:
        """Start the rings anew."""
        port = self.registers.port
        port.send.index = port.receive.index = 0
        self.sent = self.received = self.completed = 0
        """Send and receive WQEs used, and CQEs written, since the driver enabled the network."""
        self.most_posted = 0
        """Largest number of receive WQEs that were posted at a time."""
