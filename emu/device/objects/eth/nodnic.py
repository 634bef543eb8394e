"""State of a NIC without DRAM (NODNIC), by which boot firmware uses an Ethernet port."""

from __future__ import annotations

from typing import Final

from layouts.function.nodnic import nodnic

LKEY: Final = 0x100
"""Key of all of the guest's memory."""
LOG_CQES: Final = 7
LOG_RING_BYTES: Final = 12
RECEIVE_WQE_BYTES: Final = 16
_INDEX: Final = 0xFFFF
_ETHERNET: Final = 1
_CONNECTX_4: Final = 1
_SEND_QPN, _RECEIVE_QPN = 0x40, 0x41


class Nodnic:
    """Registers and counters; the driver turns the NIC on by ``nic_interface`` NO_DRAM_NIC."""

    def __init__(self, guid: int) -> None:
        """Create the registers after power-on; ``guid`` is the adapter's."""
        self.registers = nodnic.new(
            revision=1,
            hardware_format=_CONNECTX_4,
            support_mac_filters=1,
            support_promisc_filter=1,
            support_promisc_multicast_filter=1,
            log_max_ring_size=LOG_RING_BYTES,
            lkey=LKEY,
            device_guid=guid,
            port={"link_type": _ETHERNET, "log_cq_size": LOG_CQES},
        )
        port = self.registers.port
        port.send.qpn, port.receive.qpn = _SEND_QPN, _RECEIVE_QPN
        self.is_on = False
        """Whether the NIC has the port."""
        self.sent = self.received = self.completed = 0
        """Send and receive WQEs used, and CQEs written, since the driver enabled the network."""

    @property
    def moves_data(self) -> bool:
        """Whether the driver lets the NIC use its rings."""
        port = self.registers.port
        return self.is_on and bool(port.network_en and port.dma_en)

    @property
    def receive_credits(self) -> int:
        """Receive WQEs that the driver has posted and no frame has taken."""
        return self.registers.port.receive.index - self.received & _INDEX

    @property
    def receive_size(self) -> int:
        """Number of receive WQEs that the ring holds."""
        return (1 << self.registers.port.receive.log_size) // RECEIVE_WQE_BYTES

    def turn(self, *, on: bool) -> None:
        """Give the port to the NIC, or take it away; the driver's settings are gone."""
        self.is_on = on
        port = self.registers.port
        port.network_en = port.dma_en = port.promisc_en = port.promisc_multicast_en = 0
        port.mac_filters_en = port.reset_needed = 0
        self.forget_rings()

    def forget_rings(self) -> None:
        """Start the rings anew."""
        port = self.registers.port
        port.send.index = port.receive.index = 0
        self.sent = self.received = self.completed = 0
