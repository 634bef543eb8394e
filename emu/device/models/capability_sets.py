"""The capabilities of all models in one table, by generation, link layer and kind of function.

The table lists what the emulator implements; real adapters of the generation have it as well.
"""

from __future__ import annotations

from emu.device.models import capabilities as base
from emu.device.models import ethernet as eth
from emu.device.models import ipoib
from emu.device.models.conditions import Generation, Part
from layouts.enums.caps import CapType, InlineModeCap, PortType

_IB, _ETH = PortType.IB, PortType.ETH
_CX4, _CX5, _CX6, _CX6DX, _CX7 = Generation

_HEADER_IN_WQE = {"wqe_inline_mode": InlineModeCap.VPORT_CONTEXT}
_NO_HEADER_IN_WQE = {"wqe_inline_mode": InlineModeCap.NOT_REQUIRED, "wqe_vlan_insert": 1}
_LATER_COMPRESSION = {
    "enhanced_cqe_compression": 1,
    "mini_cqe_resp_flow_tag": 1,
    "mini_cqe_resp_l3_l4_tag": 1,
}
_SMALL_ENTITIES = {
    "min_mkey_log_entity_size_fixed_buffer_valid": 1,
    "min_mkey_log_entity_size_fixed_buffer": 8,
}

_LATER_TUNNELS = {
    **dict.fromkeys(("tunnel_stateless_ip_over_ip", "swp", "swp_csum", "swp_lso"), 1),
    **dict.fromkeys(("tunnel_stateless_geneve_rx", "tunnel_stateless_geneve_tx"), 1),
}

