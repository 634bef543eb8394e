"""The registers of a NIC without DRAM (NODNIC): the adapter as boot firmware uses it.

The vendor-specific gateway reaches them (space 4), behind the initialization segment, whose
``no_dram_nic_offset`` is their address. A ring's size is the logarithm of its bytes; that of the
completion queue is the logarithm of its entries.

Source: mlx_device.c and mlx_port.c of iPXE (mlx_nodnic).
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class nodnic_ring(Prm):
    addr_h = bits(32); addr_l = bits(20); _ = rsvd(6); log_size = bits(6)
    _ = rsvd(8); index = bits(16); _ = rsvd(8); _ = rsvd(8); qpn = bits(24); _ = rsvd(32 * 12)

class nodnic_mac(Prm):
    _ = rsvd(16); mac = bits(48)

class nodnic_port(Prm):
    reset_needed = bits(1); _ = rsvd(26); link_type = bits(1); state = bits(4)
    network_en = bits(1); dma_en = bits(1); promisc_en = bits(1); promisc_multicast_en = bits(1)
    _ = rsvd(23); mac_filters_en = bits(5); own = nested(nodnic_mac)
    filters = array(5, nested(nodnic_mac)); _ = rsvd(32 * 12)
    cq_addr_h = bits(32); cq_addr_l = bits(20); _ = rsvd(6); log_cq_size = bits(6)
    eq_addr_h = bits(32); eq_addr_l = bits(32); arm_cq_ci = bits(24); _ = rsvd(8); _ = rsvd(32)
    send = nested(nodnic_ring); receive = nested(nodnic_ring); _ = rsvd(32 * 32)

class nodnic(Prm):
    revision = bits(8); hardware_format = bits(8); support_mac_filters = bits(1)
    support_promisc_filter = bits(1); support_promisc_multicast_filter = bits(1); _ = rsvd(2)
    log_working_buffer_size = bits(3); log_pkey_table_size = bits(4); _ = rsvd(3)
    has_two_ports = bits(1); _ = rsvd(2); log_max_ring_size = bits(6); pd = bits(24)
    lkey = bits(32); _ = rsvd(32); device_guid = bits(64); _ = rsvd(32 * 58)
    port = nested(nodnic_port)

# fmt: on

PORT_AT = 0x100
"""Offset of the port's registers."""

WRITABLE = {
    0x04: 0xF000_001F,
    **dict.fromkeys(range(0x10, 0x38, 4), 0xFFFF_FFFF),
    0x68: 0xFFFF_FFFF,
    0x6C: 0xFFFF_F000,
    0x70: 0xFFFF_FFFF,
    0x74: 0xFFFF_FFFF,
    0x78: 0xFFFF_FF00,
    **dict.fromkeys((0x80, 0xC0), 0xFFFF_FFFF),
    **dict.fromkeys((0x84, 0xC4), 0xFFFF_F03F),
    **dict.fromkeys((0x88, 0xC8), 0x00FF_FF00),
}
"""Writable bits of the port's words, by offset."""
