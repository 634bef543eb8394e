"""Capabilities of an Ethernet port, by their names in mlx5_ifc.h.

The driver requires those in core/dev.c: mlx5_eth_supported.
"""

from __future__ import annotations

from typing import Final

from emu.device.models.capabilities import BASE_GENERAL
from emu.device.models.model import Capabilities, Model, group
from layouts.enums.caps import FlexProtocol, UctxCap
from layouts.enums.general_object import GeneralObject
from layouts.enums.roce import RoceVersion

ETHERNET_GENERAL: Capabilities = group(
    BASE_GENERAL,
    port_type=1,
    ib_virt=0,
    eth_net_offloads=1,
    nic_flow_table=1,
    # The vPort can block frames from looping back to their sender. Linux enables the block
    # until a second process opens the RDMA device (ib/main.c: mlx5_ib_enable_lb).
    disable_local_lb_uc=1,
    disable_local_lb_mc=1,
    roce=1,
    # The register ROCE_ACCL and counters of adaptive retransmission.
    roce_accl=1,
    # The UDP source port of a connected queue pair can be changed.
    rts2rts_qp_udp_sport=1,
    cc_query_allowed=1,
    cc_modify_allowed=1,
    uctx_cap=UctxCap.RAW_TX,
    # Queues. mlx5e makes 8 TISs and, for each channel, a TIR, an RQT, an RQ and a few SQs; it
    # has twice that number while it changes their parameters (core/en_main.c:
    # mlx5e_safe_switch_params).
    log_max_rq=23,
    log_max_sq=14,
    log_max_tir=14,
    log_max_tis=12,
    log_max_tis_per_sq=0,
    log_max_rqt=19,
    log_max_rqt_size=11,
    log_max_transport_domain=12,
    log_max_wq_sz=15,
    # Striding receive queues (core/en/params.c: mlx5e_build_rq_params).
    striding_rq=1,
    umr_ptr_rlky=1,
    # Registers about the port that PCAM lists: error correction.
    pcam_reg=1,
    # The physical function manages the port: pause frames, and by the next four the settings of
    # dcb (core/en_ethtool.c: mlx5e_ethtool_set_pauseparam, core/en_dcbnl.c). No embedded switch
    # exists behind it (eswitch_manager 0).
    vport_group_manager=1,
    # The register MLCR: a blinking LED (core/en_ethtool.c: mlx5e_set_phys_id).
    beacon_led=1,
    # The register PCMR: whether frames with a bad check sequence are dropped (rx-all).
    ports_check=1,
    qos=1,
    ets=1,
    max_tc=8,
    qcam_reg=1,
    sbcam_reg=1,
    # Counters of dropped packets (core/en_stats.c: vnic_env).
    nic_receive_steering_discard=1,
    # The driver queries the counters of tc's rules by ranges of at least four
    # (core/fs_counters.c: mlx5_fc_stats_query_counter_range).
    log_max_flow_counter_bulk=10,
    # Counters of tc's rules are allocated in bulks of 512 (core/fs_counters.c:
    # mlx5_fc_bulk_create).
    flow_counter_bulk_alloc=4,
    # Raw packet queue pairs and work queues of verbs count their drops (ib/qp.c:
    # modify_raw_packet_qp_rq, mlx5_ib_modify_wq).
    modify_rq_counter_set_id=1,
    eth_wqe_too_small=1,
    # Lists of the vPort context.
    log_max_current_uc_list=7,
    log_max_current_mc_list=11,
    log_max_vlan_list=12,
)
"""General capabilities of an Ethernet function, before a model's own limits."""

ETHERNET_VF_LIMITS: Capabilities = group(
    vport_group_manager=0,
    beacon_led=0,
    ports_check=0,
    qos=0,
    ets=0,
    max_tc=0,
    qcam_reg=0,
    sbcam_reg=0,
)
"""Capabilities that a virtual function lacks, because the port is the physical function's."""

ETHERNET_OFFLOADS: Capabilities = group(
    csum_cap=1,
    cqe_checksum_full=1,
    vlan_cap=1,
    max_lso_cap=18,
    # Consecutive packets of a TCP stream can be merged: ethtool -K lro on. The driver uses the
    # first period of 32 us or more (core/en/params.c: mlx5e_choose_lro_timeout).
    lro_cap=1,
    lro_psh_flag=1,
    lro_time_stamp=1,
    lro_timer_supported_periods=(8, 16, 32, 1024),
    # Send queues that map the pages of striding receive queues (ICOSQ).
    reg_umr_sq=1,
    # Frame check sequences in receive buffers: ethtool -K rx-fcs on.
    scatter_fcs=1,
    rss_ind_tbl_cap=8,
    # Checksums and large sends of packets in VXLAN and GRE tunnels.
    tunnel_stateless_vxlan=1,
    tunnel_stateless_gre=1,
    max_vxlan_udp_ports=4,
    self_lb_en_modifiable=1,
)
"""Group ETHERNET_OFFLOADS. ``max_lso_cap`` is the log of the longest large send, in bytes."""