PARTS = (
    Part(CapType.GENERAL, base.BASE_GENERAL, link=_IB),
    Part(CapType.GENERAL, eth.ETHERNET_GENERAL, link=_ETH),
    Part(CapType.GENERAL_2, base.BASE_GENERAL_2),
    Part(CapType.GENERAL, ipoib.IPOIB_GENERAL, link=_IB),
    Part(CapType.IPOIB_ENHANCED_OFFLOADS, ipoib.IPOIB_ENHANCED, link=_IB),
    Part(CapType.FLOW_TABLE, ipoib.IPOIB_FLOW_TABLES, link=_IB),
    Part(CapType.ATOMIC, base.BASE_ATOMIC),
    Part(CapType.ETHERNET_OFFLOADS, eth.ETHERNET_OFFLOADS, link=_ETH),
    Part(CapType.FLOW_TABLE, eth.NIC_FLOW_TABLES, link=_ETH),
    Part(CapType.FLOW_TABLE, eth.TUNNEL_FLOW_TABLES, since=_CX5, link=_ETH),
    Part(CapType.ROCE, eth.ROCE, link=_ETH),
    # On-demand paging: Linux names the scheme of ConnectX-7 the memory scheme.
    Part(CapType.ODP, base.TRANSPORT_ODP, until=_CX6DX),
    Part(CapType.ODP, base.IB_TRANSPORT_ODP, since=_CX6, until=_CX6DX, link=_IB),
    Part(CapType.ODP, base.MEMORY_ODP, since=_CX7),
    Part(CapType.ODP, base.IB_MEMORY_ODP, since=_CX7, link=_IB),
    # Copies within the host's memory.
    Part(CapType.GENERAL, base.MEMORY_COPIES, since=_CX7),
    # Send queues whose doorbells need no record in memory.
    Part(CapType.GENERAL_2, base.NO_DOORBELL_RECORD, since=_CX7),
    # Out-of-order processing, without effect in the emulator.
    Part(CapType.GENERAL, base.ANY_ORDER, since=_CX7),
    Part(CapType.GENERAL_2, {"dp_ordering_force": 1}, since=_CX7),
    # Shared receive queues that match tags, with rendezvous by the adapter. Published outputs of
    # ``ibv_devinfo -v`` show them on InfiniBand only, and rdma-core and UCX cannot connect the
    # queue pair for their commands on Ethernet.
    Part(CapType.GENERAL, base.TAG_MATCHING, since=_CX5, link=_IB),
    # Published outputs of ConnectX-6 with Ethernet have twice the queue pairs of others, and
    # tinygrad's driver requests them without reading the maximum (support/mlx/mlxdev.py).
    Part(CapType.GENERAL, {"log_max_qp": 18}, since=_CX6, until=_CX6, link=_ETH),
    # A driver in user space has no user context (rdma-core's mlx5_vfio.c).
    Part(CapType.GENERAL, {"umem_uid_0": 1}, since=_CX6),
    # The error that stopped a queue pair: in QUERY_QP's extension, logged by mlx5_ib.
    Part(CapType.GENERAL, {"qp_error_syndrome": 1}, since=_CX5),
    # Memory on the adapter.
    Part(CapType.GENERAL, {"device_memory": 1}, since=_CX5),
    Part(CapType.DEV_MEM, base.DEVICE_MEMORY, since=_CX5),
    # Striding receive queues with few strides: mlx5e then uses one stride for packets of up to a
    # page (core/en/params.c: mlx5e_build_rq_params). Several frames in one send WQE: mlx5e's
    # private flags skb_tx_mpwqe and xdp_tx_mpwqe.
    Part(CapType.GENERAL, {"ext_stride_num_range": 1}, since=_CX5, link=_ETH),
    Part(CapType.ETHERNET_OFFLOADS, {"enhanced_multi_pkt_send_wqe": 1}, since=_CX5, link=_ETH),
    # Fields of compressed CQEs for each packet: hash or checksum on all adapters, the stride too
    # since ConnectX-5 (core/en/params.c needs it for striding queues). DPDK has two more formats.
    # In the enhanced layout, Linux since 6.2 finds blocks of them without titles.
    Part(CapType.GENERAL, {"cqe_compression_128": 1, "mini_cqe_resp_stride_index": 1}, since=_CX5),
    Part(CapType.GENERAL, _LATER_COMPRESSION, since=_CX6DX),
    # Packets forwarded without the driver: tc's redirection between ports, and DPDK's hairpin
    # queues.
    Part(CapType.GENERAL, eth.HAIRPIN, since=_CX5, link=_ETH),
    # Counters written into memory, many by one command: DPDK reads its counters with it.
    Part(CapType.GENERAL, {"flow_counters_dump": 1}, since=_CX5, link=_ETH),
    # Header-data split: mlx5e's HW-GRO and tcp-data-split since Linux 6.12, which map the header
    # buffer by entries of 256 bytes.
    Part(CapType.GENERAL, {"shampo": 1}, since=_CX7, link=_ETH),
    Part(CapType.GENERAL_2, _SMALL_ENTITIES, since=_CX7, link=_ETH),
    Part(CapType.DEV_SHAMPO, eth.SHAMPO, since=_CX7, link=_ETH),
    # ConnectX-4 Lx requires the Ethernet header in the send WQE, including any VLAN tag; the others
    # insert the tag.
    Part(CapType.ETHERNET_OFFLOADS, _HEADER_IN_WQE, until=_CX4, link=_ETH),
    Part(CapType.ETHERNET_OFFLOADS, _NO_HEADER_IN_WQE, since=_CX5, link=_ETH),
    # Rates of single send queues, on InfiniBand those of IPoIB; trees of rates and bandwidth
    # shares.
    Part(CapType.QOS, eth.PACING, link=_ETH, is_vf=False),
    Part(CapType.QOS, eth.PACING, since=_CX5, link=_IB, is_vf=False),
    Part(CapType.QOS, eth.SCHEDULING, since=_CX6DX, is_vf=False),
    Part(CapType.GENERAL, eth.SCHEDULING_OBJECTS, since=_CX6DX, is_vf=False),
    Part(CapType.GENERAL, {"qos": 1}, since=_CX5, link=_IB, is_vf=False),
    # Tunnels of IP in IP, and tunnels where a WQE gives the offset of the inner packet (software
    # parsing), which mlx5e uses for Geneve.
    Part(CapType.ETHERNET_OFFLOADS, _LATER_TUNNELS, since=_CX5, link=_ETH),
    # Fields of Geneve's and ICMP's headers that flow groups match: the driver reads from general
    # capabilities that the parser supports them (core/en_tc.c, en/tc_tun_geneve.c,
    # esw/bridge_mcast.c).
    Part(CapType.GENERAL, {"flex_parser_protocols": eth.FLEX_PROTOCOLS}, since=_CX5, link=_ETH),
    # A CQE for each packet that leaves by the port: the private flag tx_port_ts.
    Part(CapType.GENERAL, {"ts_cqe_to_dest_cqn": 1}, since=_CX6DX, link=_ETH),
    Part(CapType.GENERAL_2, {"ts_cqe_metadata_size2wqe_counter": 8}, since=_CX6DX, link=_ETH),
    # The free-running timer.
    Part(CapType.GENERAL, {"device_frequency_khz": 156_250}, until=_CX6),
    # Format of steering entries that software writes.
    Part(CapType.GENERAL, {"steering_format_version": 1}, since=_CX6DX, link=_ETH),
    Part(CapType.GENERAL, {"steering_format_version": 2}, since=_CX7, link=_ETH),
    # Number of RSS tables.
    Part(CapType.GENERAL, {"log_max_rqt": 20}, until=_CX5, link=_ETH),
    # The dump of objects, and commands for physical functions only.
    Part(CapType.DEBUG, base.DEBUG, is_vf=False),
    # Longest pause that a port may request from others (ethtool's pfc-prevention-tout).
    Part(CapType.DEBUG, {"stall_detect": 1}, link=_ETH, is_vf=False),
    Part(CapType.GENERAL, base.VF_LIMITS, is_vf=True),
    Part(CapType.GENERAL, eth.ETHERNET_VF_LIMITS, link=_ETH, is_vf=True),
)
