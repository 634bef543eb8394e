"""Capabilities for IP over InfiniBand on an InfiniBand port, by their names in mlx5_ifc.h.

With the enhanced ones mlx5_core itself drives the interface, with the queues and flow tables of
Ethernet (core/ipoib/ipoib.c); with the basic ones ib_ipoib uses a datagram queue pair.
"""

from __future__ import annotations

from emu.device.models.ethernet import TABLES
from emu.device.models.model import Capabilities, group
from layouts.enums.caps import UctxCap

IPOIB_GENERAL: Capabilities = group(
    ipoib_basic_offloads=1,
    ipoib_enhanced_offloads=1,
    uctx_cap=UctxCap.RAW_TX,
    # The same number of queues that an Ethernet function has.
    log_max_rq=14,
    log_max_sq=14,
    log_max_tir=14,
    log_max_tis=12,
    log_max_tis_per_sq=0,
    log_max_rqt=12,
    log_max_rqt_size=11,
    log_max_transport_domain=12,
    log_max_wq_sz=15,
    log_max_flow_counter_bulk=10,
    flow_counter_bulk_alloc=4,
)
"""General capabilities, in addition to those of the port."""

IPOIB_ENHANCED: Capabilities = group(
    csum_cap=1, max_lso_cap=18, rss_ind_tbl_cap=8, self_lb_en_modifiable=1
)
"""Group IPOIB_ENHANCED_OFFLOADS."""

IPOIB_FLOW_TABLES: Capabilities = group(
    nic_rx_multi_path_tirs=1,
    nic_rx_multi_path_tirs_fts=1,
    flow_table_properties_nic_receive=TABLES,
)
"""Group FLOW_TABLE: tables for the packets of underlay queue pairs."""