HAIRPIN: Capabilities = group(
    hairpin=1,
    # A pair has a send queue, of which at most 2**14 exist.
    log_max_hairpin_queues=14,
    log_min_hairpin_wq_data_sz=13,
    log_max_hairpin_wq_data_sz=16,
    log_max_hairpin_num_packets=14,
)
"""General capabilities: queues whose packets are forwarded within the adapter."""

SHAMPO: Capabilities = group(
    shampo_header_split=1,
    shampo_header_split_data_merge=1,
    # Exponents: reservations of 4 to 512 KiB, headers of up to 512 bytes.
    shampo_log_min_reservation_size=12,
    shampo_log_max_reservation_size=19,
    shampo_log_max_headers_entry_size=9,
)
"""Group DEV_SHAMPO: headers of received packets are stored separately from their data."""

_FIELDS: Capabilities = group(
    dict.fromkeys(
        (
            "outer_dmac", "outer_smac", "outer_ether_type", "outer_ip_version", "outer_first_prio",
            "outer_first_cfi", "outer_first_vid", "outer_ipv4_ttl", "outer_second_prio",
            "outer_second_cfi", "outer_second_vid", "outer_sip", "outer_dip", "outer_frag",
            "outer_ip_protocol", "outer_ip_ecn", "outer_ip_dscp", "outer_udp_sport",
            "outer_udp_dport", "outer_tcp_sport", "outer_tcp_dport", "outer_tcp_flags",
            "outer_gre_protocol", "outer_gre_key", "outer_vxlan_vni", "outer_esp_spi",
            "bth_dst_qp",
            # In tunnels.
            "inner_ether_type", "inner_ip_version", "inner_sip", "inner_dip", "inner_frag",
            "inner_ip_protocol", "inner_ip_ecn", "inner_ip_dscp", "inner_udp_sport",
            "inner_udp_dport", "inner_tcp_sport", "inner_tcp_dport", "inner_tcp_flags",
        ),
        1,
    )
)  # fmt: skip
"""Fields that a flow group can match (``emu.device.engine.eth.steering.fields``)."""

METADATA: Capabilities = group({f"metadata_reg_c_{n}": 1 for n in range(8)})
"""Registers C of a packet that flow groups can match."""

TABLES: Capabilities = group(
    ft_support=1,
    flow_modify_en=1,
    modify_root=1,
    identified_miss_table_mode=1,
    flow_table_modify=1,
    log_max_ft_size=22,
    # Linux omits every priority that needs more levels, and does not load without the anchor's,
    # which on 7.2 needs 59 (core/fs_core.c: init_root_tree_recursive).
    max_ft_level=64,
    log_max_ft_num=10,
    log_max_destination=6,
    log_max_flow=16,
    flow_counter=1,
    log_max_flow_counter=2,
    ft_field_support=_FIELDS,
    ft_field_bitmask_support=_FIELDS,
)
"""Capabilities of all types of tables."""

_RECEIVE: Capabilities = group(
    TABLES,
    ignore_flow_level=1,
    # Header modifications by entries; tc flower needs them for its chains
    # (core/lib/fs_chains.c: create_chain_restore). Entries can write and match the registers C.
    log_max_modify_header_context=13,
    max_modify_header_actions=32,
    ft_field_support={**_FIELDS, **METADATA},
    ft_field_bitmask_support={**_FIELDS, **METADATA},
)
"""Capabilities of the tables of received packets."""

NIC_FLOW_TABLES: Capabilities = group(
    # A packet may reach several TIRs, through several tables: flows that do not trap need it
    # (core/fs_core.c: fwd_next_prio_supported).
    nic_rx_multi_path_tirs=1,
    nic_rx_multi_path_tirs_fts=1,
    flow_table_properties_nic_receive=_RECEIVE,
    # RoCE packets; the driver's optional counters (rdma statistic) count them there.
    flow_table_properties_nic_receive_rdma={**TABLES, "table_miss_action_domain": 1},
    flow_table_properties_nic_transmit_rdma=TABLES,
    ft_field_support_2_nic_receive_rdma={"bth_opcode": 1},
    ft_field_support_2_nic_transmit_rdma={"bth_opcode": 1},
    # Copies of all packets for sniffers, whose TIRs may also receive other packets (verbs'
    # IBV_FLOW_ATTR_SNIFFER, used by libpcap to capture on RDMA devices).
    allow_sniffer_and_nic_rx_shared_tir=1,
    flow_table_properties_nic_receive_sniffer=TABLES,
    flow_table_properties_nic_transmit_sniffer=TABLES,
)
"""Group FLOW_TABLE: tables for received packets, for RoCE packets in both directions, and for
sniffers."""

_TUNNEL_FIELDS: Capabilities = group(
    _FIELDS,
    METADATA,
    outer_geneve_vni=1,
    outer_geneve_oam=1,
    outer_geneve_protocol_type=1,
    outer_geneve_opt_len=1,
)
FLEX_PROTOCOLS = FlexProtocol.GENEVE | FlexProtocol.ICMP | FlexProtocol.ICMPV6
"""General capability flex_parser_protocols."""
TUNNEL_FLOW_TABLES: Capabilities = group(
    # Entries encapsulate packets that leave, and decapsulate packets that arrive.
    encap_general_header=1,
    log_max_packet_reformat_context=13,
    max_encap_header_size=256,
    flow_table_properties_nic_receive={
        **_RECEIVE,
        "decap": 1,
        "reformat": 1,
        "reformat_l3_tunnel_to_l2": 1,
        "reformat_and_modify_action": 1,
        "ft_field_support": _TUNNEL_FIELDS,
        "ft_field_bitmask_support": _TUNNEL_FIELDS,
    },
    # Packets of Ethernet send queues (egress flows of verbs).
    flow_table_properties_nic_transmit={
        **_RECEIVE,
        "reformat": 1,
        "reformat_l2_to_l3_tunnel": 1,
        "reformat_and_modify_action": 1,
        "ft_field_support": _TUNNEL_FIELDS,
        "ft_field_bitmask_support": _TUNNEL_FIELDS,
    },
)
"""Group FLOW_TABLE, since ConnectX-5: tables for sent packets, and tunnels in both directions."""

PACING: Capabilities = group(
    packet_pacing=1,
    packet_pacing_burst_bound=1,
    packet_pacing_typical_size=1,
    packet_pacing_uid=1,
    packet_pacing_min_rate=1,  # kb/s
    packet_pacing_rate_table_size=128,  # entry 0 is no limit
)
"""Group QOS: rates of send queues (tx_maxrate); :func:`with_port_rate` adds the fastest one."""

_KBPS_PER_MBPS: Final = 1000


def with_port_rate(model: Model) -> Model:
    """Return the model with its port's speed as packet_pacing_max_rate; as it is without pacing.

    Linux prints this rate in units of 1024 kb/s (core/rl.c: mlx5_init_rl_table). Public logs of
    ports of 25, 100 and 200 Gb/s have 24414, 97656 and 195312 Mbps.
    """
    if not model.qos.get("packet_pacing"):
        return model
    return model.extended(qos={"packet_pacing_max_rate": model.port_mbps * _KBPS_PER_MBPS})


_TSAR, _QUEUE_GROUP, _DWRR = 1 << 0, 1 << 4, 1 << 0

SCHEDULING: Capabilities = group(
    nic_sq_scheduling=1,
    nic_qp_scheduling=1,
    nic_bw_share=1,
    nic_rate_limit=1,
    log_max_qos_nic_queue_group=8,
    max_tsar_bw_share=100,
    nic_element_type=_TSAR | _QUEUE_GROUP,
    nic_tsar_type=_DWRR,
)
"""Group QOS: trees of rates and bandwidth shares (tc's htb and mqprio, offloaded; queue pairs of
verbs).
"""

_OBJECTS: int = BASE_GENERAL["general_obj_types"]
SCHEDULING_OBJECTS: Capabilities = group(
    general_obj_types=_OBJECTS | 1 << GeneralObject.SCHEDULING_ELEMENT
)
"""Processes create such trees as general objects (rdma-core checks the types of elements only)."""

_ROCE_V1, _ROCE_V2 = 1 << RoceVersion.VERSION_1, 1 << RoceVersion.VERSION_2
_IPV4, _IPV6 = 1 << 1, 1 << 2

ROCE: Capabilities = group(
    # mlx5_ib needs both kinds of addresses to offer RoCE (hw/main.c: get_core_cap_flags). Each
    # address is in the GID table twice, first for version 1.
    l3_type=_IPV4 | _IPV6,
    roce_version=_ROCE_V1 | _ROCE_V2,
    roce_address_table_size=255,
    r_roce_dest_udp_port=4791,
    sw_r_roce_src_udp_port=1,
    r_roce_min_src_udp_port=0xC000,
    r_roce_max_src_udp_port=0xFFFF,
)
"""Group ROCE."""
